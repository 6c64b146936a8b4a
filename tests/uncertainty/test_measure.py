"""Measurements of a run's uncertainty on its own benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import goodformer as gf
from goodformer import cli
from goodformer.data.benchmark import Benchmark
from goodformer.data.splits.split import Split
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.report.uncertainty import SCORES, read_records
from goodformer.spec import SPLITS, Task
from goodformer.uncertainty import measure
from goodformer.uncertainty.domain import DOMAIN_SCORES
from goodformer.uncertainty.observe import Seen

BASIS = {"name": "good-motif", "domain": "basis", "graphs": 200}
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gf.Run:
    """A finished run of GOODFormer."""
    config = gf.configure(BASIS, overrides=["training.epochs=1", "model.dim=16"])
    return gf.train(config, tmp_path_factory.mktemp("runs"), gf.Hardware(progress=False))


@pytest.fixture(scope="module")
def record(run: gf.Run) -> dict[str, Any]:
    return measure.measure_run(run, alpha=0.1)


def test_a_record_says_who_and_what(run: gf.Run, record: dict[str, Any]) -> None:
    assert (record["id"], record["dataset"], record["method"], record["seed"]) == (
        run.config.id,
        "good-motif",
        "goodformer",
        0,
    )
    assert {"commit", "versions", "machine", "domain", "shift", "weights"} <= set(record)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    missing = {"spread", "similarity"}  # of blends, and of molecules
    assert list(record["scores"]) == [name for name in DOMAIN_SCORES if name not in missing]
    assert record["graphs"]["train"] == len(gf.load_benchmark(**BASIS).splits["train"])


def test_figures_are_those_of_the_model(run: gf.Run, record: dict[str, Any], tmp_path: Path) -> None:
    """The share outside, coverage and loss follow from what the model says graph by graph."""
    measure.measure_run(run, "best", alpha=0.1, save=True)
    model = FittedModel.of_run(run)
    assert model.uncertainty is not None
    for split in measure.MEASURED:
        graphs = gf.load_benchmark(**BASIS).splits[split]
        answer, y = model.predict(graphs), graphs.graph["y"]
        assert answer.outside is not None
        default = record["scores"][record["default"]][split]
        assert default["outside"] == pytest.approx(float(answer.outside.double().mean()))
        loss = -answer.probabilities.double().gather(1, y[:, None]).log().mean()
        assert record["calibration"][split]["after"]["nll"] == pytest.approx(float(loss), rel=1e-4)
        held = model.uncertainty.sets(answer.logits, 0.9).gather(1, y[:, None])
        assert record["conformal"][split]["coverage"] == pytest.approx(float(held.double().mean()))
    plain = FittedModel(model.method, model.file)
    assert torch.equal(plain.predict(graphs).logits, answer.logits)


def split_by_hand(seed: int, shift: float = 0.0, lost: bool = False) -> Seen:
    """Graphs whose embeddings lie elsewhere by ``shift``, and whose logits say nothing of their labels if ``lost``."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (600,), generator=draw)
    said = y[torch.randperm(600, generator=draw)] if lost else y
    logits = torch.randn(600, 3, generator=draw) + 4 * torch.eye(3)[said]
    embedding = torch.randn(600, 4, generator=draw) + torch.tensor([9.0, 0, 0, shift])
    statistics = torch.randn(600, 5, generator=draw)
    return Seen(logits.double(), statistics.double(), embedding.double(), {}, y)


def test_moved_embeddings_are_detected_and_wrong_labels_uncovered() -> None:
    """Splits made by hand: test graphs lie elsewhere and their labels have nothing to do with the logits."""
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val", "id_test", "val"))}
    found = measure.measure(Task(), {**splits, "test": split_by_hand(9, shift=9.0, lost=True)})
    for name in ("mahalanobis", "neighbours"):
        assert found["scores"][name]["test"]["auroc"] > 0.99
        assert found["scores"][name]["test"]["outside"] > 0.95
        assert found["scores"][name]["val"]["auroc"] == pytest.approx(0.5, abs=0.08)
    assert found["scores"]["statistics"]["test"]["auroc"] == pytest.approx(0.5, abs=0.08)
    assert found["conformal"]["id_test"]["coverage"] > 0.85
    assert found["conformal"]["test"]["coverage"] < 0.6
    assert found["calibration"]["test"]["after"]["ece"] > 0.3


