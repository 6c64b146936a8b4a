from __future__ import annotations

import json
import math
import random
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from goodformer.config.run import Hardware, RunConfig
from goodformer.data import Benchmark
from goodformer.engine import loop
from goodformer.engine.run import build_method, train
from goodformer.engine.store import STATE, Run
from goodformer.engine.training import Training, TrainingDiverged
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.methods import METHODS
from goodformer.spec import SPLITS
from tests.engine.tiny import QUIET, Alternating, Noisy, tiny_config

SUMMARY = (
    "dataset domain shift method model preset seed budget epochs train_graphs selection selected_epoch id_val id_test "
    "ood_val ood_test metric precision_at_10 edge_auc seconds_per_epoch processor_seconds_per_epoch commit versions "
    "wall_seconds peak_memory_mb device machine hardware parameters id splits by_rule config "
    "precision_at_10_logits curves node_auc predictions"
)


def load(run: Run) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(run.folder / STATE, weights_only=True)
    return state


def test_tests_at_the_chosen_epoch_alone_change_no_result(finished: Run, tmp_path: Path) -> None:
    quick = train(finished.config, tmp_path, Hardware(progress=False, test_epochs=False))
    assert quick.summary is not None
    assert finished.summary is not None
    assert quick.summary["splits"] == finished.summary["splits"]
    chosen = quick.summary["selected_epoch"]
    assert ["test" in epoch for epoch in quick.epochs] == [epoch["epoch"] == chosen for epoch in quick.epochs]


def test_a_finished_run_has_all_its_records(finished: Run) -> None:
    summary, epochs = finished.summary, finished.epochs
    assert summary is not None
    assert set(summary) == set(SUMMARY.split())
    assert (summary["dataset"], summary["domain"], summary["shift"]) == ("good-motif", "basis", "covariate")
    assert (summary["epochs"], summary["train_graphs"], summary["metric"]) == (2, 120, "accuracy")
    assert summary["precision_at_10"] is None
    assert summary["config"] == finished.config.to_dict()
    assert summary["hardware"] == {"accelerator": "cpu", "devices": 1, "threads": 1}
    assert summary["device"] == "cpu"
    chosen = epochs[summary["selected_epoch"] - 1]
    assert summary["ood_test"] == chosen["test"]["accuracy"]
    assert summary["splits"] == {split: chosen[split] for split in SPLITS}
    assert summary["by_rule"].keys() == {"ood_val", "id_val", "last"}
    for rule in summary["by_rule"].values():
        assert rule["ood_test"] == epochs[rule["epoch"] - 1]["test"]["accuracy"]
    assert summary["by_rule"]["last"]["epoch"] == 2
    assert [epoch["epoch"] for epoch in epochs] == [1, 2]
    for epoch in epochs:
        assert epoch["loss"]["total"] == epoch["loss"]["risk"]
        assert {"learning_rate", "seconds", "eval_seconds", *SPLITS} < epoch.keys()
    assert sorted(path.name for path in finished.folder.iterdir()) == [
        ".lock", "best", "config.json", "epochs.jsonl", "last", "last.ckpt", "predictions.npz", "summary.json"
    ]  # fmt: skip


def test_the_summary_names_no_owner(finished: Run) -> None:
    import getpass
    import platform

    text = json.dumps(finished.summary)
    for folder in (Path.cwd(), Path.home(), Path(tempfile.gettempdir()), finished.folder):
        assert f"{folder}/" not in text
        assert f'"{folder}"' not in text
    for name in (platform.node(), getpass.getuser()):
        assert f'"{name}"' not in text


def test_edge_metrics_of_the_test_split_reach_the_summary(explained: Run) -> None:
    assert explained.summary is not None
    test = explained.summary["splits"]["test"]
    assert (explained.summary["precision_at_10"], explained.summary["edge_auc"]) == (
        test["precision_at_10"],
        test["edge_auc"],
    )
    assert 0 <= test["precision_at_10"] <= 1
    assert explained.summary["precision_at_10_logits"] == test["precision_at_10_logits"]
    assert explained.summary["curves"]["precision_at_10"] == [
        pytest.approx(epoch["test"]["precision_at_10"], abs=1e-5) for epoch in explained.epochs
    ]


