from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from goodformer.config.run import Hardware
from goodformer.data import Benchmark
from goodformer.engine import loop
from goodformer.engine.processes import run_processes
from goodformer.engine.run import train
from goodformer.engine.store import STATE, Run
from goodformer.engine.training import Training
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from tests.engine import work
from tests.engine.tiny import QUIET, tiny_config

TWO = Hardware(devices=2, progress=False)


def test_two_processes_continue_what_one_began(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, benchmark: Benchmark
) -> None:
    """Two gloo processes find what one process finds, for a model without BatchNorm and dropout.

    Batches of an odd size give the first process one graph more. Losses agree to a relative 1e-5, weights to 1e-5.

    The two abort if their interpreters shut down, as threads of torch.distributed may cause, which must not matter.
    """
    config = tiny_config(method="aborting", training={"epochs": 3, "batch_size": 41, "average": "ema"})
    alone, surroundings = train(config, tmp_path / "one", QUIET), dict(os.environ)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", partialmethod(stop_after_one_epoch, Training.save))
        with pytest.raises(InputError, match="enough"):
            train(config, tmp_path / "two", QUIET)
    both = train(config, tmp_path / "two", TWO)
    assert dict(os.environ) == surroundings
    assert not re.search("distributed|warning", capfd.readouterr().err, re.IGNORECASE)
    weights = [safetensors.torch.load_file(run.folder / "last" / "weights.safetensors") for run in (alone, both)]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-5), name
    for first, second in zip(alone.epochs, both.epochs, strict=True):
        assert second["loss"]["total"] == pytest.approx(first["loss"]["total"], rel=1e-5)
        for split in ("train", "test"):
            assert second[split]["loss"] == pytest.approx(first[split]["loss"], rel=1e-5)
    assert both.summary is not None
    assert both.summary["epochs"] == 3
    last = FittedModel.of_run(both, "last").evaluate(benchmark.splits["test"])
    assert last["accuracy"] == both.epochs[-1]["test"]["accuracy"]
    assert not [path for path in both.folder.rglob("*") if path.name.endswith(".part")]


def stop_after_one_epoch(state: Training, save: Callable[[Training], None]) -> None:
    save(state)
    raise InputError("enough")


def test_two_processes_train_goodformer_to_one_set_of_weights(tmp_path: Path, benchmark: Benchmark) -> None:
    """BatchNorm, pairs of a batch, remembered entropies: each process sees its share, and both end up the same.

    Half of the test graphs are predicted by the second process. What is saved comes from the first, so the record can
    only be repeated if weights and buffers of both are equal.
    """
    model = {"name": "goodformer", "dim": 16}
    config = tiny_config(method="goodformer", model=model, training={"epochs": 2, "average": "ema"})
    run = train(config, tmp_path, TWO)
    assert run.summary is not None
    assert run.summary["hardware"] == {"accelerator": "cpu", "devices": 2, "threads": 1}
    for split in ("val", "test"):
        again, recorded = FittedModel.of_run(run, "last").evaluate(benchmark.splits[split]), run.epochs[-1][split]
        assert again == pytest.approx(recorded, abs=1e-5)


def test_two_nodes_share_a_run_but_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second node continues what the first one has, and codes count as seen whichever node has seen them."""
    model = {"name": "gin", "dim": 16, "layers": 2, "environments": 2}
    config = tiny_config(model=model)
    alone = train(config, tmp_path / "one", QUIET)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", partialmethod(stop_after_one_epoch, Training.save))
        with pytest.raises(InputError, match="enough"):
            train(config, tmp_path / "first", QUIET)
    begun = Run(tmp_path / "first" / config.folder_name)
    before, state = begun.epochs, torch.load(begun.folder / STATE, weights_only=True)
    (flags,) = (value for name, value in state["method"].items() if name.endswith("seen"))
    flags.zero_()  # the second epoch has to see all codes
    torch.save(state, begun.folder / STATE)
    (tmp_path / "run.json").write_text(json.dumps(config.to_dict()))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    words = ["--config", str(tmp_path / "run.json"), "--runs", str(tmp_path / "second"), "--nodes", "2", "--quiet"]
    command = [sys.executable, "-m", "goodformer", "train", *words]
    second = subprocess.Popen(
        command, env={**os.environ, **meeting, "NODE_RANK": "1"}, stderr=subprocess.PIPE, text=True
    )
    for name, value in (meeting | {"NODE_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    run = train(config, tmp_path / "first", Hardware(nodes=2, progress=False))
    assert second.wait(60) == 0
    assert second.stderr is not None
    assert "on the first node" in second.stderr.read()
    assert not (tmp_path / "second").exists()
    assert len(run.epochs) == 2
    assert run.epochs[:1] == before
    assert run.summary is not None
    assert run.summary["hardware"]["nodes"] == 2
    seen = [safetensors.torch.load_file(one.folder / "last" / "weights.safetensors") for one in (alone, run)]
    (name,) = (name for name in seen[0] if name.endswith("seen"))
    assert seen[0][name].sum() > 5
    assert torch.equal(seen[0][name], seen[1][name])


@pytest.mark.parametrize(("missing", "sentence"), [("NODE_RANK", "NODE_RANK"), ("MASTER_ADDR", "MASTER_ADDR")])
def test_nodes_that_cannot_meet_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, sentence: str
) -> None:
    for name in {"NODE_RANK", "MASTER_ADDR"} - {missing}:
        monkeypatch.setenv(name, "0")
    with pytest.raises(InputError, match=sentence):
        train(tiny_config(), tmp_path, Hardware(nodes=2, progress=False))
    monkeypatch.setenv("NODE_RANK", "0")
    with pytest.raises(InputError, match="one node"):
        train(tiny_config(method="forest", model="fingerprint"), tmp_path, Hardware(nodes=2, progress=False))


def test_an_error_in_one_process_ends_all(capfd: pytest.CaptureFixture[str]) -> None:
    """A mistake of the user comes back as its class and sentence, any other error with its traceback."""
    with pytest.raises(work.Mistake, match=r"^give less, not 3$"):
        run_processes(2, work.fail, work.Mistake("give less, not 3"))
    with pytest.raises(RuntimeError, match=r"work.py(?s:.*)KeyError: 'lost'"):
        run_processes(2, work.fail, KeyError("lost"))
    with pytest.raises(RuntimeError, match="exit code 7"):
        run_processes(2, work.leave, 7)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_started_it(number: int) -> None:
    """SIGINT reaches all of them, as from a terminal; SIGKILL only the first."""
    command = [sys.executable, "-m", "tests.engine.work"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    assert parent.stderr is not None
    assert [parent.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    (os.killpg if number == signal.SIGINT else os.kill)(parent.pid, number)
    assert parent.wait(60) == (130 if number == signal.SIGINT else -number)
    assert parent.stderr.read() == b""  # ends when the last process that may write to it is gone


def test_processes_that_disagree_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(value: Any) -> list[Any]:
        return [value, [number + 1 for number in value]] if isinstance(value, list) else [value]

    monkeypatch.setattr(loop, "gather", disagree)
    with pytest.raises(RuntimeError, match="different weights"):
        train(tiny_config(training={"epochs": 1}), tmp_path, QUIET)
