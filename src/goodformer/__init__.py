"""Graph classification that keeps working when the data shift."""

__version__ = "0.1.0"
