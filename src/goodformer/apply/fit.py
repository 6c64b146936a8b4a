"""From a user's file of molecules or graphs to a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.apply.baseline import fit_baselines, verdict
from goodformer.apply.predict import LISTED, notes_on
from goodformer.config.members import with_members
from goodformer.config.presets import configure
from goodformer.config.run import Hardware, RunConfig, parse_assignment
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks.table import LabelledFile, load_table
from goodformer.data.molecule import VERSION as READER
from goodformer.data.readers.rows import RowWriter
from goodformer.data.readers.values import counted
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.parts import places_of, weak_parts
from goodformer.engine.run import train
from goodformer.engine.selection import RULES
from goodformer.engine.store import MODEL, Run
from goodformer.engine.weights import DERIVED, WEIGHTS
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.spec import SPLIT_NAMES
from goodformer.uncertainty.training_rows import TRAINING

STEPS = 3000
"""Training steps by default: on few graphs that is many epochs."""
MOST_EPOCHS = 100
LEAST_PATIENCE = 10
PERFECT_EPOCHS, PERFECT_STEPS = 5, 200
"""A run ends after so many epochs, and so many steps, with a perfect metric. Explanations improve for longer than the
metric of an easy task: on the 400 molecules of ``examples/nitro.csv``, the share of nitro bonds among the best-scored
edges was 0.69 in a run that ended after 20 perfect steps, 0.88 after 200, and 0.92 at the end of all 100 epochs."""
LEAST_AVERAGE = 10
"""Smallest number of steps over which weights are averaged."""
PURPOSES = {"id_val": "calibration", "val": "choosing the epoch"}
"""Splits that a fit needs, and what for."""
REPORT, SPLIT, UNREADABLE = "report.json", "split.json", "unreadable.csv"
WRITTEN = frozenset((MODEL, WEIGHTS, *DERIVED, TRAINING, REPORT, SPLIT, UNREADABLE))
"""Files that a fit writes; an interrupted fit may leave some of them."""


@dataclass(frozen=True)
class OwnFile:
    """A user's data file and the task.

    Attributes:
        path: A table, an SDF or JSON lines file, or a TU folder.
        target: Columns to predict.
        smiles: Column of the SMILES, if there is one.
        split: How test data will differ, see `goodformer.data.splits.splitters.make_split`.
        seed: Seed of the split.
        val: File of OOD validation rows, if they are not in the first file.
        test: File of OOD test rows, if they are not in the first file.
        standardise: How molecules are standardised, see `goodformer.data.molecule.STANDARDS`.
    """

    path: Path
    target: tuple[str, ...]
    smiles: str = "smiles"
    split: str = "auto"
    seed: int = 0
    val: Path | None = None
    test: Path | None = None
    standardise: str = "none"

    @property
    def dataset(self) -> dict[str, Any]:
        """The same as settings of the data set ``table``, which the run records."""
        return {
            "name": "table",
            "path": str(self.path),
            "target": list(self.target),
            "smiles": self.smiles,
            "split": self.split,
            "seed": self.seed,
            "val": str(self.val or ""),
            "test": str(self.test or ""),
            "standardise": self.standardise,
        }

    def load(self) -> LabelledFile:
        """Read the data."""
        more = (self.val, self.test, self.standardise)
        return load_table(self.path, self.smiles, self.target, self.split, self.seed, *more)


def fit_file(
    source: OwnFile,
    out: str | Path,
    method: str = "goodformer",
    model: str | None = None,
    preset: str = "default",
    overrides: Sequence[str] = (),
    seed: int = 0,
    runs: str | Path = "runs",
    hardware: Hardware | None = None,
    warn: Callable[[str], None] | None = None,
    baseline: bool = True,
    watch: Callable[[str], None] | None = None,
    members: int | None = None,
) -> dict[str, Any]:
    """Fit a model to a file; write the model, its report and its split into a folder.

    The run is stored in ``runs``, so that an interrupted fit continues when it is called again.

    Args:
        source: The data.
        out: Folder of the fitted model.
        method: Name of a method.
        model: Name of a model; by default the one the method is published with.
        preset: Preset of the method to start from.
        overrides: ``part.setting=value``, for example ``training.epochs=5``.
        seed: Seed of the run.
        runs: Folder of the runs.
        hardware: Where to compute.
        warn: Called before training with each sentence on a weakness of the split, or on a finished run to be reused.
        baseline: Whether to fit the baselines to the same splits, see `goodformer.apply.baseline`.
        watch: Called with a sentence before and after each baseline.
        members: Runs with different seeds that predict together; by default one, or what a blend says.

    Returns:
        The content of ``report.json``.
    """
    folder = Path(out)
    earlier = (folder / MODEL).is_file()
    found = folder.iterdir() if folder.is_dir() and not earlier else ()
    if any(one.name not in WRITTEN and not one.name.startswith(".") for one in found):
        raise InputError(f"{folder} contains other files; choose a new folder for the model.")
    with fresh_folder(folder):  # fails before training if the folder cannot be written
        table = source.load()
        benchmark, collection, labels = table.benchmark(), table.collection, table.labels
        config = configure_fit(benchmark, source.dataset, method, model, preset, seed, overrides, members)
        check_splits(config, benchmark)  # before the warnings: an error makes them pointless
        replaced = f"{folder} holds an earlier model, which this one replaces." if earlier else ""
        warned = [note for note in (replaced, *table.notes, weak_parts(table.split, collection, labels)) if note]
        if warn:
            reused = Run(Path(runs) / config.folder_name).reuse_note
            for sentence in [*warned, *([reused] if reused else [])]:
                warn(sentence)
        baselines = fit_baselines(config, benchmark, runs, hardware, watch) if baseline else None
        fitted, run = fit_benchmark(config, benchmark, runs, hardware)
        fitted.smiles = None if collection.smiles is None else source.smiles
        fitted.classes, fitted.standardise, fitted.reader = dict(labels.classes), source.standardise, READER
        train = places_of(table.split, collection, labels.y)["train"]
        fitted.remember(collection.subset(train), labels.y).save(folder)
        summary = run.summary or {}
        copied = ["method", "model", "metric", "selection", "selected_epoch", "epochs", "splits", "seed", "commit"]
        copied += ["members"] if "members" in summary else []
        problems = table.rows.problems()
        report: dict[str, Any] = {
            "file": table.path.name,
            "files": [list(one) for one in table.split.files],
            "rows": collection.count,
            "graphs": len(collection.graphs),
            "unreadable": len(problems),
            "problems": problems[:LISTED],
            "targets": list(labels.targets),
            "classes": dict(labels.classes),
            "standardise": source.standardise,
            "conflicts": len(conflicts := table.conflicts),
            "conflicting": conflicts[:LISTED],
            "split": table.split.by,
            "counts": table.split.counts(),
            "distance": distance_report(table.split, collection, labels.y),
            **{name: summary.get(name) for name in copied},
            "run": run.folder.name,
            "baseline": baselines,
        }
        report["notes"] = [note for note in (*warned, *notes_on(fitted, source.path), verdict(report)) if note]
        files.write_json(folder / REPORT, report)
        table.split.save(folder / SPLIT)
        (folder / UNREADABLE).unlink(missing_ok=True)  # of an earlier fit into the same folder
        if problems:
            with RowWriter(folder / UNREADABLE, list(problems[0])) as writer:
                writer.write({name: [problem[name] for problem in problems] for name in problems[0]})
    return {**report, "folder": str(out)}


def configure_fit(
    benchmark: Benchmark,
    dataset: Mapping[str, Any],
    method: str,
    model: str | None,
    preset: str,
    seed: int,
    overrides: Sequence[str] = (),
    members: int | None = None,
) -> RunConfig:
    """Return the configuration of a run on a user's data: a preset, with training adapted to the number of graphs."""
    if members is not None:
        method, overrides = with_members(method, members, overrides)
    plain = configure(dataset, method, model, preset, seed=seed, overrides=overrides)
    given = {".".join(parse_assignment(line)[0]) for line in overrides}
    fitting = enough_training(benchmark.splits["train"], plain, given)
    return plain.with_overrides([line for line in fitting if line.partition("=")[0] not in given])


