"""Sums and means over the nodes of each graph."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.layout import Layout


def sum_nodes(h: Tensor, layout: Layout) -> Tensor:
    """(N, D) -> (B, D), the sum over each graph's nodes."""
    return h.new_zeros(layout.num_graphs, h.shape[1]).index_add(0, layout.graph, h)


def mean_nodes(h: Tensor, layout: Layout, weight: Tensor | None = None) -> Tensor:
    """(N, D) -> (B, D), the mean over each graph's nodes, weighted by ``weight`` (N,) where given."""
    if weight is None:
        return sum_nodes(h, layout) / layout.sizes[:, None]
    total = h.new_zeros(layout.num_graphs).index_add(0, layout.graph, weight)
    return sum_nodes(h * weight[:, None], layout) / total.clamp(min=1e-6)[:, None]


def node_weight(edge_weight: Tensor, layout: Layout) -> Tensor:
    """The mean weight of the edges at each node (N,); a node without edges weighs 1."""
    counts = edge_weight.new_zeros(2, layout.num_nodes)
    both = torch.stack((edge_weight, torch.ones_like(edge_weight)))  # (2, E)
    total, degree = counts.index_add(1, layout.dst, both)
    return torch.where(degree > 0, total / degree.clamp(min=1), 1.0)
