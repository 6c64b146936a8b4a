"""Similarity of molecules: one fingerprint and one formula for splits, pages and neighbours.

Letters: Q molecules compared with T others, F bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

BITS = 2048
"""Bits of the Morgan fingerprints, of radius 2."""


def tanimoto(some: npt.NDArray[np.bool_], others: npt.NDArray[np.bool_]) -> npt.NDArray[np.floating]:
    """Return the Tanimoto similarity of fingerprints (Q, F) to others (T, F), (Q, T); two empty ones are equal."""
    # Sums of zeros and ones are exact in float32, and a matrix product counts shared bits fastest.
    mine, theirs = some.astype(np.float32), others.astype(np.float32)
    shared = mine @ theirs.T
    either = mine.sum(1)[:, None] + theirs.sum(1)[None] - shared
    return np.where(either > 0, shared / np.maximum(either, 1), 1.0)


CELLS = 8_000_000
"""Similarities that are computed at a time."""


def nearest_tanimoto(some: csr_array, others: csr_array, place: int = 1) -> npt.NDArray[np.floating]:
    """Return the similarity (Q,) of sparse fingerprints (Q, F) to the nearest of others (F, T), or another place.

    Others are columns, so that rows of bits list who has them. Place 2 is the second nearest; with fewer others than
    that, it is the farthest.
    """
    count = others.shape[1]
    mine = np.diff(some.indptr).astype(np.float32)
    theirs = np.bincount(others.indices, minlength=count).astype(np.float32)
    rank = max(count - place, 0)  # among all similarities, in ascending order
    step, found = max(1, CELLS // max(count, 1)), [np.zeros(0, np.float32)]
    for start in range(0, some.shape[0], step):
        own = mine[start : start + step]
        alike = (some[start : start + step] @ others).toarray()
        either = own[:, None] + theirs - alike
        empty = np.ix_(own == 0, theirs == 0)
        alike[empty] = either[empty] = 1
        alike /= either
        found.append(alike.max(1) if place == 1 else np.partition(alike, rank, 1)[:, rank])
    return np.concatenate(found)
