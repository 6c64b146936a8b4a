"""Laplacian eigenvectors: where a node lies in the large shape of its graph."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.transforms.adjacency import adjacency_chunks

VERSION = 1
"""Raised whenever the numbers change, so that cached encodings are computed anew."""


def laplacian(edge_index: Tensor, ptr: Tensor, width: int) -> Tensor:
    """The first nontrivial eigenvectors of the Laplacian L = D - A of each graph, as node features.

    Column j holds the unit eigenvector of the (j+2)-th smallest eigenvalue, orthogonal to the constant vector also
    where the graph is disconnected. A graph of n nodes has n - 1 of them; further columns are zero (see
    `laplacian_mask`). The sign is chosen so that the sum of cubes is not negative; where it vanishes, the first
    entry that does not is positive. Eigenvectors of a repeated eigenvalue are one orthonormal basis among many.

    Args:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        width: Number of columns k.

    Returns:
        Encoding (N, k), float32.
    """
    encoding = torch.zeros(int(ptr[-1]), width)  # (N, k)
    for nodes, adjacency in adjacency_chunks(edge_index, ptr):
        kept = min(width, nodes.shape[1] - 1)
        vectors = canonical_signs(nontrivial_eigenvectors(adjacency)[..., :kept])  # (b, n, kept)
        encoding[nodes, :kept] = vectors.float()
    return encoding


def nontrivial_eigenvectors(adjacency: Tensor) -> Tensor:
    """Eigenvectors (b, n, n - 1) of the Laplacians of stacked graphs, eigenvalues ascending, constant vector left out.

    No eigenvalue of L exceeds n. Adding (n + 1) / n to every entry lifts the constant vector's from 0 to n + 1 and
    moves no other, so it is told apart from the further null vectors of a disconnected graph.
    """
    n = adjacency.shape[-1]
    lifted = (n + 1) / n - adjacency  # (b, n, n)
    lifted.diagonal(dim1=1, dim2=2).add_(adjacency.sum(-1))
    vectors: Tensor = torch.linalg.eigh(lifted).eigenvectors
    return vectors[..., : n - 1]


def canonical_signs(vectors: Tensor, tolerance: float = 1e-6) -> Tensor:
    """Vectors (b, n, k) with the sign of each column fixed: sum of cubes positive, else first entry positive."""
    skew = vectors.pow(3).sum(-2)  # (b, k)
    first = (vectors.abs() > tolerance).to(torch.uint8).argmax(-2, keepdim=True)  # (b, 1, k)
    fallback = vectors.gather(-2, first).squeeze(-2)  # (b, k)
    deciding = torch.where(skew.abs() > tolerance, skew, fallback)
    return vectors * torch.where(deciding < 0, -1.0, 1.0)[..., None, :].to(vectors.dtype)


def laplacian_mask(sizes: Tensor, batch: Tensor, width: int) -> Tensor:
    """Which columns of the encoding (N, k) are eigenvectors, not filling: a graph of n nodes has n - 1."""
    columns = torch.arange(width, device=sizes.device)
    return columns < (sizes[batch] - 1)[:, None]


def flip_signs(encoding: Tensor, batch: Tensor, generator: torch.Generator) -> Tensor:
    """The encoding (N, k) with the sign of each graph's each column drawn anew."""
    graphs = int(batch.max()) + 1 if len(batch) else 0
    heads = torch.randint(2, (graphs, encoding.shape[1]), generator=generator, device=generator.device)  # (B, k)
    return encoding * (2 * heads - 1).to(encoding)[batch]
