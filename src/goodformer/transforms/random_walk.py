"""Return probabilities of random walks, which describe the neighbourhood of a node."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import diags_array
from torch import Tensor

from goodformer.transforms.adjacency import Chunk, Floats, chunks
from goodformer.transforms.structure import Structure

VERSION = 1
"""Increase this when the values change, so that cached encodings are recomputed."""


def random_walk(graphs: Structure, width: int) -> Tensor:
    """Return the probabilities that a random walk is at its start after s = 2, ..., k + 1 steps: diag (D^-1 A)^s.

    One step never returns and is left out. An isolated node gets zeros.
    """
    encoding = np.zeros((int(graphs.ptr[-1]), width), dtype=np.float32)  # (N, k)
    for chunk in chunks(graphs.edge_index, graphs.ptr):
        encoding[chunk.nodes] = return_probabilities(chunk, width)
    return torch.from_numpy(encoding).to(graphs.edge_index.device)


def return_probabilities(chunk: Chunk, width: int) -> Floats:
    """Return diag S^s (N, k) for s = 2 .. k + 1, where S = D^-1/2 A D^-1/2 has the same diagonals as D^-1 A.

    S is symmetric, so diag S^(a+b) is the row sum of S^a * S^b: half of the matrix products suffice.
    """
    degree = chunk.adjacency.sum(1)  # (N,)
    scale = diags_array(np.where(degree > 0, degree, np.inf) ** -0.5)
    walk = (scale @ chunk.adjacency @ scale).tocsr()  # (N, N)
    returns = np.zeros((len(degree), width))
    for _, start in chunk.unit_columns():
        low = walk @ start  # (N, columns)
        for column in range(0, width, 2):
            high = walk @ low
            returns[:, column] += np.einsum("ij,ij->i", low, low)  # even s = column + 2
            if column + 1 < width:
                returns[:, column + 1] += np.einsum("ij,ij->i", low, high)  # odd s
            low = high
    return returns
