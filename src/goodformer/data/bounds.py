"""Where the parts of a flat array begin and end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def bounds(counts: Ints) -> Ints:
    """Running sums of counts (B,) with a leading zero (B + 1,): part b of a flat array is that from b to b + 1."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