def test_validation_is_told_from_validation_and_test_from_test() -> None:
    """ID test graphs are moved as far as OOD graphs: OOD test can no longer be detected, OOD validation can."""
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val"))}
    moved = {name: split_by_hand(seed, shift=9.0) for seed, name in enumerate(("id_test", "val", "test"), 4)}
    found = measure.measure(Task(), splits | moved)
    assert found["against"] == {"val": "id_val", "test": "id_test"}
    assert found["scores"]["neighbours"]["val"]["auroc"] > 0.99
    assert found["scores"]["neighbours"]["test"]["auroc"] == pytest.approx(0.5, abs=0.08)


def test_what_is_there_is_measured() -> None:
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val", "id_test"))}
    inside = measure.measure(Task(), splits)
    assert [list(inside[part]) for part in ("calibration", "conformal")] == [["id_test"], ["id_test"]]
    assert all(list(row) == ["id_test"] for row in inside["scores"].values())
    del splits["id_test"]
    outside = measure.measure(Task(), {**splits, "test": split_by_hand(9, shift=9.0)})
    row = outside["scores"]["neighbours"]["test"]
    assert (row["auroc"], row["fpr95"]) == (None, None)  # nothing to tell it from
    assert row["outside"] > 0.95


def test_much_larger_graphs_are_outside_as_in_predictions(benchmark: Benchmark) -> None:
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val", "test"))}
    splits["test"].statistics[:, 0] = 20.0  # the log of the number of nodes
    train = benchmark.splits["train"]
    shares = [
        [row["test"]["outside"] for row in measure.measure(Task(), splits, train=one)["scores"].values()]
        for one in (train, None)
    ]
    assert set(shares[0]) == {1.0}
    assert min(shares[1]) < 1.0


@pytest.fixture(scope="module")
def unshifted(tmp_path_factory: pytest.TempPathFactory) -> gf.Run:
    """A run on one's own table whose split has no shifted graph."""
    folder = tmp_path_factory.mktemp("table")
    rows = [f"{'C' * (1 + k % 9)}{'O' if k % 2 else 'N'},{k % 2}" for k in range(90)]
    (folder / "mine.csv").write_text("\n".join(("smiles,label", *rows)))
    part = torch.tensor([SPLITS.index(name) for name in ("train", "id_val", "id_test")])[torch.arange(90) % 3]
    Split(part, torch.zeros(90, dtype=torch.long), (), "none").save(folder / "split.json")
    data = {"name": "table", "path": str(folder / "mine.csv"), "target": ["label"]}
    config = gf.configure(
        {**data, "split": f"file:{folder / 'split.json'}"},
        method="erm",
        model="gin",
        overrides=["training.epochs=1", "training.selection=id_val", "model.dim=8"],
    )
    return gf.train(config, folder / "runs", gf.Hardware(progress=False))


def test_a_run_without_ood_graphs_is_measured(
    unshifted: gf.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sureness.jsonl"
    assert cli.run(["uncertainty", str(unshifted.folder), "--export", str(path)]) == 0
    out = capfd.readouterr().out
    calibration = out[out.index("calibration, temperature") : out.index("conformal sets")]
    assert "ID test" in calibration
    assert "OOD test" not in calibration
    (found,) = read_records(path)
    assert found["graphs"] == {"train": 30, "id_val": 30, "id_test": 30, "val": 0, "test": 0}


def test_the_command_prints_the_record(run: gf.Run, capfd: pytest.CaptureFixture[str]) -> None:
    """Every number stands in the row of its score or split and in the column of its name."""
    assert cli.run(["uncertainty", str(run.folder), "--alpha", "0.1", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert cli.run(["uncertainty", str(run.folder), "--alpha", "0.1"]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    for name, splits in found["scores"].items():
        (cells,) = [line for line in lines if line[:1] == [name]]
        expected = [splits["val"]["auroc"], splits["test"]["auroc"], splits["test"]["fpr95"]]
        expected += [splits[split]["outside"] for split in ("id_test", "val", "test")]
        assert cells[1 if name != found["default"] else 2 :] == [f"{value:.3f}" for value in expected]
    (nll,) = [line for line in lines if line[:2] == ["ID", "test"] and len(line) == 8]
    row = found["calibration"]["id_test"]
    kinds = ("nll", "ece", "brier")
    assert nll[2:] == [f"{row[when][kind]:.3f}" for kind in kinds for when in ("before", "after")]
    (sets,) = [line for line in lines if line[:2] == ["OOD", "test"] and len(line) == 4]
    assert sets[2:] == [f"{found['conformal']['test'][key]:.3f}" for key in ("coverage", "size")]


def test_weights_that_are_missing_are_named(run: gf.Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="best"):
        measure.measure_run(run, "bset")
    with pytest.raises(InputError, match="no weights yet"):
        measure.measure_run(gf.Run(tmp_path))


def test_reports_know_every_domain_score() -> None:
    assert {name: score.about for name, score in DOMAIN_SCORES.items()} == SCORES
