"""From a file of molecules or graphs to a model that says what, why and how sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.apply.predict import LISTED, notes_on, problems_of
from goodformer.apply.trained import Meaning, Trained
from goodformer.config.presets import configure
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks.table import Table, load_table
from goodformer.data.readers.rows import RowWriter
from goodformer.data.readers.values import counted
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.parts import weak_parts
from goodformer.engine.run import train
from goodformer.engine.selection import RULES
from goodformer.engine.store import Run
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.uncertainty.uncertainty import Sureness

STEPS = 3000
"""Steps a model is given by default: on few graphs that is many epochs."""
MOST_EPOCHS = 100
LEAST_PATIENCE = 10
LEAST_AVERAGE = 10
"""Steps over which weights are averaged at least."""
PURPOSES = {"id_val": "to learn how sure an answer is", "val": "to choose the epoch"}
"""What the parts are for that no fit can do without."""
MODEL = "model.json"
OURS = frozenset(
    (
        MODEL,
        "weights.safetensors",
        "sureness.json",
        "sureness.safetensors",
        "report.json",
        "split.json",
        "unreadable.csv",
    )
)
"""What a fit writes; a fit that was stopped while it wrote leaves some of it."""


def enough_training(graphs: int, config: RunConfig, given: Sequence[str] = ()) -> list[str]:
    """Settings that make a run long enough for its data, and stop it when it no longer improves.

    Presets have the epochs of benchmarks with tens of thousands of graphs; a table of a thousand molecules needs more
    passes. A rate that falls over all of them would still be high where a run is stopped, so it stays constant. Weights
    are averaged over an epoch at most, where the preset averages over more steps than a small table's epoch has: the
    average would still hold weights of the first steps when the run is stopped. What the user gave is left alone.

    Args:
        graphs: Number of training graphs.
        config: The run as its preset has it.
        given: Settings of the user, ``part.setting=value``.
    """
    if any(line.startswith("training.epochs=") for line in given):
        return []
    steps = max(math.ceil(graphs / config.training.batch_size), 1)
    epochs = min(max(math.ceil(STEPS / steps), 10), MOST_EPOCHS)
    patience = max(epochs // 4, LEAST_PATIENCE)
    decay = min(config.training.average_decay, 1 - 1 / max(steps, LEAST_AVERAGE))
    return [
        f"training.epochs={epochs}",
        f"training.patience={patience}",
        "training.schedule=constant",
        f"training.average_decay={decay:.4g}",
    ]


def fit_benchmark(
    config: RunConfig, benchmark: Benchmark, runs: str | Path, hardware: Hardware | None = None
) -> tuple[FittedModel, Run]:
    """Train, and learn on validation graphs how sure the result may be."""
    check_parts(config, benchmark)
    run = train(config, runs, hardware, benchmark)
    predictor = FittedModel.of_run(run, "best")
    predictor.sureness = Sureness.fit(predictor, benchmark.splits["train"], benchmark.splits["id_val"])
    return predictor, run


def check_parts(config: RunConfig, benchmark: Benchmark) -> None:
    """Refuse, before anything is trained, data without the graphs that choose the epoch or calibrate."""
    for split in ("id_val", RULES[config.training.selection]):
        if split is not None and not len(benchmark.splits[split]):
            count = counted(sum(map(len, benchmark.splits.values())), "row")
            raise InputError(
                f"of {count} with a graph and a label none is left {PURPOSES[split]} ({split}); give more rows, or "
                "split them otherwise."
            )


@dataclass(frozen=True)
class OwnFile:
    """Where a model's data come from and what is asked of them.

    Attributes:
        path: A table, an SDF or JSON lines file, or a TU folder.
        target: Columns to predict.
        smiles: Column of the SMILES, where there is one.
        split: How test data will differ, see `goodformer.data.splits.splitters.make_split`.
        seed: Decides what is random in the split.
    """

    path: Path
    target: tuple[str, ...]
    smiles: str = "smiles"
    split: str = "auto"
    seed: int = 0

    @property
    def dataset(self) -> dict[str, Any]:
        """The same as the data set ``table``, by which the run can be trained again."""
        return {
            "name": "table",
            "path": str(self.path),
            "target": list(self.target),
            "smiles": self.smiles,
            "split": self.split,
            "seed": self.seed,
        }


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
) -> dict[str, Any]:
    """Fit a model to a file and write it, its report and its split into a folder.

    The run lies in ``runs`` like any other, so that a stopped fit goes on when it is called again.

    Args:
        source: The data.
        out: Folder of the model.
        method: Name of a method.
        model: Name of a model; the method's usual one if not given.
        preset: Which of the method's presets to start from.
        overrides: ``part.setting=value``, for example ``training.epochs=5``.
        seed: Of everything random in the run.
        runs: Where run folders lie.
        hardware: Where to compute.
        warn: Told before training, in one sentence, what speaks against the split.

    Returns:
        What ``report.json`` holds.
    """
    folder = Path(out)
    check_folder(folder)
    with fresh_folder(folder):  # what cannot be written is said before anything is trained
        table = load_table(source.path, source.smiles, source.target, source.split, source.seed)
        benchmark = table.benchmark()
        plain = configure(source.dataset, method, model, preset, seed=seed, overrides=overrides)
        config = plain.with_overrides([*enough_training(len(benchmark.splits["train"]), plain, overrides), *overrides])
        check_parts(config, benchmark)  # before the warnings: one sentence is enough where nothing can be fitted
        warned = _warnings(table, folder)
        if warn:
            for sentence in warned:
                warn(sentence)
        predictor, run = fit_benchmark(config, benchmark, runs, hardware)
        smiles = None if table.collection.smiles is None else source.smiles
        Trained(predictor, Meaning(smiles, dict(table.labels.classes))).save(out)
        report = _report(table, run, predictor)
        report["notes"] = [*warned, *notes_on(source.path, source.smiles, predictor)]
        _write(folder, report, table)
    return {**report, "folder": str(out)}


def check_folder(folder: Path) -> None:
    """Refuse to write a model among files of another kind."""
    if not folder.is_dir() or (folder / MODEL).is_file():
        return
    if any(one.name not in OURS and not one.name.startswith(".") for one in folder.iterdir()):
        raise InputError(f"{folder} holds other files; choose a new folder for the model.")


@contextmanager
def fresh_folder(folder: Path) -> Iterator[None]:
    """A folder to write into; folders that were made for it are gone again where nothing came of it."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        files.make_folder(folder)
        yield
    except BaseException:
        with suppress(OSError):  # one that holds something stays, and so do those above it
            for one in made:
                one.rmdir()
        raise