def test_training_again_returns_at_once(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goodformer.engine.run._complete", None)
    again = train(finished.config, finished.folder.parent)
    assert again.folder == finished.folder
    assert again.summary == finished.summary


def test_the_callers_randomness_and_threads_are_left(tmp_path: Path) -> None:
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    torch.set_num_threads(2)
    try:
        train(tiny_config(training={"epochs": 1}), tmp_path, QUIET)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_the_seed_decides_everything(finished: Run, tmp_path: Path) -> None:
    torch.manual_seed(12345)
    again = train(finished.config, tmp_path, QUIET)
    other = train(finished.config.with_overrides(["seed=1"]), tmp_path, QUIET)
    weights = [(run.folder / "last" / "weights.safetensors").read_bytes() for run in (finished, again, other)]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_a_tiny_set_is_memorised(tmp_path: Path) -> None:
    """Labels are noisy: more than 0.933 can only be reached by heart."""
    config = tiny_config(
        model={"name": "gin", "dim": 64, "dropout_rate": 0, "inputs": ["random_walk:8"]},
        training={"epochs": 50, "learning_rate": 0.005, "schedule": "cosine"},
    )
    assert train(config, tmp_path, QUIET).epochs[-1]["train"]["accuracy"] > 0.94


def test_early_stopping_waits_patience_epochs(tmp_path: Path) -> None:
    run = train(tiny_config(training={"epochs": 40, "patience": 2}), tmp_path, QUIET)
    assert run.summary is not None
    assert run.summary["epochs"] == run.summary["selected_epoch"] + 2 < 40


def test_the_rate_falls_along_a_cosine(tmp_path: Path) -> None:
    run = train(tiny_config(training={"epochs": 4, "schedule": "cosine", "learning_rate": 0.1}), tmp_path, QUIET)
    expected = [0.05 * (1 + math.cos(math.pi * epoch / 4)) for epoch in range(4)]
    assert [epoch["learning_rate"] for epoch in run.epochs] == pytest.approx(expected)


def test_the_rate_falls_to_a_tenth_at_each_milestone(tmp_path: Path) -> None:
    training = {"epochs": 5, "milestones": [2, 4], "learning_rate": 0.1}
    run = train(tiny_config(training=training), tmp_path, QUIET)
    assert [epoch["learning_rate"] for epoch in run.epochs] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])


def test_the_rate_of_each_step_rises_along_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *args: object, **rest: object) -> object:
        seen.append(self.param_groups[0]["lr"])
        return step(self, *args, **rest)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    settings = {"epochs": 4, "warmup": 0.375, "learning_rate": 0.1}  # one epoch and a half
    run = train(tiny_config(training=settings), tmp_path, QUIET)
    steps = len(seen) // 4
    assert steps > 1
    assert seen == pytest.approx([0.1 * min(1.0, (k + 1) / (1.5 * steps)) for k in range(4 * steps)])
    assert [epoch["learning_rate"] for epoch in run.epochs] == pytest.approx([0.1 / 1.5, 0.1, 0.1, 0.1])


def test_best_holds_the_selected_epoch_and_last_the_last(tmp_path: Path, benchmark: Benchmark) -> None:
    for rule in ("ood_val", "last"):
        run = train(tiny_config(training={"epochs": 4, "selection": rule}), tmp_path, QUIET)
        assert run.summary is not None
        abouts = {name: FittedModel.of_run(run, name).file.about["epoch"] for name in ("best", "last")}
        assert abouts == {"best": run.summary["selected_epoch"], "last": 4}
        assert FittedModel.of_run(run, "best").evaluate(benchmark.splits["val"])["accuracy"] == run.summary["ood_val"]


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_averaged_weights_are_evaluated_and_saved(kind: str, tmp_path: Path, benchmark: Benchmark) -> None:
    run = train(tiny_config(training={"average": kind, "clip_norm": 1.0, "epochs": 3}), tmp_path, QUIET)
    state, saved = load(run), safetensors.torch.load_file(run.folder / "last" / "weights.safetensors")
    for name, value in state["average"]["module"].items():
        assert torch.equal(saved[name], value)
    assert any(not torch.equal(saved[name], state["method"][name]) for name in saved)
    assert FittedModel.of_run(run, "last").evaluate(benchmark.splits["test"]) == run.epochs[-1]["test"]


