"""Random draws that stay the same across machines and numpy versions."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Draws:
    """Random numbers that are the same on every machine and with every version of numpy.

    Only the raw words of PCG64 are used, whose stream numpy guarantees; this class turns them into numbers.
    """

    def __init__(self, seed: int, name: str) -> None:
        self._words = np.random.PCG64([seed, zlib.crc32(name.encode())])

    def uniform(self, count: int) -> Floats:
        """Return real numbers in [0, 1)."""
        words: npt.NDArray[np.uint64] = self._words.random_raw(count)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, limit: int | Ints, count: int | None = None) -> Ints:
        """Return whole numbers from 0 to ``limit`` - 1: one for each limit, or ``count`` of them."""
        size = len(limit) if isinstance(limit, np.ndarray) else count or 0
        return np.floor(self.uniform(size) * limit).astype(np.int64)
