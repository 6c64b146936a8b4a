"""Binary concrete samples of edges, and values shared by both directions of an edge."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.layout import Layout


def logistic_noise(count: int, device: torch.device) -> Tensor:
    """Draw log u - log(1 - u) with u uniform on (0, 1), as (count,)."""
    return torch.rand(count, device=device).clamp(1e-6, 1 - 1e-6).logit()


def shared_noise(layout: Layout) -> Tensor:
    """Draw logistic noise for every edge (E,), the same for its two directions."""
    number, count = layout.undirected()
    return logistic_noise(count, number.device)[number]


def concrete(logits: Tensor, noise: Tensor, temperature: float = 1.0) -> Tensor:
    """Return sigmoid((a + noise) / t), samples in (0, 1) that exceed 1/2 with probability sigmoid(a)."""
    return ((logits + noise) / temperature).sigmoid()


def both_directions(values: Tensor, layout: Layout) -> Tensor:
    """Give both directions of an edge their mean (E,); an edge without a reverse keeps its value."""
    pairs = torch.stack((values, torch.ones_like(values)))  # (2, E)
    if layout.positions is not None:  # no search for equal pairs: its result has a size that depends on values
        n, local, graph = layout.width, layout.local, layout.graph[layout.dst]
        there = (graph * n + local[layout.dst]) * n + local[layout.src]
        back = (graph * n + local[layout.src]) * n + local[layout.dst]
        squares = values.new_zeros(2, layout.num_graphs * n * n).index_add(1, there, pairs)
        total, members = squares[:, there] + squares[:, back]
        return total / members
    number, count = layout.undirected()
    total, members = values.new_zeros(2, count).index_add(1, number, pairs)
    return (total / members)[number]
