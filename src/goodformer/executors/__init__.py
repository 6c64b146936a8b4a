"""Where many runs are executed."""
