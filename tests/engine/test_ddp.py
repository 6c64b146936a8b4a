from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from goodformer.config.run import Hardware
from goodformer.data import load_benchmark
from goodformer.engine import loop
from goodformer.engine.run import train
from goodformer.engine.store import STATE
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from tests.engine.tiny import QUIET, tiny_config

TWO = Hardware(devices=2, progress=False)


def test_two_processes_train_one_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two gloo processes find what one process finds, for a model without BatchNorm and dropout.

    The two abort if their interpreters shut down, as threads of torch.distributed may cause, which must not matter.
    """
    training = {"epochs": 2, "batch_size": 40, "average": "ema"}
    alone, surroundings = train(tiny_config(method="plain", training=training), tmp_path, QUIET), dict(os.environ)
    both = train(tiny_config(method="aborting", training=training), tmp_path, TWO)
    assert dict(os.environ) == surroundings
    weights = [safetensors.torch.load_file(run.folder / "last" / "weights.safetensors") for run in (alone, both)]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-5), name
    for first, second in zip(alone.epochs, both.epochs, strict=True):
        assert second["loss"]["total"] == pytest.approx(first["loss"]["total"], abs=1e-4)
        for split in ("train", "test"):
            assert second[split]["loss"] == pytest.approx(first[split]["loss"], abs=1e-4)
    assert both.summary is not None
    assert both.summary["epochs"] == 2
    test = load_benchmark("good-motif", graphs=200).splits["test"]
    assert FittedModel.of_run(both, "last").evaluate(test)["accuracy"] == both.epochs[-1]["test"]["accuracy"]
    assert not [path for path in both.folder.rglob("*") if path.name.endswith(".part")]
    assert not re.search("distributed|warning", capfd.readouterr().err, re.IGNORECASE)


def test_two_processes_train_goodformer_to_one_set_of_weights(tmp_path: Path) -> None:
    """BatchNorm, pairs of a batch, remembered entropies: each process sees its share, and both end up the same.

    Half of the test graphs are predicted by the second process. What is saved comes from the first, so the record can
    only be repeated if weights and buffers of both are equal.
    """
    model = {"name": "goodformer", "dim": 16}
    config = tiny_config(method="goodformer", model=model, training={"epochs": 2, "average": "ema"})
    run = train(config, tmp_path, TWO)
    assert run.summary is not None
    assert run.summary["hardware"] == {"accelerator": "cpu", "devices": 2, "threads": 1}
    benchmark = load_benchmark("good-motif", graphs=200)
    for split in ("val", "test"):
        again, recorded = FittedModel.of_run(run, "last").evaluate(benchmark.splits[split]), run.epochs[-1][split]
        assert again == pytest.approx(recorded, abs=1e-5)


def test_a_run_goes_on_with_another_number_of_processes_and_errors_come_through(tmp_path: Path) -> None:
    """Alternating parameters and a diverging loss under two processes: one sentence, epochs kept, resumed alone."""
    config = tiny_config(method="diverging")
    with pytest.raises(InputError, match="NaN or infinite in epoch 2"):
        train(config, tmp_path, TWO)
    folder = tmp_path / config.folder_name
    assert len(torch.load(folder / STATE, weights_only=True)["epochs"]) == 1
    with pytest.raises(InputError, match="NaN or infinite in epoch 2"):
        train(config, tmp_path, QUIET)


def test_processes_that_disagree_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(value: Any) -> list[Any]:
        return [value, [number + 1 for number in value]] if isinstance(value, list) else [value]

    monkeypatch.setattr(loop, "gather", disagree)
    with pytest.raises(RuntimeError, match="different weights"):
        train(tiny_config(training={"epochs": 1}), tmp_path, QUIET)
