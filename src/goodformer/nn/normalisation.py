"""Normalisation layers by name, and an MLP with BatchNorm."""

from __future__ import annotations

from typing import Literal

from torch import nn

from goodformer.nn.dropout import dropout

Norm = Literal["layer", "batch", "none"]


def norm_layer(kind: Norm, dim: int) -> nn.Module:
    """Return a normalisation over each node (``layer``), over the batch (``batch``), or the identity (``none``)."""
    if kind == "none":
        return nn.Identity()
    return nn.LayerNorm(dim) if kind == "layer" else nn.BatchNorm1d(dim)


def normed_mlp(dim: int, hidden: int, out: int, p: float = 0.0) -> nn.Sequential:
    """Return Linear, BatchNorm, ReLU, dropout, Linear; the first has no bias, because BatchNorm would cancel it."""
    first = nn.Linear(dim, hidden, bias=False)
    return nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), dropout(p), nn.Linear(hidden, out))
