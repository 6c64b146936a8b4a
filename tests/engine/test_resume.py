from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer.config.run import RunConfig
from goodformer.engine.run import train
from goodformer.engine.selection import select_epoch
from goodformer.engine.store import STATE, Run, list_runs
from goodformer.engine.training import Training
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from tests.engine.tiny import QUIET, tiny_config

PROJECT = Path(__file__).parents[2]
OLD = Path(__file__).with_name("old_run")
"""A run of 0.1.0 with three epochs, and the same run stopped after two."""


def config(**training: Any) -> RunConfig:
    """Noise in the method, dropout in the model, averaging, clipping: all that could go astray."""
    chosen = {"average": "ema", "clip_norm": 1.0, "weight_decay": 1e-4, **training}
    return tiny_config(
        method="noisy", model={"name": "gin", "dim": 16, "layers": 2, "dropout_rate": 0.5}, training=chosen
    )


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every tensor and value of a saved state by its place."""
    if isinstance(value, dict):
        return {key: leaf for part, inner in value.items() for key, leaf in flat(inner, f"{name}/{part}").items()}
    if isinstance(value, list):
        return flat(dict(enumerate(value)), name)
    return {name: value}


def timeless(run: Run) -> list[dict[str, Any]]:
    return [{name: value for name, value in epoch.items() if not name.endswith("seconds")} for epoch in run.epochs]


def assert_same(one: Run, other: Run) -> None:
    """Two runs agree bit by bit in all but time and memory."""
    assert timeless(one) == timeless(other)
    states = [flat(torch.load(run.folder / STATE, weights_only=True)) for run in (one, other)]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, states[1][name]), name
        elif "/cost/" not in name and not name.endswith("seconds"):
            assert value == states[1][name], name
    for file in ("best/weights.safetensors", "best/model.json", "last/weights.safetensors", "config.json"):
        assert (one.folder / file).read_bytes() == (other.folder / file).read_bytes(), file
    listings = [{str(path.relative_to(run.folder)) for path in run.folder.rglob("*")} for run in (one, other)]
    assert listings[0] == listings[1]
    assert one.summary is not None
    assert other.summary is not None
    for name in ("selected_epoch", "id_val", "ood_test", "epochs", "splits", "id"):
        assert one.summary[name] == other.summary[name]


def test_a_run_killed_at_any_moment_ends_as_one_that_never_was(tmp_path: Path) -> None:
    """Killed in a step, before the first state, and before each file that a second epoch, a new best, puts in place."""
    chosen = config(epochs=2, selection="last")
    whole = train(chosen, tmp_path / "whole", QUIET)
    path = tmp_path / "run.yaml"
    path.write_text(chosen.to_yaml())
    command = [sys.executable, "-m", "tests.engine.victim", str(tmp_path / "broken"), str(path)]
    done = subprocess.run(
        command, cwd=PROJECT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, check=True
    )
    places = json.loads(done.stdout)
    run = whole.folder.name
    epoch = ["best.next/weights.safetensors", "best.next/model.json", f"{run}/last.ckpt"]
    epoch += ["best/weights.safetensors", "best/model.json", f"{run}/epochs.jsonl"]
    end = [
        f"{run}/predictions.npz",
        "last/weights.safetensors",
        "last/model.json",
        f"{run}/epochs.jsonl",
        f"{run}/summary.json",
    ]
    first = ["step", f"{run}/last.ckpt", epoch[0]]
    assert [file for _, file, *_ in places] == [*first, f"{run}/config.json", *epoch, *end]
    assert [recorded for *_, recorded, _ in places] == [1, 0, 1, 1, *[1] * 6, *[2] * 5]
    for folder, _, _, code in places:
        assert code == 0
        assert_same(Run(tmp_path / "broken" / folder / run), whole)


GOODFORMER = {"method": "goodformer", "model": {"name": "goodformer", "dim": 16}}


@pytest.mark.parametrize("average", ["none", "swa", "ema"])
def test_a_run_stopped_by_an_error_goes_on_the_same(
    average: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = config(average=average, schedule="cosine", epochs=3)
    if average == "ema":
        chosen = tiny_config(training={"average": "ema", "epochs": 3}, **GOODFORMER)
    whole = train(chosen, tmp_path / "whole", QUIET)
    save = Training.save

    def stop(self: Training) -> None:
        if self.epoch == 2:
            raise RuntimeError("power cut")
        save(self)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            train(chosen, tmp_path / "broken", QUIET)
    assert_same(train(chosen, tmp_path / "broken", QUIET), whole)


def test_records_beyond_the_state_are_replaced_and_lost_weights_are_noticed(tmp_path: Path) -> None:
    whole = train(config(), tmp_path / "whole", QUIET)
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    broken = Run(tmp_path / "broken" / whole.folder.name)
    (broken.folder / "summary.json").unlink()
    with (broken.folder / "epochs.jsonl").open("a") as lines:
        lines.write('{"epoch": 3, "val": {"accuracy": 1.0}}\n')
    assert_same(train(config(), tmp_path / "broken", QUIET), whole)
    (broken.folder / "summary.json").unlink()
    (broken.folder / "best" / "weights.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match=f"{broken.folder}/best"):
        train(config(), tmp_path / "broken", QUIET)


def test_weights_are_written_once_per_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: Counter[str] = Counter()
    replace = os.replace

    def noted(source: Path, target: Path) -> None:
        if source.name.endswith(".part"):  # else a file that is moved
            written[target.name if target.name == STATE else f"{target.parent.name}/{target.name}"] += 1
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    run = train(tiny_config(training={"epochs": 4}), tmp_path, QUIET)
    best = sum(select_epoch(run.epochs[: n + 1], "ood_val", "accuracy") == n for n in range(4))
    assert 1 <= best < 4
    weights = {name: count for name, count in written.items() if name.endswith((".safetensors", ".ckpt"))}
    assert weights == {STATE: 4, "best.next/weights.safetensors": best, "last/weights.safetensors": 1}
    assert "best" not in torch.load(run.folder / STATE, weights_only=True)


def test_a_run_of_an_older_version_is_read_and_continued(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
    (finished,), (stopped,) = list_runs(tmp_path / "finished"), list_runs(tmp_path / "stopped")
    assert train(finished.config, tmp_path / "finished", QUIET).epochs == finished.epochs
    assert finished.summary is not None
    for weights, epoch in (("best", finished.summary["selected_epoch"]), ("last", 3)):
        assert FittedModel.of_run(finished, weights).file.about["epoch"] == epoch
    assert (len(stopped.epochs), stopped.finished) == (2, False)
    (stopped.folder / "best" / "weights.safetensors").write_bytes(b"half")  # its state holds them, too
    continued = train(stopped.config, tmp_path / "stopped", QUIET)
    for old, new in zip(finished.epochs, continued.epochs, strict=True):
        for split in ("train", "test"):
            assert new[split] == pytest.approx(old[split], abs=1e-4)
    assert continued.summary is not None
    assert continued.summary["selected_epoch"] == 2
    best = "best/weights.safetensors"
    assert (continued.folder / best).read_bytes() == (finished.folder / best).read_bytes()
