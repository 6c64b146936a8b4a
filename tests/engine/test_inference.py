"""Inference times: which weights predict, and what a record says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer.config.presets import configure
from goodformer.config.run import Hardware
from goodformer.engine import inference
from goodformer.engine.run import train
from goodformer.engine.weights import load_weights

OVERRIDES = ["training.epochs=1", "model.dim=8"]
CONFIG = configure({"name": "good-motif", "domain": "basis", "graphs": 150}, "erm", "gps", overrides=OVERRIDES)


def test_a_record_holds_graphs_seconds_and_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    record = inference.time_inference(CONFIG, rounds=1)
    assert (record["kind"], record["id"], record["graphs"], record["weights"]) == (
        *("inference", CONFIG.id, 15),
        "untrained",
    )
    assert record["processor_seconds"] > 0


def test_inference_does_not_touch_the_random_numbers_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    before = torch.get_rng_state()
    inference.time_inference(CONFIG, rounds=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_weights_of_a_finished_run_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GOODFormer solves for its temperature, which takes as many steps as its logits need."""
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    assert inference.time_inference(CONFIG, tmp_path, rounds=1)["weights"] == "untrained"
    run = train(CONFIG, tmp_path, Hardware(progress=False))
    seen: list[Any] = []

    def note(method: Any, *_: Any) -> list[Any]:
        seen.append(method)
        return []

    monkeypatch.setattr(inference, "infer", note)
    assert inference.time_inference(CONFIG, tmp_path, rounds=1)["weights"] == "best"
    trained = load_weights(run.folder / "best")[0].state_dict()
    assert all(bool((value == trained[name]).all()) for name, value in seen[0].state_dict().items())
