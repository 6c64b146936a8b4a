"""Two-layer perceptron."""

from __future__ import annotations

from torch import nn

from goodformer.nn.dropout import dropout


def mlp(dim: int, hidden: int, out: int, p: float = 0.0) -> nn.Sequential:
    """Return Linear, ReLU, dropout, Linear."""
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), dropout(p), nn.Linear(hidden, out))
