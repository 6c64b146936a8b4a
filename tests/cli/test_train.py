"""What ``train`` and ``evaluate`` print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from goodformer.cli.train import show
from goodformer.engine.store import Run
from goodformer.spec import SPLIT_NAMES, SPLITS
from tests.cli.conftest import TINY, Command


def cells(text: str) -> dict[str, dict[str, str]]:
    """The cells of a printed table by the first cell of their row and the head of their column."""
    lines = [re.split(r"  +", line.strip()) for line in text.splitlines() if not line.startswith("--")]
    start = next(place for place, line in enumerate(lines) if line[0] == "split")
    rows = [line for line in lines[start + 1 :] if len(line) == len(lines[start])]
    return {row[0]: dict(zip(lines[start][1:], row[1:], strict=True)) for row in rows}


def test_each_cell_of_a_finished_run_stands_under_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    splits = {
        split: {"loss": 9.0, "edge_auc": 0.3 + place / 100, "precision_at_10": 0.2 + place / 100, "rocauc": place / 100}
        for place, split in enumerate(SPLITS)
    }
    about = {"method": "erm", "model": "gin", "dataset": "good-hiv", "domain": "size", "shift": "concept", "seed": 7}
    chosen = {"selected_epoch": 4, "epochs": 11, "selection": "id_val", "metric": "rocauc", "folder": "runs/mine"}
    show({**about, **chosen, "splits": splits})
    text = capsys.readouterr().out
    assert cells(text) == {
        name: {"ROC-AUC": f"0.0{place}0", "Precision@10": f"0.2{place}0", "edge AUC": f"0.3{place}0"}
        for place, name in enumerate(SPLIT_NAMES.values())
    }
    for fact in ("erm (gin)", "good-hiv size concept", "seed 7", "epoch 4 of 11", "ID validation", "runs/mine"):
        assert fact in text


def test_json_is_alone_on_stdout_and_stderr_has_one_line_per_epoch(command: Command, tmp_path: Path) -> None:
    loud = [word for word in TINY if word != "--quiet"]
    answer = command("train", "good-motif", "--method", "erm", "--seed", "3", *loud, "--json")
    assert answer.code == 0
    assert answer.json["seed"] == 3
    assert answer.err.count("\n") == 1
    assert f"OOD test {answer.json['ood_test']:.4f}" in answer.err
    assert Run(tmp_path / answer.json["folder"]).finished


def test_a_finished_run_is_shown_and_said_not_to_be_trained(command: Command, runs: Path, erm: Path) -> None:
    answer = command("train", "good-motif", "--method", "erm", "--runs", runs, *TINY, "--json")
    summary = Run(erm).summary
    assert summary is not None
    assert answer.json == {**summary, "folder": str(erm)}
    assert str(erm) in answer.err
    assert (summary["commit"] or "") in answer.err


def test_evaluation_repeats_the_record(command: Command, runs: Path, erm: Path) -> None:
    summary = json.loads((erm / "summary.json").read_text())
    answer = command("evaluate", summary["id"][:6], "--runs", runs, "--json")
    assert answer.code == 0
    assert list(answer.json["metrics"]) == list(SPLITS)
    for split, metrics in answer.json["metrics"].items():
        assert metrics == pytest.approx(summary["splits"][split], abs=1e-6)
    shown = cells(command("evaluate", erm).out)
    assert shown == {
        name: {"accuracy": f"{metrics['accuracy']:.3f}", "loss": f"{metrics['loss']:.3f}"}
        for name, metrics in zip(SPLIT_NAMES.values(), answer.json["metrics"].values(), strict=True)
    }


def test_splits_are_chosen_by_either_name(command: Command, erm: Path) -> None:
    answer = command("evaluate", erm, "--split", "ood_test", "--split", "val", "--split", "test", "--json")
    assert list(answer.json["metrics"]) == ["test", "val"]
    assert list(cells(command("evaluate", erm, "--split", "ood_val", "--weights", "last").out)) == ["OOD validation"]
    refused = command("evaluate", erm, "--split", "ood_tset")
    assert refused.code == 2
    assert "ood_test" in refused.err