def test_only_trainable_parameters_are_stepped(tmp_path: Path, benchmark: Benchmark) -> None:
    config = tiny_config(method="alternating", training={"epochs": 1})
    start = build_method(config, benchmark)[0].state_dict()
    end = load(train(config, tmp_path, QUIET))["method"]
    moved = {name for name in start if not torch.equal(start[name], end[name]) and "running" not in name}
    assert {name for name in moved if "num_batches" not in name} == {"classifier.weight", "classifier.bias"}
    assert METHODS["alternating"] is Alternating


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_its_epochs(tmp_path: Path) -> None:
    config = tiny_config(method="diverging")
    for _ in range(2):  # the second time it goes on from the epoch that was kept
        with pytest.raises(TrainingDiverged, match=r"\(risk\) .* epoch 2; lower training\.learning_rate.* kept"):
            train(config, tmp_path, QUIET)
    run = Run(tmp_path / config.folder_name)
    assert not run.finished
    assert len(run.epochs) == 1
    assert FittedModel.of_run(run).file.about["epoch"] == 1


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda risk: risk, "Tensor"),
        (lambda risk: None, "NoneType"),
        (lambda risk: {}, "empty"),
        (lambda risk: {"risk": risk.expand(4)}, r"\(4,\).*'risk'"),
        (lambda risk: {"risk": risk, "size": 0.5}, "float.*'size'"),
        (lambda risk: {"total": risk}, "total"),
        (lambda risk: {"risk": risk.detach()}, "parameter"),
        (lambda risk: {"risk": risk, "size": risk * math.nan}, r"\(size\).*epoch 1(?!.*kept)"),
    ],
)
def test_a_loss_that_cannot_be_minimised_is_refused(
    loss: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Noisy.loss
    monkeypatch.setattr(Noisy, "loss", lambda self, batch, epoch: loss(right(self, batch, epoch)["risk"]))
    with pytest.raises(InputError, match=words):
        train(tiny_config(method="noisy", training={"batch_size": 200}), tmp_path, QUIET)


def test_a_method_without_trainable_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Frozen"):
        train(tiny_config(method="frozen"), tmp_path, QUIET)


def test_predictions_of_another_shape_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noisy, "edge_scores", lambda self, batch: batch.edge_index.float())
    with pytest.raises(InputError, match=r"Noisy .*edge_scores of shape \(2, "):
        train(tiny_config(method="noisy"), tmp_path, QUIET)
    monkeypatch.setattr(Noisy, "forward", lambda self, batch: self.classifier(self._embed(batch)).repeat(1, 2))
    with pytest.raises(InputError, match=r"Noisy .*logits of shape \(\d+, 6\).*, 3\)"):
        train(tiny_config(method="noisy", seed=1), tmp_path, QUIET)


def test_a_batch_larger_than_the_set_is_one_batch(tmp_path: Path) -> None:
    assert train(tiny_config(training={"batch_size": 4096, "epochs": 1}), tmp_path, QUIET).finished
    with pytest.raises(InputError, match="do not fill one batch"):
        train(tiny_config(training={"batch_size": 4096, "drop_last": True}), tmp_path, QUIET)


def test_a_foreign_state_is_refused_and_nothing_is_lost(finished: Run, tmp_path: Path) -> None:
    config = tiny_config(seed=5)
    folder = tmp_path / config.folder_name
    folder.mkdir()
    for content in (b"junk", (finished.folder / STATE).read_bytes(), (finished.folder / STATE).read_bytes()[:900]):
        (folder / STATE).write_bytes(content)
        with pytest.raises(InputError, match=r"is damaged|belongs to another run"):
            train(config, tmp_path, QUIET)
        assert (folder / STATE).read_bytes() == content


