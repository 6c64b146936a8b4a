"""Laplacian eigenvectors: where a node lies in the large shape of its graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from goodformer.transforms.adjacency import Floats, chunks

VERSION = 1
"""Raised whenever the numbers change, so that cached encodings are computed anew."""


def laplacian(edge_index: Tensor, ptr: Tensor, width: int) -> Tensor:
    """The first nontrivial eigenvectors of the Laplacian L = D - A of each graph, as node features.

    Column j holds the unit eigenvector of the (j+2)-th smallest eigenvalue, orthogonal to the constant vector also
    where the graph is disconnected. A graph of n nodes has n - 1 of them; further columns are zero.
    The sign is chosen so that the sum of cubes is not negative; where it vanishes, the first
    entry that does not is positive. Eigenvectors of a repeated eigenvalue are one orthonormal basis among many.

    Args:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        width: Number of columns k.

    Returns:
        Encoding (N, k), float32.
    """
    encoding = np.zeros((int(ptr[-1]), width), dtype=np.float32)  # (N, k)
    for chunk in chunks(edge_index, ptr):
        vectors = canonical_signs(nontrivial_eigenvectors(chunk.dense(), width))  # (b, n, kept)
        encoding[chunk.nodes, : vectors.shape[2]] = vectors.reshape(len(chunk.nodes), -1)
    return torch.from_numpy(encoding).to(edge_index.device)


def nontrivial_eigenvectors(adjacency: Floats, width: int) -> Floats:
    """Eigenvectors of the Laplacians of stacked graphs (b, n, n), eigenvalues ascending, constant vector left out.

    No eigenvalue of L exceeds n. Adding (n + 1) / n to every entry lifts the constant vector's from 0 to n + 1 and
    moves no other, so it is told apart from the further null vectors of a disconnected graph.

    numpy, not torch: torch's batched routine rounds differently by place in the stack, which turns the basis of a
    repeated eigenvalue; here a graph has the same encoding alone and among others.

    Returns:
        At most ``width`` unit vectors a graph (b, n, min(width, n - 1)).
    """
    n = adjacency.shape[-1]
    lifted = (n + 1) / n - adjacency  # (b, n, n)
    lifted[:, range(n), range(n)] += adjacency.sum(-1)
    return np.linalg.eigh(lifted).eigenvectors[..., : min(width, n - 1)]


def canonical_signs(vectors: Floats, tolerance: float = 1e-6) -> Floats:
    """Vectors (b, n, k) with the sign of each column fixed: sum of cubes positive, else first entry positive."""
    skew = (vectors**3).sum(-2, keepdims=True)  # (b, 1, k)
    first = (np.abs(vectors) > tolerance).argmax(-2)[:, None]  # (b, 1, k)
    deciding = np.where(np.abs(skew) > tolerance, skew, np.take_along_axis(vectors, first, -2))
    return np.where(deciding < 0, -vectors, vectors)
