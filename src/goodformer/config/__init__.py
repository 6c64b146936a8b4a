"""What a run is, before anything is trained."""
