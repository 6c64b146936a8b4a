"""Training, evaluation and records: from a configuration to a finished run."""
