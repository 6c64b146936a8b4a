"""Similarity of molecules: one fingerprint and one formula for splits, pages and neighbours.

Letters: Q molecules compared with T others, F bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BITS = 2048
"""Bits of the Morgan fingerprints, of radius 2."""


def tanimoto(some: npt.NDArray[np.bool_], others: npt.NDArray[np.bool_]) -> npt.NDArray[np.floating]:
    """Return the Tanimoto similarity of fingerprints (Q, F) to others (T, F), (Q, T); two empty ones are equal."""
    # Sums of zeros and ones are exact in float32, and a matrix product counts shared bits fastest.
    mine, theirs = some.astype(np.float32), others.astype(np.float32)
    shared = mine @ theirs.T
    either = mine.sum(1)[:, None] + theirs.sum(1)[None] - shared
    return np.where(either > 0, shared / np.maximum(either, 1), 1.0)
