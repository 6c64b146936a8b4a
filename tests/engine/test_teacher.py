"""Labels that a forest teaches to a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import goodformer as gf
from goodformer.config.presets import configure
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import collect
from goodformer.engine.evaluate import rocauc
from goodformer.engine.run import build_method
from goodformer.engine.teacher import TAUGHT, taught
from goodformer.errors import InputError
from goodformer.methods.erm import ERM
from goodformer.spec import SPLITS, Task

SETTINGS = ["training.teacher_share=0.6", "training.epochs=2", "model.dim=16", "training.batch_size=16"]


def molecules(labels: Any, count: int = 96) -> Benchmark:
    """Chains of 2 to 13 atoms that end in oxygen or nitrogen, in one environment; ``labels`` maps the places to y."""
    smiles = ["C" * (1 + place // 2 % 12) + "ON"[place % 2] for place in range(count)]
    graphs = collect(smiles).graphs
    graphs.graph |= {"y": torch.tensor(labels(np.arange(count)), dtype=torch.float)[:, None]}
    graphs.graph |= {"env": torch.zeros(count, dtype=torch.long)}
    return Benchmark(
        name="memory",
        domain="",
        shift="covariate",
        features=FEATURES,
        task=Task("binary", 1, "rocauc"),
        splits=dict.fromkeys(SPLITS, graphs),
        num_envs=1,
    )


def config(method: str = "erm", *more: str) -> RunConfig:
    return configure(
        {"name": "memory", "fingerprint": "0" * 16}, method, "gin", "default", "full", 0, [*SETTINGS, *more]
    )


def labels_of(benchmark: Benchmark, share: float) -> torch.Tensor:
    chosen = config("erm", f"training.teacher_share={share}")
    return taught(chosen, benchmark, build_method(chosen, benchmark)[0], 1).splits["train"].graph[TAUGHT]


def test_a_share_of_the_label_is_what_trees_say_that_did_not_see_the_graph() -> None:
    """Ends of chains decide the first labels. The others are noise, which trees know by heart only if they saw it."""
    clear = molecules(lambda k: k % 2)
    noise = molecules(lambda k: np.random.default_rng(0).random(len(k)) < 0.5)
    whole, part = labels_of(clear, 1.0), labels_of(clear, 0.25)
    y = clear.splits["train"].graph["y"]
    assert (whole - y).abs().max() < 0.2
    assert torch.allclose(part, 0.75 * y + 0.25 * whole)
    guessed = rocauc(labels_of(noise, 1.0).numpy(), noise.splits["train"].graph["y"].numpy())
    assert guessed is not None
    assert guessed < 0.75


def test_a_missing_label_stays_missing() -> None:
    benchmark = molecules(lambda k: np.where(k % 7 == 0, np.nan, k % 2))
    found = labels_of(benchmark, 0.6)
    assert torch.equal(found.isnan(), benchmark.splits["train"].graph["y"].isnan())


def test_other_tasks_keep_their_labels(benchmark: Benchmark) -> None:
    chosen = config()
    assert taught(chosen, benchmark, build_method(chosen, benchmark)[0], 1) is benchmark


def test_a_method_that_compares_labels_is_refused() -> None:
    benchmark = molecules(lambda k: k % 2)
    chosen = config("ciga")
    with pytest.raises(InputError, match="teacher_share"):
        taught(chosen, benchmark, build_method(chosen, benchmark)[0], 1)


def test_training_sees_taught_labels_and_metrics_the_true_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    loss = ERM.loss

    def watched(self: ERM, batch: Any, epoch: int) -> Any:
        seen.append(batch.y.flatten())
        return loss(self, batch, epoch)

    monkeypatch.setattr(ERM, "loss", watched)
    benchmark = molecules(lambda k: k % 2)
    run = gf.train(config(), tmp_path, Hardware(progress=False), benchmark)
    learnt = torch.cat(seen).unique()
    assert ((learnt > 0) & (learnt < 1)).any()
    assert run.summary is not None
    assert run.epochs[0]["train"]["rocauc"] is not None


def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(epochs: Any) -> None:
        raise Stopped

    benchmark, hardware = molecules(lambda k: k % 2), Hardware(progress=False)
    with pytest.raises(Stopped):
        gf.train(config(), tmp_path / "a", hardware, benchmark, stop)
    runs = [gf.train(config(), tmp_path / name, hardware, benchmark) for name in ("a", "b")]
    first, second = ((run.folder / "last" / "weights.safetensors").read_bytes() for run in runs)
    assert first == second
    plain = gf.train(config("erm", "training.teacher_share=0"), tmp_path, hardware, benchmark)
    assert plain.summary is not None
    assert plain.epochs[-1]["loss"] != runs[0].epochs[-1]["loss"]