def _warnings(table: Table, folder: Path) -> list[str]:
    """What a user should know before minutes of training, a sentence each."""
    replaced = f"{folder} holds an earlier model, which this one replaces." if (folder / MODEL).is_file() else ""
    weak = weak_parts(table.split, table.collection, table.labels)
    return [note for note in (replaced, *table.notes, weak) if note]


def _report(table: Table, run: Run, predictor: FittedModel) -> dict[str, Any]:
    """What was fitted to what, and what it is worth."""
    collection, summary = table.collection, run.summary or {}
    wanted = ("method", "model", "metric", "selection", "selected_epoch", "epochs", "splits", "seed", "commit")
    return {
        "file": table.path.name,
        "rows": collection.count,
        "graphs": len(collection.graphs),
        "unreadable": len(collection.rejected),
        "problems": problems_of(collection)[:LISTED],
        "targets": list(table.labels.targets),
        "classes": dict(table.labels.classes),
        "split": table.split.by,
        "counts": table.split.counts(),
        "distance": distance_report(table.split, collection, table.labels.y),
        **{name: summary.get(name) for name in wanted},
        "run": run.folder.name,
    }


def _write(folder: Path, report: dict[str, Any], table: Table) -> None:
    """Report, split and unreadable rows beside the model."""
    files.write_json(folder / "report.json", report)
    table.split.save(folder / "split.json")
    problems, listed = problems_of(table.collection), folder / "unreadable.csv"
    listed.unlink(missing_ok=True)  # of an earlier fit into the same folder
    if problems:
        with RowWriter(listed, list(problems[0])) as writer:
            writer.write({name: [problem[name] for problem in problems] for name in problems[0]})
