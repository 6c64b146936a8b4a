"""A real server on a free port, and a client for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

from goodformer.engine.weights import ModelFile
from goodformer.fitted import FittedModel
from goodformer.serve.limits import Limits
from goodformer.serve.server import bind, server_of
from goodformer.spec import FeatureSpec, Task
from tests.apply.molecules import FITTED, untrained


@dataclass(frozen=True)
class Site:
    """A running server."""

    address: str
    port: int
    client: httpx.Client


@contextmanager
def running(models: dict[str, FittedModel], token: str | None = None, limits: Limits | None = None) -> Iterator[Site]:
    """Serve models in a thread until the block ends."""
    server, bound = server_of(models, token=token, limits=limits), bind("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = bound.getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            yield Site(f"http://127.0.0.1:{port}", port, client)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def of_graphs() -> FittedModel:
    """A model of graphs that are not molecules, with random weights."""
    features, task = FeatureSpec(), Task("multiclass", 3, "accuracy")
    file = ModelFile(model={"name": "gin", "dim": 8}, method={"name": "erm"}, features=features, task=task)
    return FittedModel(file.build(), file)


@pytest.fixture(scope="session")
def fitted() -> FittedModel:
    """A model of molecules with calibration and domain score."""
    return FittedModel.load(FITTED)


@pytest.fixture(scope="session")
def site(fitted: FittedModel) -> Iterator[Site]:
    """A server with one model and small limits."""
    limits = Limits(rows=300, atoms=50, megabytes=1, seconds=20, arrival=3)
    with running({"nitro": fitted}, limits=limits) as found:
        yield found


@pytest.fixture(scope="session")
def two(fitted: FittedModel) -> Iterator[Site]:
    """A server with two models; the second one scores edges itself and is not calibrated."""
    other = untrained("gsat", classes={"active": ("low", "high")})
    with running({"nitro": fitted, "other": other}) as found:
        yield found
