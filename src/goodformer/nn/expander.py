"""Expander graphs over the nodes of each graph of a batch: few edges, short ways."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.colours import mix, rank_nodes, refine_colours
from goodformer.nn.layout import Layout


def expander_edges(layout: Layout, inputs: Tensor, cycles: int, seed: int = 0, rounds: int = 6) -> Tensor:
    """Edges (2, K) of the union of random Hamiltonian cycles over each graph, both directions.

    Every node has 2 * ``cycles`` neighbours, counted as often as cycles join them; such a union is an expander with
    high probability. A graph too small for so many neighbours is joined completely.

    The cycles of a graph follow from a hash of the graph: they are the same in every epoch, alone or in any batch, and
    move along when nodes are renumbered, up to nodes that colour refinement cannot tell apart.

    Args:
        layout: Where nodes and edges are.
        inputs: Node features (N, F), which tell nodes apart beside the structure.
        cycles: Number of cycles.
        seed: Other numbers give other cycles.
        rounds: Of colour refinement.
    """
    enough = layout.sizes > 2 * cycles + 1  # (B,)
    order = _orders(layout, refine_colours(layout, inputs, rounds), cycles, seed)  # (cycles, N)
    following = order[:, _next_place(layout)]
    wanted = enough[layout.graph]  # places of a graph are those of its nodes
    there, back = order[:, wanted].flatten(), following[:, wanted].flatten()
    return torch.cat((torch.stack((there, back)), torch.stack((back, there)), _all_pairs(layout, ~enough)), 1)


def _orders(layout: Layout, colour: Tensor, count: int, seed: int) -> Tensor:
    """Random orders of the nodes of each graph, graph after graph, (count, N)."""
    about = torch.zeros_like(layout.sizes).index_add(0, layout.graph, mix(colour))  # a hash of each graph, (B,)
    draws = torch.arange(count, device=colour.device)[:, None] + 1_000_003 * (seed + 1)
    key = mix(mix(rank_nodes(colour, layout) + mix(draws)) ^ about[layout.graph])  # (count, N)
    by_key = key.argsort(1)
    return by_key.gather(1, layout.graph[by_key].argsort(dim=1, stable=True))


def _next_place(layout: Layout) -> Tensor:
    """The place after each place (N,) around the circle of its graph."""
    place = torch.arange(layout.num_nodes, device=layout.graph.device)
    last = layout.local == layout.sizes[layout.graph] - 1
    return torch.where(last, place - layout.local, place + 1)


def _all_pairs(layout: Layout, chosen: Tensor) -> Tensor:
    """Every pair of different nodes of the chosen graphs (B,), as edges (2, K)."""
    width = int(layout.sizes[chosen].max()) if bool(chosen.any()) else 0
    node = (layout.mask & chosen[:, None])[:, :width]  # (B, w)
    pairs = node[:, :, None] & node[:, None] & ~torch.eye(width, dtype=torch.bool, device=node.device)
    graph, source, target = pairs.nonzero(as_tuple=True)
    first = (layout.sizes.cumsum(0) - layout.sizes)[graph]
    return torch.stack((first + source, first + target))
