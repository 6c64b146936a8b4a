from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from goodformer.data import Benchmark, load_benchmark
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.methods import METHODS
from tests.engine.tiny import QUIET, Aborting, Alternating, Diverging, NeedsGrad, Noisy, Plain, tiny_config


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
        "needs": NeedsGrad,
        "plain": Plain,
        "aborting": Aborting,
    }
    for name, method in extra.items():
        METHODS.add(name, method)
    yield
    for name in extra:
        METHODS.remove(name)


@pytest.fixture(scope="session")
def benchmark() -> Benchmark:
    return load_benchmark("good-motif", graphs=200)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of GIN and ERM that no test may change."""
    return train(tiny_config(), tmp_path_factory.mktemp("runs"), QUIET)


@pytest.fixture(scope="session")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of a method that scores edges."""
    config = tiny_config(method="goodformer", model={"name": "goodformer", "dim": 16}, training={"epochs": 1})
    return train(config, tmp_path_factory.mktemp("explained"), QUIET)
