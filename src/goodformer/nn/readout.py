"""Sums and means over the nodes of each graph."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.layout import Layout


def sum_nodes(h: Tensor, layout: Layout) -> Tensor:
    """(N, D) -> (B, D), the sum over each graph's nodes."""
    return h.new_zeros(layout.num_graphs, h.shape[1]).index_add(0, layout.graph, h)


def mean_nodes(h: Tensor, layout: Layout) -> Tensor:
    """(N, D) -> (B, D), the mean over each graph's nodes."""
    return sum_nodes(h, layout) / layout.sizes[:, None]


def weighted(h: Tensor, layout: Layout, weight: Tensor) -> Tensor:
    """Scale node embeddings (N, D) so that their mean over a graph is the mean of ``h`` weighted by ``weight`` (N,)."""
    total = weight.new_zeros(layout.num_graphs).index_add(0, layout.graph, weight)
    factor = weight * (layout.sizes / total.clamp(min=1e-6))[layout.graph]
    return h * factor[:, None]


def node_share(mask: Tensor, layout: Layout) -> Tensor:
    """Return each node's share in the subgraph of a mask (E,): sum of M^2 / sum of M over its edges, (N,).

    This mean weights edges by the mask. A motif node with one more edge to the rest still belongs to the motif, and a
    hub with many edges of small weight has a small share. A node without edges has share 1.
    """
    both = torch.stack((mask.square(), mask))  # (2, E)
    squares, total = mask.new_zeros(2, layout.num_nodes).index_add(1, layout.dst, both)
    lonely = torch.ones_like(total).index_fill(0, layout.dst, 0.0)
    return squares / total.clamp(min=1e-6) + lonely
