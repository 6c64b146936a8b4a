"""The configuration of a run and the settings it is made from; nothing here imports torch."""
