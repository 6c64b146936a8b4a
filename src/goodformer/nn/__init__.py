"""Layers: learnable modules and functions on tensors, one equation each."""
