"""Fixtures that several packages of tests share."""

from __future__ import annotations

import platform
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goodformer.data import Benchmark, load_benchmark
from goodformer.engine import products
from goodformer.engine.run import train
from goodformer.engine.store import Run
from tests.engine.tiny import QUIET, tiny_config

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session", autouse=True)
def products_of_torch() -> Iterator[None]:
    """Multiply matrices by torch, so that tests compare equal bits; tests of OpenBLAS choose it themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "openblas_is_faster", lambda: False)
        if platform.machine() in ("x86_64", "AMD64"):
            patch.setenv("OPENBLAS_CORETYPE", "Haswell")  # for child processes
        yield


def pytest_configure() -> None:
    """Restore SIGINT, which the parent may ignore (as under nohup): tests and their child processes use it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless browser for all tests: playwright can be started once per process."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; see make help")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser found ({', '.join(BROWSERS)}); install one, for example: apt install chromium")
    with api.sync_playwright() as running:
        made = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data cache of the tests: they neither read nor change the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data cache behind the fixtures below."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def benchmark(shared_cache: Path) -> Benchmark:
    """200 graphs of GOOD-Motif."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(shared_cache))
        return load_benchmark("good-motif", graphs=200)


@pytest.fixture(scope="session")
def finished(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of GIN and ERM; tests must not change it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(shared_cache))
        return train(tiny_config(), tmp_path_factory.mktemp("runs"), QUIET)


@pytest.fixture(scope="session")
def explained(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of a method that scores edges; tests must not change it."""
    config = tiny_config(method="goodformer", model={"name": "goodformer", "dim": 16}, training={"epochs": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(shared_cache))
        return train(config, tmp_path_factory.mktemp("explained"), QUIET)
