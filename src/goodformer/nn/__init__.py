"""Layers: tensors with an equation number."""
