"""Normalisation layers by name."""

from __future__ import annotations

from typing import Literal

from torch import nn

Norm = Literal["layer", "batch", "none"]


def norm_layer(kind: Norm, dim: int) -> nn.Module:
    """``layer`` sees one node alone; ``batch`` sees the whole batch in training and running averages after."""
    if kind == "none":
        return nn.Identity()
    return nn.LayerNorm(dim) if kind == "layer" else nn.BatchNorm1d(dim)
