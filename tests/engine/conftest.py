from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from goodformer.methods import METHODS
from tests.engine.tiny import Aborting, Alternating, Diverging, Frozen, NeedsGrad, Noisy, Plain


@pytest.fixture(scope="session", autouse=True)
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One thread, as in a run's own processes, and a cache that is not the user's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _methods() -> Iterator[None]:
    """Methods that do what the registered ones do not."""
    extra = {
        "noisy": Noisy,
        "alternating": Alternating,
        "diverging": Diverging,
        "frozen": Frozen,
        "needs": NeedsGrad,
        "plain": Plain,
        "aborting": Aborting,
    }
    for name, method in extra.items():
        METHODS.add(name, method)
    yield
    for name in extra:
        METHODS.remove(name)
