"""Adjacency matrices of many graphs at once, in chunks of graphs of equal size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from goodformer.limits import check_pairs

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CHUNK_BYTES = 4 * 2**20
"""Bytes of one matrix of a chunk; the few matrices of an encoding then fit the processor cache."""


@dataclass(frozen=True)
class Chunk:
    """Graphs of equal size.

    Attributes:
        size: Number of nodes n of each graph.
        nodes: Global number of each node, one graph after the other (N,).
        adjacency: Block-diagonal adjacency matrix (N, N) of ones and zeros.
    """

    size: int
    nodes: Ints
    adjacency: csr_array

    def unit_columns(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, Floats]]:
        """Yield unit vectors of all nodes, a bounded number of columns at a time.

        The adjacency matrix is block-diagonal, so column j can hold the unit vectors of node j of every graph.

        Yields:
            The node index, within its graph, of the first column, and the vectors (N, columns).
        """
        local = np.arange(len(self.nodes)) % self.size  # (N,)
        step = max(1, chunk_bytes // (8 * len(self.nodes)))
        for start in range(0, self.size, step):
            rows = np.flatnonzero((local >= start) & (local < start + step))
            vectors = np.zeros((len(local), min(step, self.size - start)))
            vectors[rows, local[rows] - start] = 1.0
            yield start, vectors

    def dense(self) -> Floats:
        """Return one dense matrix per graph (b, n, n)."""
        n = self.size
        check_pairs(n)
        links = self.adjacency.tocoo()
        stacked = np.zeros((len(self.nodes) // n, n, n))
        stacked[links.row // n, links.row % n, links.col % n] = 1.0
        return stacked


def chunks(edge_index: Tensor, ptr: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Yield all non-empty graphs, sorted by size, in chunks of graphs of equal size.

    Graphs are treated as simple and undirected: edges count once in both directions, and self-loops do not count.

    Args:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        chunk_bytes: Bytes of the dense matrices (b, n, n) of a chunk; a larger graph forms its own chunk.
    """
    bounds = ptr.cpu().numpy()
    order = np.argsort(np.diff(bounds), kind="stable")  # (B,)
    sizes = np.diff(bounds)[order]
    first = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])  # (B + 1,)
    nodes = np.repeat(bounds[:-1][order] - first[:-1], sizes) + np.arange(first[-1])  # (N,)
    matrix = simple_adjacency(edge_index, nodes)
    for start, stop in _runs(sizes, chunk_bytes):
        low, high = first[start], first[stop]
        yield Chunk(int(sizes[start]), nodes[low:high], _block(matrix, low, high))


def simple_adjacency(edge_index: Tensor, nodes: Ints) -> csr_array:
    """Return the symmetric adjacency matrix (N, N) of ones and zeros, with rows in the order of ``nodes``."""
    place = np.empty_like(nodes)
    place[nodes] = np.arange(len(nodes))
    u, v = place[edge_index.cpu().numpy()]
    u, v = u[u != v], v[u != v]
    ends = np.concatenate([u, v]), np.concatenate([v, u])
    matrix = coo_array((np.ones(len(ends[0])), ends), shape=(len(nodes), len(nodes))).tocsr()
    matrix.data[:] = 1.0  # duplicate edges were summed
    return matrix


def _block(matrix: csr_array, low: int, high: int) -> csr_array:
    """Return the diagonal block of rows and columns ``low`` to ``high``."""
    start, stop = matrix.indptr[low], matrix.indptr[high]
    parts = matrix.data[start:stop], matrix.indices[start:stop] - low, matrix.indptr[low : high + 1] - start
    return csr_array(parts, shape=(high - low, high - low))


def _runs(sizes: Ints, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each chunk of equal sizes, given ascending sizes."""
    start = int(np.searchsorted(sizes, 1))
    while start < len(sizes):
        n = int(sizes[start])
        fitting = max(1, chunk_bytes // (8 * n**2))
        stop = min(int(np.searchsorted(sizes, n, side="right")), start + fitting)
        yield start, stop
        start = stop
