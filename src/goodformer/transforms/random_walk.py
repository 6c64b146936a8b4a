"""Return probabilities of the random walk: what the surroundings of a node look like."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.transforms.adjacency import adjacency_chunks

VERSION = 1
"""Raised whenever the numbers change, so that cached encodings are computed anew."""


def random_walk(edge_index: Tensor, ptr: Tensor, width: int) -> Tensor:
    """Probabilities that a random walk is back at its start after 2, 3, ..., k + 1 steps: diag (D^-1 A)^s.

    One step never returns, so it is left out. An isolated node never returns: zeros.

    Args:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        width: Number of step counts k.

    Returns:
        Encoding (N, k), float32.
    """
    encoding = torch.zeros(int(ptr[-1]), width)  # (N, k)
    for nodes, adjacency in adjacency_chunks(edge_index, ptr):
        encoding[nodes] = return_probabilities(adjacency, width).float()
    return encoding


def return_probabilities(adjacency: Tensor, width: int) -> Tensor:
    """diag S^s (b, n, k) for s = 2 .. k + 1, where S = D^-1/2 A D^-1/2 has the same diagonals as D^-1 A.

    S is symmetric, so diag S^(a+b) is the row sum of S^a * S^b: half the matrix products are enough.
    """
    degree = adjacency.sum(-1)  # (b, n)
    scale = torch.where(degree > 0, degree, torch.inf).rsqrt()
    step = scale[..., :, None] * adjacency * scale[..., None, :]  # (b, n, n)
    columns: list[Tensor] = []
    low = step
    while len(columns) < width:
        columns.append((low * low).sum(-1))  # (b, n), even s
        if len(columns) < width:
            high = low @ step
            columns.append((low * high).sum(-1))  # (b, n), odd s
            low = high
    return torch.stack(columns, -1)
