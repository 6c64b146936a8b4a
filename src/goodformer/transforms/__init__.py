"""Node encodings computed from the edges alone: functions on tensors, one file each."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from goodformer.errors import unknown
from goodformer.spec import Encoding
from goodformer.transforms import closed_walks as _closed_walks
from goodformer.transforms import laplacian as _laplacian
from goodformer.transforms import random_walk as _random_walk

__all__ = ["ENCODINGS", "VERSIONS", "encode", "parse_encoding"]

ENCODINGS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "laplacian": _laplacian.laplacian,
    "eigenvalues": _laplacian.eigenvalues,
    "random_walk": _random_walk.random_walk,
    "closed_walks": _closed_walks.closed_walks,
    "cycle_walks": _closed_walks.cycle_walks,
}
"""Functions by name, all with the same arguments and result.

Args:
    edge_index: Edges (2, E) in global node numbers.
    ptr: First node of each graph, and the number of nodes (B + 1,).
    width: Number of columns k.

Returns:
    Encoding (N, k), float32.
"""

VERSIONS: dict[str, int] = {
    "laplacian": _laplacian.VERSION,
    "eigenvalues": _laplacian.VERSION,
    "random_walk": _random_walk.VERSION,
    "closed_walks": _closed_walks.VERSION,
    "cycle_walks": _closed_walks.CYCLES_VERSION,
}
"""Name -> version of the encoding, part of the cache key."""


def parse_encoding(text: str) -> Encoding:
    """Parse ``name:width`` and check the name."""
    parsed = Encoding.parse(text)
    if parsed.name not in ENCODINGS:
        raise unknown("encoding", parsed.name, ENCODINGS)
    return parsed


def encode(text: str, edge_index: Tensor, ptr: Tensor) -> Tensor:
    """Compute the encoding ``name:width`` (N, width) of graphs with global edges (2, E) and node bounds (B + 1,)."""
    wanted = parse_encoding(text)
    return ENCODINGS[wanted.name](edge_index, ptr, wanted.width)
