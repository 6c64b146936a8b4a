"""Closed non-backtracking walks: which short cycles a node lies on or near."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from goodformer.transforms.adjacency import Chunk, Floats, chunks

VERSION = 1
"""Raised whenever the numbers change, so that cached encodings are computed anew."""


def closed_walks(edge_index: Tensor, ptr: Tensor, width: int) -> Tensor:
    """log(1 + c_r) for r = 3 .. k + 2, where c_r counts the closed non-backtracking walks of length r from a node.

    Such a walk takes r steps, ends where it began and never goes back along the edge it has just come by; its last
    step may be the reverse of its first (a tail towards a cycle is walked out and back). On a tree every count is 0.

    Args:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        width: Number of lengths k.

    Returns:
        Encoding (N, k), float32.
    """
    encoding = np.zeros((int(ptr[-1]), width), dtype=np.float32)  # (N, k)
    for chunk in chunks(edge_index, ptr):
        encoding[chunk.nodes] = np.log1p(closed_walk_counts(chunk, width))
    return torch.from_numpy(encoding).to(edge_index.device)


def closed_walk_counts(chunk: Chunk, width: int) -> Floats:
    """diag p_r (N, k) for r = 3 .. k + 2, exact as long as the counts stay below 2^53.

    p_r holds the number of non-backtracking walks of length r between each two nodes:
    p_1 = A, p_2 = A^2 - D, p_(r+1) = A p_r - (D - I) p_(r-1).
    """
    adjacency, degree = chunk.adjacency, chunk.adjacency.sum(1)[:, None]  # (N, N), (N, 1)
    counts = np.zeros((len(degree), width))
    for rows, columns, start in chunk.unit_columns():
        before = adjacency @ start  # (N, columns)
        now = adjacency @ before - degree * start
        for column in range(width):
            before, now = now, adjacency @ now - (degree - 1) * before
            counts[rows, column] = now[rows, columns]
    return counts
