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
    """The pairs of nodes of a graph that are 1 to R hops apart, and the column that counts them.

    The column hashes the codes of both nodes and the hops between them, so pairs of equal nodes at equal distance share
    a column: the atom pairs of a molecule, or the shortest-path kernel of any graph.

    Args:
        layout: Positions of nodes and edges.
        codes: Code of every node, (N,).
        reach: Largest number of hops R.
        table: Number of columns.
    """

    def __init__(self, layout: Layout, codes: Tensor, reach: int, table: int) -> None:
        self.layout, self.reach, self.table, self.parts = layout, reach, table, layout.parts()
        self.squares = [_Square(part, codes[nodes], reach, table) for part, nodes, _ in self.parts]

    def count(self, edge_weight: Tensor | None = None) -> Tensor:
        """Return how often each column occurs in each graph (B, table).

        A pair counts the largest product of edge weights (E,) along one of its shortest paths; 1 by default.
        """
        found = []
        for (part, _, edges), square in zip(self.parts, self.squares, strict=True):
            weight = None if edge_weight is None else square.products(part, edge_weight[edges], self.reach)
            found.append(count(square.column, part.graph, part.num_graphs, self.table, weight))
        return self.layout.by_graph(found)

    def spread(self, values: Tensor) -> Tensor:
        """Share the value of each pair, by graph and column (B, table), equally between its nodes; the sums, (N,)."""
        total = values.new_zeros(self.layout.num_nodes)
        for (_, nodes, _), square in zip(self.parts, self.squares, strict=True):
            graph = self.layout.graph[nodes, None]
            half = values[graph, square.column.clamp(min=0)] * (square.column >= 0) / 2  # (N, n)
            total = total.index_add(0, nodes, half.sum(1))
            total = total.index_add(0, nodes[square.second].flatten(), half.flatten())
        return total


class _Square:
    """The pairs of the graphs of one bucket: row = first node, column = index of the second node in its graph.

    Attributes:
        hops: Distances from `hop_distances`, (N, n).
        second: Number of the second node, (N, n).
        column: The column that counts the pair, -1 if the nodes are no pair or the pair is that of another row, (N, n).
    """

    def __init__(self, layout: Layout, codes: Tensor, reach: int, table: int) -> None:
        place = torch.arange(layout.num_nodes, device=codes.device)[:, None] - layout.local[:, None]
        index = torch.arange(layout.width, device=codes.device)
        self.hops = hop_distances(layout, reach + 1)
        self.second = (place + index).clamp(max=layout.num_nodes - 1)
        first, second = codes[:, None], codes[self.second]
        low = torch.where(first < second, first, second)  # onnxruntime's minimum is wrong for integers above 2^31
        high = first + second - low
        mixed = _mixed(low * 6364136223846793005 + high * 1442695040888963407 + self.hops)  # products wrap around
        near = (self.hops >= 1) & (self.hops <= reach) & (index > layout.local[:, None])
        self.column = torch.where(near, mixed.remainder(table), -1)

    def products(self, layout: Layout, edge_weight: Tensor, reach: int) -> Tensor:
        """Return the largest product of edge weights (E,) along a shortest path of each pair, (N, n)."""
        product = (self.hops == 0).to(edge_weight)
        before, after = self.hops[layout.src], self.hops[layout.dst]  # (E, n)
        target = layout.dst[:, None].expand_as(before)
        for hop in range(1, reach + 1):
            ends = (before == hop - 1) & (after == hop)  # edges that end a shortest path of so many hops
            longer = torch.where(ends, product[layout.src] * edge_weight[:, None], 0.0)
            product = product.scatter_reduce(0, target, longer, "amax")
        return product


def signs(rows: int, columns: int) -> Tensor:
    """Return a fixed matrix of 1 and -1 that looks random, for random projections; the same on every machine."""
    mixed = _mixed(torch.arange(rows * columns) * -7046029254386353131)  # the 64-bit golden ratio; products wrap around
    return torch.where(mixed < 0, -1.0, 1.0).view(rows, columns)


def _mixed(values: Tensor) -> Tensor:
    """Return 64-bit integers whose bits all depend on all bits of the given ones (SplitMix64)."""
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        values = (values ^ ((values >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return values
