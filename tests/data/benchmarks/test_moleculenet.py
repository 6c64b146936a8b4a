"""BACE and BBBP: the real files where they are there, and the same settings as a user's own table."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from goodformer.data import load_benchmark
from goodformer.data.acquire import data_folder
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks import moleculenet
from goodformer.errors import InputError
from goodformer.spec import SPLITS

REAL = Path(os.environ.get("GOODFORMER_DATA", ""))
RINGS = ("C1CCCCC1", "c1ccccc1", "c1ccncc1", "C1CC1", "c1ccsc1", "C1CCNC1", "C1CCOC1", "C1CCC1", "c1ccoc1", "C1CCCCCC1")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both files in small."""
    for name, target in (("BACE", "Class"), ("BBBP", "p_np")):
        source = getattr(moleculenet, name)
        rows = [f"{'C' * length}{ring},{length % 2}" for ring in RINGS for length in range(1, 9)]
        path = tmp_path / source.file
        path.parent.mkdir()
        path.write_text("\n".join([f"smiles,{target}", *rows]) + "\n")
        monkeypatch.setattr(moleculenet, name, replace(source, sha256=None))
    return tmp_path


def load(folder: Path, name: str, **settings: object) -> Benchmark:
    with data_folder(folder):
        return load_benchmark(name, **settings)


@pytest.mark.parametrize(("name", "target"), [("bace", "Class"), ("bbbp", "p_np")])
def test_a_named_table_is_split_like_ones_own(small: Path, name: str, target: str) -> None:
    found = load(small, name, seed=3)
    path = next(small.glob(f"{name}/*.csv"))
    own = load_benchmark("table", path=str(path), target=target, split="scaffold", seed=3)
    assert (found.name, found.domain, found.shift) == (name, "scaffold", "covariate")
    for split in SPLITS:
        assert torch.equal(found.splits[split].node["x"], own.splits[split].node["x"])
        assert torch.equal(found.splits[split].graph["y"], own.splits[split].graph["y"])
    other = load(small, name, seed=4)
    assert other.splits["test"].node["x"].tolist() != found.splits["test"].node["x"].tolist()


def test_a_split_that_needs_a_column_is_refused(small: Path) -> None:
    with pytest.raises(InputError, match="split"):
        load(small, "bace", split="column:Model")


def test_a_file_without_the_target_is_refused(small: Path) -> None:
    (small / "bace/bace.csv").write_text("smiles,other\nCC,1\n")
    with pytest.raises(InputError, match=r"data set bace, file .*Class"):
        load(small, "bace")


@pytest.mark.skipif(not (REAL / "bace/bace.csv").is_file(), reason="GOODFORMER_DATA names no folder with bace.csv")
def test_the_real_file_of_bace() -> None:
    found = load(REAL, "bace")
    assert [len(found.splits[split]) for split in SPLITS] == [908, 151, 151, 151, 152]
