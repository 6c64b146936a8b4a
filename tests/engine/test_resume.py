from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer.config.run import RunConfig
from goodformer.engine.run import train
from goodformer.engine.store import STATE, Run
from goodformer.engine.training import Training
from tests.engine.tiny import QUIET, tiny_config

PROJECT = Path(__file__).parents[2]


def config(**training: Any) -> RunConfig:
    """Noise in the method, dropout in the model, averaging, clipping, sorted batches: all that could go astray."""
    return tiny_config(
        method="noisy",
        model={"name": "gin", "dim": 16, "layers": 2, "dropout_rate": 0.5},
        training={
            "epochs": 5,
            "average": "ema",
            "clip_norm": 1.0,
            "weight_decay": 1e-4,
            "batches": "by_size",
            **training,
        },
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
    assert one.summary is not None
    assert other.summary is not None
    for name in ("selected_epoch", "id_val", "ood_test", "epochs", "splits", "id"):
        assert one.summary[name] == other.summary[name]


def test_a_run_killed_again_and_again_ends_as_one_that_never_was(tmp_path: Path) -> None:
    whole = train(config(), tmp_path / "whole", QUIET)
    path = tmp_path / "run.yaml"
    path.write_text(config().to_yaml())
    broken = Run(tmp_path / "broken" / config().folder_name)
    command = [sys.executable, "-m", "tests.engine.victim", str(tmp_path / "broken"), str(path)]
    done = subprocess.run(
        command, cwd=PROJECT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [
        ["step", -signal.SIGKILL, 1, False],  # in epoch 2
        ["before-state", -signal.SIGKILL, 1, False],  # epoch 2 again, its state written but not in place
        ["after-state", -signal.SIGKILL, 1, False],  # and again, its state in place but not its record
        ["between-weights", -signal.SIGKILL, 3, False],  # epoch 3, between new weights and their description
        ["before-summary", -signal.SIGKILL, 5, False],
    ]
    assert list(broken.folder.rglob("*.part"))
    assert_same(train(config(), tmp_path / "broken", QUIET), whole)
    assert not list(broken.folder.rglob("*.part"))


GOODFORMER = {"method": "goodformer", "model": {"name": "goodformer", "dim": 16}}


@pytest.mark.parametrize("average", ["none", "swa", "ema"])
def test_a_run_stopped_by_an_error_goes_on_the_same(
    average: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = config(average=average, schedule="cosine", epochs=3)
    if average == "ema":
        chosen = tiny_config(training={"average": "ema", "epochs": 3}, **GOODFORMER)
    whole = train(chosen, tmp_path / "whole", QUIET)
    end_epoch = Training.end_epoch

    def stop(self: Training, *arguments: Any) -> None:
        if self.epoch == 1:
            raise RuntimeError("power cut")
        end_epoch(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "end_epoch", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            train(chosen, tmp_path / "broken", QUIET)
    assert_same(train(chosen, tmp_path / "broken", QUIET), whole)


def test_epochs_beyond_the_state_and_lost_weights_are_written_anew(tmp_path: Path) -> None:
    whole = train(config(epochs=2), tmp_path / "whole", QUIET)
    broken = train(config(epochs=2), tmp_path / "broken", QUIET)
    (broken.folder / "summary.json").unlink()
    (broken.folder / "best" / "weights.safetensors").write_bytes(b"half")
    with (broken.folder / "epochs.jsonl").open("a") as lines:
        lines.write('{"epoch": 3, "val": {"accuracy": 1.0}}\n')
    assert_same(train(config(epochs=2), tmp_path / "broken", QUIET), whole)