def test_a_folder_that_vanishes_gets_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config()
    save = Training.save

    def removed(self: Training) -> None:
        shutil.rmtree(self.folder)
        save(self)

    monkeypatch.setattr(Training, "save", removed)
    with pytest.raises(InputError, match=f"{config.folder_name} was removed"):
        train(config, tmp_path, QUIET)
    assert not (tmp_path / config.folder_name).exists()


def test_ctrl_c_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object, batch: object, epoch: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Noisy, "loss", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(method="noisy"), tmp_path, QUIET)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_missing_gpu_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="9 gpu"):
        train(tiny_config(), tmp_path, Hardware(accelerator="gpu", devices=9, progress=False))


def test_the_training_sample_is_fixed_and_limited(tmp_path: Path, benchmark: Benchmark) -> None:
    config = tiny_config(training={"train_eval_graphs": 50})
    training = Training(config, benchmark, *build_method(config, benchmark), tmp_path)
    sample = training.evaluated_graphs("train")
    assert len(sample.unique()) == 50
    assert torch.equal(sample, training.evaluated_graphs("train"))
    assert len(training.evaluated_graphs("test")) == 20


def test_loss_terms_are_means_over_graphs() -> None:
    """A batch of three graphs and one of two, and five graphs in another process."""
    meter = loop.LossMeter()
    meter.add({"total": torch.tensor(3.0), "risk": torch.tensor(1.0)}, 3)
    meter.add({"total": torch.tensor(8.0), "risk": torch.tensor(6.0)}, 2)
    assert (meter.steps, meter.means()) == (2, {"total": 5.0, "risk": 3.0})
    assert loop.merge_means([meter.sums(), (5, {"total": 35.0, "risk": 5.0})]) == {"total": 6.0, "risk": 2.0}


def test_costs_are_those_of_all_processes_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process needs 5 s per epoch; the wall time of both epochs is summed; a card computed before."""

    def two(value: Any) -> list[Any]:
        both = isinstance(value, tuple) and isinstance(value[1], float)
        return [value, (value[0], 5.0)] if both else [value]

    monkeypatch.setattr(loop, "gather", two)
    init = Training.__init__

    def elsewhere(self: Training, *parts: Any) -> None:
        init(self, *parts)
        self.cost = {"wall_seconds": 100.0, "peak_memory_mb": 1e5, "device": "cuda"}

    monkeypatch.setattr(Training, "__init__", elsewhere)
    peaks = iter((3e5, 2e5))
    monkeypatch.setattr("goodformer.engine.training.peak_memory_mb", lambda: next(peaks))
    run = train(tiny_config(), tmp_path, QUIET)
    for epoch in run.epochs:
        assert 5 < epoch["processor_seconds"] < 20
    assert run.summary is not None
    measured = sum(epoch["seconds"] + epoch["eval_seconds"] for epoch in run.epochs)
    assert measured <= run.summary["wall_seconds"] - 100 < measured + 20
    assert (run.summary["device"], run.summary["peak_memory_mb"]) == ("cuda, cpu", 3e5)
    assert run.summary["parameters"] == sum(
        value.numel() for name, value in load(run)["method"].items() if "running" not in name and "num_" not in name
    )


def test_a_config_from_yaml_trains(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(tiny_config(training={"epochs": 1}).to_yaml())
    assert train(RunConfig.from_yaml(path), tmp_path, QUIET).finished


def test_settings_that_cannot_be_built_leave_no_run_behind(tmp_path: Path) -> None:
    config = tiny_config(method="goodformer")  # on GIN, which it cannot be built on
    with pytest.raises(InputError, match="needs model goodformer"):
        train(config, tmp_path, QUIET)
    assert list(tmp_path.iterdir()) == []
