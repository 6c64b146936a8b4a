"""Expander graphs over the nodes of each graph: sparse graphs with short paths."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.colours import mix, rank_by_counting, rank_nodes, refine_colours
from goodformer.nn.layout import Layout


def expander_edges(
    layout: Layout, inputs: Tensor, cycles: int, seed: int = 0, rounds: int = 6
) -> tuple[Tensor, Tensor | None]:
    """Return the edges (2, K), both directions, of random Hamiltonian cycles over each graph, and which of them exist.

    For a layout with positions, K does not depend on values: edges of cycles and all pairs are returned for every
    graph, and a mask (K,) says which of them exist. Otherwise it is None and all do.

    Every node has 2 * ``cycles`` neighbours, with multiplicity; such a union is an expander with high probability. A
    graph too small for so many neighbours becomes a complete graph.

    The cycles derive from a hash of the graph: they are the same in every epoch and every batch, and renumbering the
    nodes renumbers them, up to nodes that colour refinement cannot distinguish.

    Args:
        layout: Positions of nodes and edges.
        inputs: Node features (N, F), which enter the hash.
        cycles: Number of cycles.
        seed: Seed of the hash.
        rounds: Rounds of colour refinement.
    """
    enough = layout.sizes > 2 * cycles + 1  # (B,)
    order = _orders(layout, refine_colours(layout, inputs, rounds), cycles, seed)  # (cycles, N)
    following = order[:, _next_place(layout)]
    if layout.positions is not None:
        on_cycle = enough[layout.graph].repeat(2 * cycles)
        pairs, there = _padded_pairs(layout, ~enough)
        cycle = torch.stack((order.flatten(), following.flatten()))
        return torch.cat((cycle, cycle.flip(0), pairs), 1), torch.cat((on_cycle, there))
    wanted = enough[layout.graph]  # places of a graph are those of its nodes
    there, back = order[:, wanted].flatten(), following[:, wanted].flatten()
    return torch.cat((torch.stack((there, back)), torch.stack((back, there)), _all_pairs(layout, ~enough)), 1), None


def _orders(layout: Layout, colour: Tensor, count: int, seed: int) -> Tensor:
    """Return ``count`` random orders of the nodes of each graph, (count, N)."""
    about = torch.zeros_like(layout.sizes).index_add(0, layout.graph, mix(colour))  # a hash of each graph, (B,)
    draws = torch.arange(count, device=colour.device)[:, None] + 1_000_003 * (seed + 1)
    key = mix(mix(rank_nodes(colour, layout) + mix(draws)) ^ about[layout.graph])  # (count, N)
    if layout.positions is not None:
        first = (layout.sizes.cumsum(0) - layout.sizes)[layout.graph]
        place = first + rank_by_counting(key.T, layout).T  # (count, N)
        nodes = torch.arange(layout.num_nodes, device=key.device).expand_as(place)
        return torch.zeros_like(place).scatter(1, place, nodes)
    by_key = key.argsort(1)
    return by_key.gather(1, layout.graph[by_key].argsort(dim=1, stable=True))


def _next_place(layout: Layout) -> Tensor:
    """Return the position after each position (N,) on the cycle of its graph."""
    place = torch.arange(layout.num_nodes, device=layout.graph.device)
    last = layout.local == layout.sizes[layout.graph] - 1
    return torch.where(last, place - layout.local, place + 1)


def _padded_pairs(layout: Layout, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return all pairs of positions of all graphs as edges (2, B n n), and which join two nodes of a chosen graph."""
    assert layout.positions is not None
    node = (layout.sizes.cumsum(0) - layout.sizes)[:, None] + layout.positions  # (B, n)
    there = (layout.positions < layout.sizes[:, None]) & chosen[:, None]
    node = node.clamp(max=layout.num_nodes - 1)
    source, target = torch.broadcast_tensors(node[:, :, None], node[:, None])
    other = layout.positions[:, None] != layout.positions
    return torch.stack((source.flatten(), target.flatten())), (there[:, :, None] & there[:, None] & other).flatten()


def _all_pairs(layout: Layout, chosen: Tensor) -> Tensor:
    """Return all pairs of different nodes of the chosen graphs (B,), as edges (2, K)."""
    width = int(layout.sizes[chosen].max()) if bool(chosen.any()) else 0
    node = (torch.arange(width, device=chosen.device) < layout.sizes[:, None]) & chosen[:, None]  # (B, w)
    pairs = node[:, :, None] & node[:, None] & ~torch.eye(width, dtype=torch.bool, device=node.device)
    graph, source, target = pairs.nonzero(as_tuple=True)
    first = (layout.sizes.cumsum(0) - layout.sizes)[graph]
    return torch.stack((first + source, first + target))
