"""Seeds: all randomness of a run follows from its seed, the epoch and the process."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive_seed(*parts: int | str) -> int:
    """Return a seed that depends on these parts only and is the same on every machine."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def set_seed(*parts: int | str) -> None:
    """Seed the global generators, which dropout and layers draw from."""
    seed = derive_seed(*parts)
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - a user's method may draw from it
    random.seed(seed)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Restore the caller's random generators afterwards."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    # A graphics card that is not in use yet has no state to restore.
    cards = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=cards):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)
