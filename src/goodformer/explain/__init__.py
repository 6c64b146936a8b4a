"""From edge scores to subgraphs and measurements of their quality; no files and no pictures."""
