"""Laplacian eigenvectors and eigenvalues: the position of a node in its graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from goodformer.transforms.adjacency import Floats, chunks
from goodformer.transforms.structure import Structure

VERSION = 1
"""Increase this when the values change, so that cached encodings are recomputed."""


def laplacian(graphs: Structure, width: int) -> Tensor:
    """Return the first nontrivial eigenvectors of the Laplacian L = D - A of each graph, as node features.

    Column j holds the unit eigenvector of the (j+2)-th smallest eigenvalue, orthogonal to the constant vector even if
    the graph is disconnected. A graph of n nodes has n - 1 of them; further columns are zero. The sign makes the sum of
    cubes positive, or, if that is zero, the first non-zero entry. For a repeated eigenvalue the basis is arbitrary.
    """
    encoding = np.zeros((int(graphs.ptr[-1]), width), dtype=np.float32)  # (N, k)
    for chunk in chunks(graphs.edge_index, graphs.ptr):
        vectors = canonical_signs(nontrivial_eigenvectors(chunk.dense(), width))  # (b, n, kept)
        encoding[chunk.nodes, : vectors.shape[2]] = vectors.reshape(len(chunk.nodes), -1)
    return torch.from_numpy(encoding).to(graphs.edge_index.device)


def eigenvalues(graphs: Structure, width: int) -> Tensor:
    """Return the eigenvalues of the columns of `laplacian`, equal at all nodes of a graph; missing ones are zero."""
    encoding = np.zeros((int(graphs.ptr[-1]), width), dtype=np.float32)  # (N, k)
    for chunk in chunks(graphs.edge_index, graphs.ptr):
        values = np.linalg.eigvalsh(_lifted(chunk.dense()))[:, : min(width, chunk.size - 1)]  # (b, kept)
        values[np.abs(values) < 1e-6] = 0.0
        encoding[chunk.nodes, : values.shape[1]] = values.repeat(chunk.size, 0)
    return torch.from_numpy(encoding).to(graphs.edge_index.device)


def nontrivial_eigenvectors(adjacency: Floats, width: int) -> Floats:
    """Return the Laplacian eigenvectors of stacked graphs (b, n, n) by ascending eigenvalue, without the constant one.

    No eigenvalue of L exceeds n. Adding (n + 1) / n to every entry raises the eigenvalue of the constant vector from 0
    to n + 1 and changes no other, which separates it from the other null vectors of a disconnected graph.

    This uses numpy, because torch's batched routine rounds differently by position in the stack, which rotates the
    basis of a repeated eigenvalue. With numpy a graph has the same encoding alone and in a batch.

    Returns:
        At most ``width`` unit vectors per graph (b, n, min(width, n - 1)).
    """
    return np.linalg.eigh(_lifted(adjacency)).eigenvectors[..., : min(width, adjacency.shape[-1] - 1)]


def _lifted(adjacency: Floats) -> Floats:
    """Return L + (n + 1) / n of stacked graphs (b, n, n)."""
    n = adjacency.shape[-1]
    lifted = (n + 1) / n - adjacency
    lifted[:, range(n), range(n)] += adjacency.sum(-1)
    return lifted


def canonical_signs(vectors: Floats, tolerance: float = 1e-6) -> Floats:
    """Fix the sign of each column of (b, n, k): positive sum of cubes, or else positive first non-zero entry."""
    skew = (vectors**3).sum(-2, keepdims=True)  # (b, 1, k)
    first = (np.abs(vectors) > tolerance).argmax(-2)[:, None]  # (b, 1, k)
    deciding = np.where(np.abs(skew) > tolerance, skew, np.take_along_axis(vectors, first, -2))
    return np.where(deciding < 0, -vectors, vectors)
