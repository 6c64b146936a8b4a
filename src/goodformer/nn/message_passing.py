"""Message passing along weighted edges."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.nn.layout import Layout

Aggregation = Literal["sum", "mean", "log"]


def gather_messages(
    h: Tensor, layout: Layout, edges: Tensor | None, weight: Tensor | None, aggregation: Aggregation
) -> Tensor:
    """Aggregate w_uv h_u, or w_uv ReLU(h_u + e_uv) with edge features e, over the neighbours u of v, as (N, D).

    Edge features have one row per edge, (E, D), or one row that all edges share, (1, D).

    ``sum`` adds, ``mean`` divides by the weighted degree d, and ``log`` multiplies the mean by log(1 + d), which grows
    with the degree but stays moderate at hubs larger than any in training.
    """
    if edges is not None and edges.shape[0] == 1:  # the message of a node is the same along all its edges
        messages = F.relu(h + edges).index_select(0, layout.src)  # (E, D)
    else:
        messages = h.index_select(0, layout.src)
        messages = messages if edges is None else F.relu(messages + edges)
    if weight is not None:
        messages = messages * weight[:, None]
    total = torch.zeros_like(h).index_add(0, layout.dst, messages)
    if aggregation == "sum":
        return total
    degree = h.new_zeros(layout.num_nodes).index_add(0, layout.dst, _ones(layout, h) if weight is None else weight)
    mean = 1 / degree.clamp(min=1e-3)
    return total * (mean if aggregation == "mean" else mean * torch.log1p(degree))[:, None]


def _ones(layout: Layout, like: Tensor) -> Tensor:
    return like.new_ones(layout.src.numel())


class GIN(nn.Module):
    """h'_v = MLP(h_v + sum_u w_uv m_uv) with m_uv = h_u, or ReLU(h_u + e_uv) with edge features (GINE).

    Args:
        mlp: Network applied to the sum.
        aggregation: How messages are combined.
    """

    def __init__(self, mlp: nn.Module, aggregation: Aggregation = "sum") -> None:
        super().__init__()
        self.mlp = mlp
        self.aggregation: Aggregation = aggregation

    def forward(self, h: Tensor, layout: Layout, edges: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """(N, D) -> (N, D'), edge vectors (E, D) and edge weights (E,) optional."""
        return self.mlp(h + gather_messages(h, layout, edges, weight, self.aggregation))
