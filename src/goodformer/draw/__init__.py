"""Pictures: graphs with their subgraphs, molecules, splits."""
