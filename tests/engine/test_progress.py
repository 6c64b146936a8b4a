from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from goodformer.config.run import Hardware
from goodformer.engine.progress import describe
from goodformer.engine.run import train
from goodformer.spec import SPLIT_NAMES
from tests.engine.tiny import tiny_config

SCORES = {"train": 0.91, "id_val": 0.82, "id_test": 0.73, "val": 0.64, "test": 0.55}


def test_the_line_of_an_epoch_names_every_number() -> None:
    record = {split: {"rocauc": score, "loss": 9.0, "edge_auc": 0.11} for split, score in SCORES.items()}
    record["val"]["precision_at_10"], record["test"]["precision_at_10"] = 0.22, 0.33
    times = {"seconds": 1.5, "eval_seconds": 0.25, "processor_seconds": 99.0, "learning_rate": 0.44}
    line = describe({"epoch": 3, "loss": {"total": 1.25, "risk": 1.0}, **record, **times}, "rocauc", 20)
    for split, name in SPLIT_NAMES.items():
        assert f"{name} {SCORES[split]:.4f}" in line
    assert re.findall(r"\d+(?:\.\d+)?", line.replace("Precision@10", "")) == [
        "3", "20", "1.2500", "0.9100", "0.8200", "0.7300", "0.6400", "0.5500", "0.3300", "1.8"
    ]  # fmt: skip
    assert line.index("ROC-AUC") < line.index("training")


def test_splits_that_were_not_measured_are_left_out() -> None:
    record = {"epoch": 1, "loss": {"total": 1.0}, "seconds": 1.0, "eval_seconds": 0.0}
    assert "test" not in describe({**record, "val": {"accuracy": 0.5}, "train": {"accuracy": None}}, "accuracy", 1)
    assert "accuracy" not in describe(record, "accuracy", 1)


def test_a_redirected_log_has_one_plain_line_per_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same records reach TensorBoard."""
    run = train(tiny_config(method="noisy"), tmp_path, Hardware(tensorboard=True))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines(keepends=True) == [f"{describe(epoch, 'accuracy', 2)}\n" for epoch in run.epochs]
    assert "\r" not in shown.err
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    for name, values in {
        "val/accuracy": [epoch["val"]["accuracy"] for epoch in run.epochs],
        "test/loss": [epoch["test"]["loss"] for epoch in run.epochs],
        "loss/size": [epoch["loss"]["size"] for epoch in run.epochs],
        "learning_rate": [0.01, 0.01],
    }.items():
        assert [event.step for event in events.Scalars(name)] == [1, 2]
        assert [event.value for event in events.Scalars(name)] == pytest.approx(values)


def test_a_terminal_has_a_bar_with_the_loss_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    run = train(tiny_config(method="noisy"), tmp_path, Hardware())
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "8/8 steps" in shown
    assert {"total", "risk", "size"} == set(re.findall(r"(\w+)=[\d.]+", shown))
    for epoch in run.epochs:
        assert describe(epoch, "accuracy", 2) in shown


def test_a_quiet_run_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(tiny_config(training={"epochs": 1}), tmp_path, Hardware(progress=False))
    assert capfd.readouterr() == ("", "")
