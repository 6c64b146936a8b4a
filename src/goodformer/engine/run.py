"""Training as one call: a config in, a finished run out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.config.run import Hardware, RunConfig
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.engine.evaluate import evaluate
from goodformer.engine.record import summarise
from goodformer.engine.seeds import own_randomness, set_seed
from goodformer.engine.selection import select_epoch
from goodformer.engine.store import CONFIG, SUMMARY, Run
from goodformer.engine.training import Training, load_state, publish
from goodformer.engine.weights import ModelFile, load_weights
from goodformer.methods.base import Method
from goodformer.registry import InputError
from goodformer.spec import SPLITS

WATCHED = ("train", "id_val", "val")
"""Splits measured after every epoch where the test splits are not: those that may decide something."""


def train(
    config: RunConfig,
    root: str | Path = "runs",
    hardware: Hardware | None = None,
    benchmark: Benchmark | None = None,
) -> Run:
    """Train, evaluate and record what the config says.

    The run's folder is ``root / config.folder_name``. A finished run is returned at once, an interrupted one goes on
    from its last whole epoch and ends, on a CPU, with the same bits as if it had never been stopped. The caller's
    random generators are left as they were.

    Args:
        config: What to compute.
        root: Where run folders lie.
        hardware: Where to compute it; one CPU thread where not given.
        benchmark: The data where they are at hand already, or have no name; loaded by the config where not given.
    """
    run = Run(Path(root) / config.folder_name)
    if run.finished:
        return run
    files.make_folder(run.folder)
    try:
        with run.locked(), own_randomness():
            if not run.finished:
                _complete(run, config, hardware or Hardware(), benchmark)
    finally:
        run.tidy()
    return run


def build_method(config: RunConfig, benchmark: Benchmark) -> tuple[Method, ModelFile]:
    """The method of a config with the initial weights its seed gives, and how it was built."""
    file = ModelFile(model=config.model, method=config.method, features=benchmark.features, task=benchmark.task)
    with own_randomness():
        set_seed(config.seed, "weights")
        return file.build(), file


def _complete(run: Run, config: RunConfig, hardware: Hardware, given: Benchmark | None) -> None:
    """Train what is missing of a run and write its summary."""
    benchmark = given or load_benchmark(**config.dataset)
    method, file = build_method(config, benchmark)
    ready = benchmark.with_encodings(method.encodings)
    training = Training(config, ready, method, file, run.folder, SPLITS if hardware.test_epochs else WATCHED)
    files.write_json(run.folder / CONFIG, config.to_dict())  # not before: what cannot be built is no run
    training.resume()
    if not training.done:
        from goodformer.engine.loop import fit  # Lightning takes seconds to import: only where it is needed

        fit(training, hardware)
    state = load_state(run.folder, config)
    if state is None:
        raise InputError(f"{run.folder} was removed while it was being trained; train it again.")
    _measure_rest(run, config, ready, state["epochs"])
    publish(run.folder, file, config, state)
    summary = summarise(config, benchmark, state["epochs"], state["cost"], hardware)
    files.write_json(run.folder / SUMMARY, summary)


def _measure_rest(run: Run, config: RunConfig, benchmark: Benchmark, epochs: list[dict[str, Any]]) -> None:
    """Measure the splits that were not watched in training, by the weights of the chosen epoch, in place."""
    chosen = epochs[select_epoch(epochs, config.training.selection, benchmark.task.metric)]
    missing = [split for split in SPLITS if split not in chosen]
    if missing:
        method, _ = load_weights(run.folder / "best")
        for split in missing:
            chosen[split] = evaluate(method, benchmark.splits[split], config.training.eval_batch_size)
