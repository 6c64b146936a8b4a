"""Counts of local environments and of pairs of nodes, and the edges that they cover."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.distance import hop_distances
from goodformer.nn.layout import Layout


def fold(codes: Tensor, table: int) -> Tensor:
    """Return the column of each environment in a table of the given size, -1 where there is none, same shape."""
    return torch.where(codes < 0, -1, codes.remainder(table))


def count(columns: Tensor, graph: Tensor, graphs: int, table: int, weight: Tensor | None = None) -> Tensor:
    """Return how often each column occurs in each graph (B, table), float32.

    Args:
        columns: Columns of the environments around each node, -1 for none, (N, R + 1).
        graph: Graph of each node, (N,).
        graphs: Number of graphs B.
        table: Number of columns.
        weight: What each environment counts, (N, R + 1); 1 by default.
    """
    there = columns >= 0
    place = graph[:, None] * table + columns.clamp(min=0)
    each = there.float() if weight is None else weight * there
    return each.new_zeros(graphs * table).index_add(0, place.flatten(), each.flatten()).view(graphs, table)


class Balls:
    """The undirected edges of the environment of radius 1, 2, ..., R around each node.

    An environment of radius r holds the nodes at most r steps away and every edge with an end less than r steps away,
    as in Morgan's algorithm.

    Args:
        edge_index: Directed edges, each in both directions, (2, E).
        nodes: Number of nodes N.
        radius: Largest radius R, at least 1.

    Attributes:
        number: The undirected edge of each directed edge, (E,).
        inside: For each radius from 1 on, the centre of each environment and one of its edges, both (K,).
    """

    def __init__(self, edge_index: Tensor, nodes: int, radius: int) -> None:
        source, target = edge_index
        keys, self.number = (edge_index.amin(0) * nodes + edge_index.amax(0)).unique(return_inverse=True)
        self.nodes, self.edges = nodes, max(len(keys), 1)
        by_source = source.argsort(stable=True)  # (E,)
        degree = source.bincount(minlength=nodes)  # (N,)
        first = degree.cumsum(0) - degree  # (N,)
        centre = reached = torch.arange(nodes, device=edge_index.device)
        self.inside: list[tuple[Tensor, Tensor]] = []
        for _ in range(radius):
            steps = degree[reached]
            shift = first[reached] - steps.cumsum(0) + steps
            leaving = by_source[torch.arange(int(steps.sum()), device=steps.device) + shift.repeat_interleave(steps)]
            origin = centre.repeat_interleave(steps)
            held = (origin * self.edges + self.number[leaving]).unique()
            self.inside.append((held // self.edges, held % self.edges))
            pairs = torch.cat((centre * nodes + reached, origin * nodes + target[leaving])).unique()
            centre, reached = pairs // nodes, pairs % nodes

    def spread(self, values: Tensor) -> Tensor:
        """Share the value of each environment (N, R + 1) equally among its edges; return the sums, (E,).

        The environment of radius 0 is a node: its value goes to the edges at the node.
        """
        total = values.new_zeros(self.edges)
        for radius, value in enumerate(values.unbind(1)):
            centre, edge = self.inside[max(radius - 1, 0)]
            share = value / centre.bincount(minlength=self.nodes).clamp(min=1)
            total = total.index_add(0, edge, share[centre])
        return total[self.number]

    def weights(self, edge_weight: Tensor, radius: int) -> Tensor:
        """Return what each environment counts, the product of the weights (E,) of its edges, (N, R + 1)."""
        sums = edge_weight.new_zeros(self.edges).index_add(0, self.number, edge_weight)
        mean = sums / self.number.bincount(minlength=self.edges).clamp(min=1)
        ones = edge_weight.new_ones(self.nodes)
        around = [ones.scatter_reduce(0, centre, mean[edge], "prod") for centre, edge in self.inside[:radius]]
        return torch.stack((ones, *around), 1)


class Pairs:
    """The pairs of nodes of a graph that are 1 to R hops apart, each once, and the column that counts them.

    The column hashes the codes of both nodes and the hops between them, so pairs of equal nodes at equal distance share
    a column: the atom pairs of a molecule, or the shortest-path kernel of any graph.

    Args:
        layout: Positions of nodes and edges.
        codes: Code of every node, (N,).
        reach: Largest number of hops R.
        table: Number of columns.

    Attributes:
        first, second: The two nodes of each pair, (P,).
        column: The column of each pair, (P,).
    """

    def __init__(self, layout: Layout, codes: Tensor, reach: int, table: int) -> None:
        self.layout, self.reach = layout, reach
        self.hops = hop_distances(layout, reach + 1)  # (N, n)
        place = torch.arange(layout.width, device=codes.device)
        near = (self.hops >= 1) & (self.hops <= reach) & (place > layout.local[:, None])
        self.first, self.place = near.nonzero(as_tuple=True)
        self.second = self.first + self.place - layout.local[self.first]
        a, b = codes[self.first], codes[self.second]
        apart = self.hops[self.first, self.place]
        mixed = torch.minimum(a, b) * 6364136223846793005 + torch.maximum(a, b) * 1442695040888963407 + apart
        self.column = _mixed(mixed).remainder(table)

    def weights(self, edge_weight: Tensor) -> Tensor:
        """Return the largest product of edge weights (E,) along a shortest path of each pair, (P,)."""
        hops, (src, dst) = self.hops, (self.layout.src, self.layout.dst)
        product = (hops == 0).to(edge_weight)  # (N, n)
        before, after = hops[src], hops[dst]  # (E, n)
        target = dst[:, None].expand_as(before)
        for hop in range(1, self.reach + 1):
            ends = (before == hop - 1) & (after == hop)  # edges that end a shortest path of so many hops
            longer = torch.where(ends, product[src] * edge_weight[:, None], 0.0)
            product = product.scatter_reduce(0, target, longer, "amax")
        return product[self.first, self.place]

    def spread(self, values: Tensor) -> Tensor:
        """Share the value of each pair (P,) equally between its nodes; return the sums, (N,)."""
        total = values.new_zeros(self.layout.num_nodes)
        return total.index_add(0, self.first, values / 2).index_add(0, self.second, values / 2)


def signs(rows: int, columns: int) -> Tensor:
    """Return a fixed matrix of 1 and -1 that looks random, for random projections; the same on every machine."""
    mixed = _mixed(torch.arange(rows * columns) * -7046029254386353131)  # the 64-bit golden ratio; products wrap around
    return torch.where(mixed < 0, -1.0, 1.0).view(rows, columns)


def _mixed(values: Tensor) -> Tensor:
    """Return 64-bit integers whose bits all depend on all bits of the given ones (SplitMix64)."""
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        values = (values ^ ((values >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return values
