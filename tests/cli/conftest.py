"""Two tiny trained runs that the tests of the command line share."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from goodformer import cli
from goodformer.data.acquire import VARIABLE as DATA

TINY = ["--quiet", "--epochs", "1", "--set", "dataset.graphs=150", "--set", "model.dim=16"]


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Command = Callable[..., Answer]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data cache of the tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run of ERM on GIN and one of GOODFormer."""
    root = tmp_path_factory.mktemp("runs")
    for method in ("erm", "goodformer"):
        assert cli.run(["train", "good-motif", "--method", method, "--runs", str(root), *TINY]) == 0
    return root


@pytest.fixture
def command(cache: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    named = os.environ.get(DATA)  # --data-dir changes it; the fixture restores it
    monkeypatch.setenv(DATA, named or "")
    if named is None:
        monkeypatch.delenv(DATA)

    def run(*arguments: str | Path) -> Answer:
        capfd.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def erm(runs: Path) -> Path:
    """The folder of the run of ERM."""
    return next(runs.glob("*-erm-*"))


@pytest.fixture
def invariant(runs: Path) -> Path:
    """The folder of the run of GOODFormer."""
    return next(runs.glob("*-goodformer-goodformer-*"))
