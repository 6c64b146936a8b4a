"""A local web page and its JSON interface for fitted models."""
