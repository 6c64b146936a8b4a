"""Node encodings computed from graphs: functions on tensors, one file each."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from goodformer.errors import unknown
from goodformer.spec import Encoding
from goodformer.transforms import closed_walks as _closed_walks
from goodformer.transforms import environments as _environments
from goodformer.transforms import laplacian as _laplacian
from goodformer.transforms import properties as _properties
from goodformer.transforms import random_walk as _random_walk
from goodformer.transforms.structure import Structure

__all__ = ["ENCODINGS", "VERSIONS", "Structure", "encode", "parse_encoding"]

ENCODINGS: dict[str, Callable[[Structure, int], Tensor]] = {
    "laplacian": _laplacian.laplacian,
    "eigenvalues": _laplacian.eigenvalues,
    "random_walk": _random_walk.random_walk,
    "closed_walks": _closed_walks.closed_walks,
    "cycle_walks": _closed_walks.cycle_walks,
    "environments": _environments.environments,
    "properties": _properties.properties,
}
"""Functions by name, all with the same arguments and result.

Args:
    graphs: The graphs.
    width: Number of columns k; the largest radius R for environments.

Returns:
    Encoding (N, k), float32; codes (N, R + 1), int64, for environments.
"""

VERSIONS: dict[str, int] = {
    "laplacian": _laplacian.VERSION,
    "eigenvalues": _laplacian.VERSION,
    "random_walk": _random_walk.VERSION,
    "closed_walks": _closed_walks.VERSION,
    "cycle_walks": _closed_walks.CYCLES_VERSION,
    "environments": _environments.VERSION,
    "properties": _properties.VERSION,
}
"""Name -> version of the encoding, part of the cache key."""


def parse_encoding(text: str) -> Encoding:
    """Parse ``name:width`` and check the name."""
    parsed = Encoding.parse(text)
    if parsed.name not in ENCODINGS:
        raise unknown("encoding", parsed.name, ENCODINGS)
    return parsed


def encode(text: str, graphs: Structure) -> Tensor:
    """Compute the encoding ``name:width`` of graphs, one row per node."""
    wanted = parse_encoding(text)
    return ENCODINGS[wanted.name](graphs, wanted.width)
