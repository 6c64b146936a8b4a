"""The two-layer perceptron that most layers end in."""

from __future__ import annotations

from torch import nn

from goodformer.nn.dropout import dropout


def mlp(dim: int, hidden: int, out: int, p: float = 0.0) -> nn.Sequential:
    """Linear, ReLU, dropout, Linear."""
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), dropout(p), nn.Linear(hidden, out))
