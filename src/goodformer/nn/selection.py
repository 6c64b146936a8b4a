"""Selection of a subgraph: the highest-scoring share of each graph's edges, and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from goodformer.nn.layout import Layout


@dataclass(frozen=True)
class SelectedEdges:
    """The edges of one side of a split graph.

    Attributes:
        edge_weight: Weight of every edge, 0 for edges of the other side, (E,).
        node_factor: n_G / |V_part| at the nodes of the side's edges and 0 elsewhere, (N, 1). The mean over a graph of
            embeddings times this factor is the mean over the side's nodes.
    """

    edge_weight: Tensor
    node_factor: Tensor


def split(score: Tensor, layout: Layout, share: float) -> tuple[SelectedEdges, SelectedEdges]:
    """Split each graph into its top ``share`` of edges, weighted sigmoid(s), and the rest, weighted sigmoid(-s)."""
    keep, weight = top_edges(score, layout, share), score.sigmoid()
    invariant = SelectedEdges(weight * keep, node_factor(keep, layout))
    return invariant, SelectedEdges((1 - weight) * ~keep, node_factor(~keep, layout))


def top_edges(score: Tensor, layout: Layout, share: float) -> Tensor:
    """Mark the ceil(share * E_G) highest-scoring directed edges of each graph, (E,)."""
    return _best(score, layout.graph[layout.src], layout.num_graphs, share)


def top_pairs(score: Tensor, layout: Layout, share: float) -> Tensor:
    """Mark edges as `top_edges` does, but keep or drop both directions together by their mean score, (E,)."""
    number, count = layout.undirected()
    total, degree = score.new_zeros(2, count).index_add(1, number, torch.stack((score, torch.ones_like(score))))
    graph = number.new_zeros(count).scatter_(0, number, layout.graph[layout.src])
    return _best(total / degree, graph, layout.num_graphs, share)[number]


def top_in_batch(score: Tensor, share: float) -> Tensor:
    """Mark the ceil(share * E) highest-scoring edges of the whole batch, (E,)."""
    return _best(score, torch.zeros_like(score, dtype=torch.long), 1, share)


def straight_through(keep: Tensor, soft: Tensor) -> Tensor:
    """Return ``keep`` as 0 and 1, with the gradient of ``soft``."""
    return soft + (keep.to(soft) - soft).detach()


def node_factor(keep: Tensor, layout: Layout) -> Tensor:
    """Return the node factor of `SelectedEdges`, (N, 1); if no edge of a graph is kept, all its nodes count."""
    ends = torch.cat((layout.src[keep], layout.dst[keep]))
    inside = torch.zeros(layout.num_nodes, device=ends.device).index_fill(0, ends, 1.0)
    size = torch.zeros(layout.num_graphs, device=ends.device).index_add(0, layout.graph, inside)  # (B,)
    factor = inside * (layout.sizes / size.clamp(min=1))[layout.graph]
    return torch.where(size[layout.graph] > 0, factor, 1.0)[:, None]


def _best(score: Tensor, group: Tensor, groups: int, share: float) -> Tensor:
    """Mark the ceil(share * size) highest scores of each group; ties keep their order."""
    sizes = torch.bincount(group, minlength=groups)
    quota = (sizes.double() * share - 1e-6).ceil()  # in floating point 0.55 * 100 exceeds 55
    order = _coarse(score).argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]  # by group, then score, then position
    rank = torch.arange(order.numel(), device=order.device) - (sizes.cumsum(0) - sizes)[group[order]]
    return torch.empty_like(rank, dtype=torch.bool).scatter_(0, order, rank < quota[group[order]])


def _coarse(score: Tensor) -> Tensor:
    """Round scores to 14 binary digits, so that equal edges tie whatever the rounding of the batch."""
    mantissa, exponent = torch.frexp(score.detach())
    return torch.ldexp((mantissa * 2**14).round(), exponent)
