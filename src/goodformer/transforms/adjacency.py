"""Dense adjacency matrices of many graphs at once, grouped by size so that batched linear algebra needs no padding."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

CHUNK_BYTES = 32 * 2**20
"""Bytes of adjacency handed out at once; an encoding keeps a few matrices of this size, so work stays below 256 MB."""


def adjacency_chunks(
    edge_index: Tensor, ptr: Tensor, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[Tensor, Tensor]]:
    """Graphs of equal size stacked, a bounded number at a time.

    The graphs are read as simple and undirected: an edge counts in both directions however often it is listed, and
    self-loops do not count.

    Args:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        chunk_bytes: Bytes of one stack; a graph too large for it comes alone.

    Yields:
        Global node numbers (b, n), and float64 adjacency matrices (b, n, n) of the same graphs.
    """
    sizes = ptr.diff()  # (B,)
    order = sizes.argsort(stable=True)  # (B,)
    edges, edge_ptr = _edges_by_rank(edge_index, ptr, order)
    for start, stop, n in _runs(sizes[order].tolist(), chunk_bytes):
        first = ptr[order[start:stop]]  # (b,)
        local = edges[:, edge_ptr[start] : edge_ptr[stop]]
        dense = torch.zeros(stop - start, n, n, dtype=torch.float64)  # (b, n, n)
        dense[local[0] - start, local[1], local[2]] = 1.0
        dense[local[0] - start, local[2], local[1]] = 1.0
        dense.diagonal(dim1=1, dim2=2).zero_()
        yield first[:, None] + torch.arange(n), dense


def _edges_by_rank(edge_index: Tensor, ptr: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Edges as (rank of their graph, local source, local target) (3, E), sorted by rank, with the ranks' bounds."""
    graph = torch.searchsorted(ptr, edge_index[0].contiguous(), right=True) - 1  # (E,)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))[graph]  # (E,)
    rank, take = rank.sort(stable=True)
    local = (edge_index - ptr[graph])[:, take]  # (2, E)
    bounds = torch.searchsorted(rank, torch.arange(len(order) + 1))  # (B + 1,)
    return torch.cat([rank[None], local]), bounds


def _runs(sizes: list[int], chunk_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and common size of stretches of equal, ascending sizes; empty graphs are left out."""
    start = 0
    while start < len(sizes):
        n = sizes[start]
        limit = max(1, chunk_bytes // (8 * max(n, 1) ** 2))
        stop = start + 1
        while stop < len(sizes) and sizes[stop] == n and stop - start < limit:
            stop += 1
        if n:
            yield start, stop, n
        start = stop
