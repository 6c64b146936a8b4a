"""Positions of the nodes of a batch in padded tensors, computed once per batch and passed to every layer.

Graphs of similar size share a bucket and are padded to the largest graph of their bucket, so one large graph does not
set the cost of its batch. Attention runs bucket by bucket, all else on the nodes of the whole batch.

A batch may carry ``positions``, the numbers 0 .. n - 1 for graphs of at most n nodes. Then all graphs share one bucket,
and no shape depends on a value: exported models need this.

Letters used in shapes throughout: N nodes, E edges, B graphs, H heads, D width, C classes; b graphs of a bucket, n
padded nodes of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from goodformer.batch import Batch
from goodformer.limits import check_pairs

Squares = list[Tensor]
"""Values of all node pairs: one tensor (b, H, n, n) per bucket; row = target (query), column = source (key)."""

ROW_COST, BUCKET_COST = 50, 10_000
"""Cost of a padded row and of a bucket in node pairs, found by trying a few values on training steps on Motif."""


class _Pad(torch.autograd.Function):
    """Scatter of rows into a zero tensor. Positions are distinct, so the gradient is a gather."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(place)
        return rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, place, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Unpad.apply(grad, ctx.saved_tensors[0]), None, None


class _Unpad(torch.autograd.Function):
    """Gather of rows. Positions are distinct, so the gradient is a copy instead of a sum."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.size = padded.shape[0]
        return padded.index_select(0, place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Pad.apply(grad, ctx.saved_tensors[0], ctx.size), None


@dataclass(frozen=True)
class Bucket:
    """Graphs of a batch that are padded to the same number of nodes.

    Attributes:
        graphs: Their positions in the batch, (b,).
        width: Nodes per graph after padding, n.
        mask: True where a padded row is a node, (b, n).
    """

    graphs: Tensor
    width: int
    mask: Tensor


class Layout:
    """Graphs, nodes and edges of one batch, and the padding of its buckets.

    Attributes:
        graph: The graph of every node, (N,).
        sizes: Nodes in every graph, (B,).
        local: Index of every node in its graph, (N,).
        src, dst: Source and target node of every edge, (E,).
    """

    def __init__(self, batch: Batch) -> None:
        ptr = batch.ptr
        self.graph: Tensor = batch.batch
        self.sizes: Tensor = ptr.diff()
        self.num_nodes = self.graph.numel()
        self.num_graphs = self.sizes.numel()
        self.local: Tensor = torch.arange(self.num_nodes, device=ptr.device) - ptr[self.graph]  # (N,)
        self.src, self.dst = batch.edge_index[0], batch.edge_index[1]
        self._batch = batch

    @cached_property
    def positions(self) -> Tensor | None:
        """The numbers 0 .. n - 1 if the batch carries them, (n,)."""
        return self._batch.positions if "positions" in self._batch else None

    @cached_property
    def width(self) -> int:
        """Nodes of the largest graph, or the number of positions."""
        if self.positions is not None:
            return self.positions.shape[0]
        return int(self.sizes.max()) if self.num_graphs else 0

    # ---------------------------------------------------------------- buckets

    @cached_property
    def buckets(self) -> list[Bucket]:
        """The buckets, by ascending width; layers without attention never ask for them."""
        if self.positions is not None:
            every = torch.arange(self.num_graphs, device=self.sizes.device)
            return [Bucket(every, self.width, self.positions < self.sizes[:, None])]
        check_pairs(self.width)
        widths = bucket_widths(self.sizes.cpu().numpy())
        if len(widths) == 1:
            members = [torch.arange(self.num_graphs, device=self.sizes.device)]
        else:
            number = torch.bucketize(self.sizes, torch.tensor(widths, device=self.sizes.device))  # (B,)
            members = [(number == k).nonzero()[:, 0] for k in range(len(widths))]
        return [
            Bucket(graphs, width, torch.arange(width, device=graphs.device) < self.sizes[graphs, None])
            for graphs, width in zip(members, widths, strict=True)
        ]

    @cached_property
    def _order(self) -> Tensor:
        """The graphs of all buckets, bucket by bucket, (B,)."""
        return torch.cat([bucket.graphs for bucket in self.buckets])

    @cached_property
    def _rank(self) -> Tensor:
        """Position of every graph in `_order`, (B,)."""
        return self._order.argsort()

    @cached_property
    def _starts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Padded width, first padded row and first pair of every graph, (B,) each; see `place` and `at_pairs`."""
        width = torch.cat([torch.full_like(bucket.graphs, bucket.width) for bucket in self.buckets])
        pairs = width.square()
        in_order = torch.stack((width, width.cumsum(0) - width, pairs.cumsum(0) - pairs))  # (3, B)
        return torch.empty_like(in_order).index_copy_(1, self._order, in_order).unbind(0)  # type: ignore[return-value]

    @cached_property
    def place(self) -> Tensor:
        """Row of every node among the padded rows of all buckets, (N,)."""
        return self._starts[1][self.graph] + self.local

    def pad(self, rows: Tensor) -> list[Tensor]:
        """(N, D) -> one (b, n, D) per bucket, zero at padding."""
        counts = [bucket.mask.numel() for bucket in self.buckets]
        padded: Tensor = _Pad.apply(rows, self.place, sum(counts))
        return [
            part.view(*bucket.mask.shape, *rows.shape[1:])
            for part, bucket in zip(apart(padded, counts), self.buckets, strict=True)
        ]

    def unpad(self, padded: Sequence[Tensor]) -> Tensor:
        """One (b, n, D) per bucket -> (N, D)."""
        return _Unpad.apply(joined([part.flatten(0, 1) for part in padded]), self.place)

    def by_graph(self, parts: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Join what the graphs of each bucket have, (..., b, ...), in the order of the batch, (..., B, ...)."""
        if len(parts) == 1:
            return parts[0]
        return torch.cat(list(parts), dim).index_select(dim, self._rank)

    def at_pairs(self, squares: Squares, source: Tensor, target: Tensor) -> Tensor:
        """Return the entries of K node pairs, (H, K)."""
        width, _, first = self._starts
        graph, heads = self.graph[target], squares[0].shape[1]
        within = self.local[target] * width[graph] + self.local[source]  # (K,), in the square of one head
        head = torch.arange(heads, device=graph.device)[:, None] * width[graph].square()  # (H, K)
        places = heads * first[graph] + within + head
        flat = joined([square.flatten() for square in squares])
        return flat.index_select(0, places.flatten()).view_as(places)

    def edge_values(self, squares: Squares) -> Tensor:
        """Return the entry of every edge, (H, E); row = target (query), column = source (key)."""
        return self.at_pairs(squares, self.src, self.dst)

    def parts(self) -> list[tuple[Layout, Tensor, Tensor | slice]]:
        """Return the layout of each bucket's graphs alone, and the numbers of its nodes and edges in the batch."""
        if len(self.buckets) == 1:
            return [(self, torch.arange(self.num_nodes, device=self.graph.device), slice(None))]
        found: list[tuple[Layout, Tensor, Tensor | slice]] = []
        for bucket in self.buckets:
            number = torch.full_like(self.sizes, -1)
            number[bucket.graphs] = torch.arange(len(bucket.graphs), device=number.device)
            nodes = (number[self.graph] >= 0).nonzero()[:, 0]
            edges = (number[self.graph[self.dst]] >= 0).nonzero()[:, 0]
            renumbered = torch.empty_like(self.graph)
            renumbered[nodes] = torch.arange(len(nodes), device=nodes.device)
            part = object.__new__(Layout)
            part.positions = None
            part.graph, part.local, part.sizes = number[self.graph[nodes]], self.local[nodes], self.sizes[bucket.graphs]
            part.num_nodes, part.num_graphs, part.width = len(nodes), len(bucket.graphs), bucket.width
            part.src, part.dst = renumbered[self.src[edges]], renumbered[self.dst[edges]]
            part.buckets = [Bucket(torch.arange(part.num_graphs, device=nodes.device), bucket.width, bucket.mask)]
            found.append((part, nodes, edges))
        return found

    # ---------------------------------------------------------------- edges and copies

    def undirected(self) -> tuple[Tensor, int]:
        """Return an index per edge (E,), equal for both directions of a pair, and the number of pairs."""
        first, second = torch.minimum(self.src, self.dst), torch.maximum(self.src, self.dst)
        values, number = (first * self.num_nodes + second).unique(return_inverse=True)
        return number, values.numel()

    def twice(self) -> Layout:
        """Return the layout of two copies of the batch, one after the other; a bucket holds both copies of a graph."""
        twin = object.__new__(Layout)
        twin.positions = self.positions
        twin.num_nodes, twin.num_graphs, twin.width = 2 * self.num_nodes, 2 * self.num_graphs, self.width
        twin.sizes, twin.local = (torch.cat((part, part)) for part in (self.sizes, self.local))
        twin.graph = torch.cat((self.graph, self.graph + self.num_graphs))
        twin.src = torch.cat((self.src, self.src + self.num_nodes))
        twin.dst = torch.cat((self.dst, self.dst + self.num_nodes))
        twin.buckets = [
            Bucket(
                torch.cat((bucket.graphs, bucket.graphs + self.num_graphs)),
                bucket.width,
                torch.cat((bucket.mask, bucket.mask)),
            )
            for bucket in self.buckets
        ]
        return twin


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate; a single part is returned as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def apart(rows: Tensor, counts: Sequence[int]) -> Sequence[Tensor]:
    """Split rows into parts of these sizes, with one gradient for all of them; a single part is returned as it is."""
    return [rows] if len(counts) == 1 else rows.split(list(counts))


def bucket_widths(sizes: NDArray[np.int64]) -> list[int]:
    """Return the padded widths, ascending, of the cheapest buckets for graphs of these sizes; at least one.

    A bucket of b graphs of at most n nodes costs b n^2 + ``ROW_COST`` b n + ``BUCKET_COST``. The cheapest cut of the
    ascending sizes is found exactly, by dynamic programming over the distinct sizes.
    """
    width, count = np.unique(np.maximum(sizes, 1), return_counts=True)
    each = width * (width + ROW_COST)
    total = count.cumsum()
    if not len(width) or total[-1] * each[-1] - (count * each).sum() <= BUCKET_COST:
        return [int(width[-1])] if len(width) else [1]
    before = np.concatenate(([0], total))  # graphs below each distinct size
    best, cut = np.zeros(len(width) + 1), np.zeros(len(width) + 1, dtype=np.int64)
    for last in range(1, len(width) + 1):
        costs = best[:last] + (before[last] - before[:last]) * each[last - 1]
        cut[last] = costs.argmin()
        best[last] = costs[cut[last]] + BUCKET_COST
    ends, last = [], len(width)
    while last:
        ends.append(int(width[last - 1]))
        last = int(cut[last])
    return ends[::-1]
