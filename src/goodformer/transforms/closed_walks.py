"""Closed non-backtracking walks: the short cycles on which, or near which, a node lies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from goodformer.transforms.adjacency import Chunk, Floats, Ints, chunks
from goodformer.transforms.structure import Structure

VERSION = 1
CYCLES_VERSION = 1
"""Increase this when the values change, so that cached encodings are recomputed."""


def closed_walks(graphs: Structure, width: int) -> Tensor:
    """Return log(1 + c_r) for r = 3 .. k + 2, where c_r counts closed non-backtracking walks of length r from a node.

    Such a walk takes r steps, returns to its start and never immediately reverses a step. Its last step may reverse its
    first: the walk then has a tail, which leads to a cycle and back. On a tree every count is 0.
    """
    return _encoded(closed_walk_counts, graphs, width)


def cycle_walks(graphs: Structure, width: int) -> Tensor:
    """Return log(1 + o_r) for r = 3 .. k + 2, where o_r counts the walks of `closed_walks` that have no tail.

    Their last step does not reverse their first, so they stay closed from any starting point. A node on no cycle, and
    on no path between two cycles, has counts of 0 even next to a cycle. Unlike closed walks, they do not reveal a motif
    at the nodes around it.
    """
    return _encoded(cycle_walk_counts, graphs, width)


def _encoded(counts: Callable[[Chunk, int], Floats], graphs: Structure, width: int) -> Tensor:
    """Return log(1 + counts) of every node (N, k)."""
    encoding = np.zeros((int(graphs.ptr[-1]), width), dtype=np.float32)  # (N, k)
    for chunk in chunks(graphs.edge_index, graphs.ptr):
        encoding[chunk.nodes] = np.log1p(counts(chunk, width))
    return torch.from_numpy(encoding).to(graphs.edge_index.device)


def closed_walk_counts(chunk: Chunk, width: int) -> Floats:
    """Return diag p_r (N, k) for r = 3 .. k + 2, exact for counts below 2^53."""
    nodes = np.arange(len(chunk.nodes))
    return _walk_counts(chunk, nodes, nodes, width + 2)[3:].T


def cycle_walk_counts(chunk: Chunk, width: int) -> Floats:
    """Count closed non-backtracking walks without a tail (N, k) for r = 3 .. k + 2, exact for counts below 2^53.

    Let c_r(j) count all closed non-backtracking walks from j and, for an edge i - j, let b_r count those that begin
    with the step to i, and a_r those that neither begin with it nor end with its reverse:
        b_r(j, i) = p_(r-1)(i, j) - c_(r-2)(j) + b_(r-2)(j, i)
        a_r(j, i) = c_r(j) - 2 b_r(j, i) + a_(r-2)(i, j)
        o_r(i) = c_r(i) - sum over the neighbours j of i of a_(r-2)(j, i).
    """
    longest, nodes = width + 2, np.arange(len(chunk.nodes))
    links = chunk.adjacency.tocoo()
    i, j = links.row.astype(np.int64), links.col.astype(np.int64)  # (E,) each, both directions of every edge
    walks = _walk_counts(chunk, np.concatenate([nodes, i]), np.concatenate([nodes, j]), longest)
    closed, across = walks[:, : len(nodes)], walks[:, len(nodes) :]  # c_r, (longest + 1, N), and p_r, (longest + 1, E)
    back = _reverse(i, j, len(nodes))
    begin, avoid = np.zeros_like(across), np.zeros_like(across)
    counts = closed.copy()
    for r in range(3, longest + 1):
        begin[r] = across[r - 1] - closed[r - 2][j] + begin[r - 2]
        avoid[r] = closed[r][j] - 2 * begin[r] + avoid[r - 2][back]
        counts[r] -= np.bincount(i, avoid[r - 2], len(nodes))
    return counts[3:].T


def _walk_counts(chunk: Chunk, i: Ints, j: Ints, longest: int) -> Floats:
    """Return p_r(i, j) (longest + 1, P), the number of non-backtracking walks of r steps for node pairs (P,).

    p_1 = A, p_2 = A^2 - D, p_(r+1) = A p_r - (D - I) p_(r-1).
    """
    adjacency, degree = chunk.adjacency, chunk.adjacency.sum(1)[:, None]  # (N, N), (N, 1)
    counts = np.zeros((longest + 1, len(i)))
    counts[0] = i == j
    for first, start in chunk.unit_columns():
        column = j % chunk.size - first
        here = np.flatnonzero((column >= 0) & (column < start.shape[1]))
        at = i[here], column[here]
        before, now = start, adjacency @ start
        counts[1, here] = now[at]
        for r in range(2, longest + 1):
            less = degree if r == 2 else degree - 1
            before, now = now, adjacency @ now - less * before
            counts[r, here] = now[at]
    return counts


def _reverse(i: Ints, j: Ints, nodes: int) -> Ints:
    """Return the position of j - i for every edge i - j, (E,), of edges sorted by i and then j."""
    return np.searchsorted(i * nodes + j, j * nodes + i)
