"""From edge scores to subgraphs, figures of merit and pictures."""
