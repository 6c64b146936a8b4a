"""Closed non-backtracking walks: which short cycles a node lies on or near."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.transforms.adjacency import adjacency_chunks

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
    encoding = torch.zeros(int(ptr[-1]), width)  # (N, k)
    for nodes, adjacency in adjacency_chunks(edge_index, ptr):
        encoding[nodes] = closed_walk_counts(adjacency, width).log1p().float()
    return encoding


def closed_walk_counts(adjacency: Tensor, width: int) -> Tensor:
    """diag p_r (b, n, k) for r = 3 .. k + 2, exact as long as the counts stay below 2^53.

    p_r holds the number of non-backtracking walks of length r between each two nodes:
    p_1 = A, p_2 = A^2 - D, p_(r+1) = A p_r - (D - I) p_(r-1).
    """
    degree = adjacency.sum(-1, keepdim=True)  # (b, n, 1)
    before, now = adjacency, adjacency @ adjacency - torch.diag_embed(degree.squeeze(-1))  # (b, n, n)
    columns = []
    for _ in range(width):
        before, now = now, adjacency @ now - (degree - 1) * before
        columns.append(now.diagonal(dim1=1, dim2=2))  # (b, n)
    return torch.stack(columns, -1)
