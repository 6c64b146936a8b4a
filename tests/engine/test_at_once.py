"""Methods that are fitted at once: one epoch, the same records, resume, loading and all that follows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from goodformer import files
from goodformer.config.presets import configure
from goodformer.config.run import RunConfig
from goodformer.data import Benchmark
from goodformer.engine.evaluate import evaluate
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.engine.training import Training
from goodformer.engine.weights import load_weights
from goodformer.errors import InputError
from goodformer.explain.explanation import explain
from goodformer.fitted import FittedModel
from goodformer.methods.forest import Forest
from goodformer.spec import SPLITS
from goodformer.uncertainty.domain import DOMAIN_SCORES
from tests.engine.tiny import QUIET


def config(method: str = "forest", *overrides: str) -> RunConfig:
    few = [] if method == "linear" else ["method.trees=20"]
    return configure({"name": "good-motif", "graphs": 200}, method, overrides=[*few, *overrides])


@pytest.fixture(scope="module")
def run(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(config(), tmp_path_factory.mktemp("runs"), QUIET, benchmark)


def test_a_run_has_one_epoch_whatever_the_settings(run: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    assert run.summary is not None
    assert (run.summary["epochs"], run.summary["selected_epoch"], len(run.epochs)) == (1, 1, 1)
    other = train(config("forest", "training.epochs=7", "training.patience=2"), tmp_path, QUIET, benchmark)
    assert len(other.epochs) == 1
    assert {split: other.summary["splits"][split] for split in SPLITS} == run.summary["splits"]


def test_the_record_is_that_of_the_saved_weights(run: Run, benchmark: Benchmark) -> None:
    assert run.summary is not None
    for which in ("best", "last"):
        method, _ = load_weights(run.weights(which))
        ready = benchmark.with_encodings(method.encodings)
        for split in SPLITS:
            assert evaluate(method, ready.splits[split]) == run.summary["splits"][split]
    assert run.summary["splits"]["train"]["accuracy"] > 0.9


def test_a_killed_run_is_completed_from_its_state(
    run: Run, benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the state was saved: the method is not fitted again."""
    with monkeypatch.context() as patch:
        patch.setattr(Training, "save_last", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(config(), tmp_path, QUIET, benchmark)
    monkeypatch.setattr(Forest, "fit", lambda *given: pytest.fail("fitted twice"))
    resumed = train(config(), tmp_path, QUIET, benchmark)
    assert resumed.summary["splits"] == run.summary["splits"]
    assert (resumed.weights() / "weights.safetensors").read_bytes() == (
        run.weights() / "weights.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("method", ["forest", "linear"])
def test_uncertainty_and_explanation_work_as_for_every_method(
    method: str, benchmark: Benchmark, tmp_path: Path
) -> None:
    model = FittedModel.of_run(train(config(method), tmp_path, QUIET, benchmark))
    for score, about in DOMAIN_SCORES.items():
        if about.signal is None:
            model.fit_uncertainty(benchmark.splits["train"], benchmark.splits["id_val"], score)
    model.fit_uncertainty(benchmark.splits["train"], benchmark.splits["id_val"])
    loaded = FittedModel.load(model.save(tmp_path / "model"))
    graphs = benchmark.splits["test"].subset(range(5))
    answer = loaded.predict(graphs)
    assert torch.equal(answer.logits, model.predict(graphs).logits)
    assert answer.domain_score is not None
    assert answer.domain_score.isfinite().all()
    found = explain(loaded, graphs)
    assert found.source == "own"
    assert found.fidelity is not None
    assert all(bool(scores.isfinite().all()) for scores in found.scores)


def test_damaged_trees_are_named(run: Run, tmp_path: Path) -> None:
    import shutil

    from goodformer.engine.weights import read_tensors, write_tensors

    folder = tmp_path / "copy"
    shutil.copytree(run.weights(), folder)
    description = files.unsealed(files.read_json(folder / "model.json"), folder)
    tensors = read_tensors(folder / "weights.safetensors", description["weights"]["sha256"])
    tensors["grown.child"][0] = -5
    description["weights"]["sha256"] = write_tensors(folder / "weights.safetensors", tensors)
    files.write_json(folder / "model.json", files.sealed({k: v for k, v in description.items() if k != files.CHECKSUM}))
    with pytest.raises(InputError, match="decision trees are damaged"):
        load_weights(folder)