def fit_benchmark(
    config: RunConfig, benchmark: Benchmark, runs: str | Path, hardware: Hardware | None = None
) -> tuple[FittedModel, Run]:
    """Train a run and fit the uncertainty of its best weights to ID validation graphs."""
    check_splits(config, benchmark)
    run = train(config, runs, hardware, benchmark)
    return FittedModel.of_run(run).fit_uncertainty(benchmark.splits["train"], benchmark.splits["id_val"]), run


def check_splits(config: RunConfig, benchmark: Benchmark) -> None:
    """Raise, before training, if no graphs are left to choose the epoch or to calibrate."""
    for split in ("id_val", RULES[config.training.selection]):
        if split is not None and not len(benchmark.splits[split]):
            rows = counted(sum(map(len, benchmark.splits.values())), "usable row")
            raise InputError(
                f"no rows left for {PURPOSES[split]} ({SPLIT_NAMES[split]}, {split}) out of {rows}; "
                "give more rows, or choose another split."
            )


def enough_training(train: Sized, config: RunConfig, given: Collection[str] = ()) -> list[str]:
    """Return settings that adapt training to the number of graphs; none if the user set the epochs.

    None, too, if the preset has one epoch, as for methods that are fitted at once.

    The epochs of presets are meant for benchmarks with tens of thousands of graphs; a table of a thousand molecules
    needs more. Early stopping ends the run, so the learning rate is constant: a decaying rate would still be high at
    that point. A run also ends once the selection metric has been perfect for some time. Weights are averaged over at
    most one epoch, so that the average does not contain the first steps.

    Args:
        train: Training graphs.
        config: The run with the settings of its preset.
        given: Names of the settings of the user, such as ``training.epochs``.
    """
    if config.training.epochs == 1 or "training.epochs" in given:
        return []
    steps = max(math.ceil(len(train) / config.training.batch_size), 1)
    epochs = min(max(math.ceil(STEPS / steps), 10), MOST_EPOCHS)
    decay = min(config.training.average_decay, 1 - 1 / max(steps, LEAST_AVERAGE))
    return [
        f"training.epochs={epochs}",
        f"training.patience={max(epochs // 4, LEAST_PATIENCE)}",
        f"training.perfect_patience={max(math.ceil(PERFECT_STEPS / steps), PERFECT_EPOCHS)}",
        "training.schedule=constant",
        f"training.average_decay={decay:.4g}",
    ]


@contextmanager
def fresh_folder(folder: Path) -> Iterator[None]:
    """Create a folder; if the block fails, remove the folders created for it unless they hold something."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        files.make_folder(folder)
        yield
    except BaseException:
        with suppress(OSError):
            for one in made:
                one.rmdir()
        raise
