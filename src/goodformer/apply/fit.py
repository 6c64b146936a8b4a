"""From a user's file of molecules or graphs to a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from goodformer import files
from goodformer.apply.baseline import fit_baselines, verdict
from goodformer.apply.card import CARD, card
from goodformer.apply.predict import LISTED, notes_on
from goodformer.apply.recipe import Recipe, configure_fit, recipe_notes
from goodformer.apply.refit import check_refit, plan_refit, refitted
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks.table import LabelledFile, load_table
from goodformer.data.molecule import RDKIT
from goodformer.data.molecule import VERSION as READER
from goodformer.data.readers.labels import TaskChoice
from goodformer.data.readers.rows import RowWriter
from goodformer.data.readers.values import counted
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.parts import places_of, weak_parts
from goodformer.data.splits.twins import row_keys
from goodformer.engine import predictions
from goodformer.engine.blend import member_run
from goodformer.engine.run import check_method, train
from goodformer.engine.selection import RULES
from goodformer.engine.store import MODEL, PREDICTED, Run
from goodformer.engine.weights import DERIVED, WEIGHTS, read_description
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.pages import EVIDENCE, PAGE, attempted
from goodformer.spec import SPLIT_NAMES, split_names
from goodformer.uncertainty.calibration import measures
from goodformer.uncertainty.conformal import conformal_rank
from goodformer.uncertainty.intervals import LEVEL
from goodformer.uncertainty.training_rows import TRAINING

CHANCE = 0.01
"""Probability below which too few values inside intervals are no accident."""
PURPOSES = {"id_val": "calibration", "val": "choosing the epoch or combining members"}
"""Splits that a fit needs, and what for."""
REPORT, SPLIT, UNREADABLE = "report.json", "split.json", "unreadable.csv"
WRITTEN = frozenset((MODEL, WEIGHTS, *DERIVED, TRAINING, REPORT, SPLIT, UNREADABLE, CARD, EVIDENCE, PAGE))
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
        task: Whether targets are classes or measured values, see `goodformer.data.readers.labels.read_labels`.
    """

    path: Path
    target: tuple[str, ...]
    smiles: str = "smiles"
    split: str = "auto"
    seed: int = 0
    val: Path | None = None
    test: Path | None = None
    standardise: str = "none"
    task: TaskChoice = "auto"

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
            "task": self.task,
        }

    def load(self) -> LabelledFile:
        """Read the data."""
        more = (self.val, self.test, self.standardise, self.task)
        return load_table(self.path, self.smiles, self.target, self.split, self.seed, *more)


def fit_file(
    source: OwnFile,
    out: str | Path,
    recipe: Recipe = Recipe(),  # noqa: B008 - never changed
    *,
    runs: str | Path = "runs",
    hardware: Hardware | None = None,
    baseline: bool = True,
    refit: bool = True,
    retrain: bool | None = None,
    overwrite: bool = False,
    page: bool = True,
    warn: Callable[[str], None] | None = None,
    watch: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Fit a model to a file; write the model, its report and its split into a folder.

    The run is stored in ``runs``, so that an interrupted fit continues when it is called again.

    Args:
        source: The data.
        out: Folder of the fitted model.
        recipe: What is fitted.
        runs: Folder of the runs.
        hardware: Where to compute.
        baseline: Whether to fit the baselines to the same splits, see `goodformer.apply.baseline`.
        refit: Whether to fit the model again to all rows before it is saved, see `goodformer.apply.refit`. Metrics,
            page and calibration are those of the model before.
        retrain: Whether this includes networks; by default for small tables of measured values.
        overwrite: Whether to replace another model in the folder; the same fit replaces its own in any case.
        page: Whether to write ``report.html`` and the evidence it is made from, which contains rows of the data.
        warn: Called before training with each sentence on a weakness of the split, or on a finished run to be reused.
        watch: Called with a sentence before training, and before and after each baseline.

    Returns:
        The content of ``report.json``, ``folder``, and ``page``, the path of ``report.html`` if it was written.
    """
    check_refit(refit, retrain)
    folder, hardware = Path(out), hardware or Hardware(test_epochs=False)
    files.settle(folder)
    earlier = (folder / MODEL).is_file()
    found = folder.iterdir() if folder.is_dir() and not earlier else ()
    if any(one.name not in WRITTEN and not one.name.startswith(".") for one in found):
        raise InputError(f"{folder} contains other files; choose a new folder for the model.")
    with fresh_folder(folder), files.replacing(folder, WRITTEN) as new:  # fails before training if it cannot be written
        table = source.load()
        benchmark, collection, labels = table.benchmark(), table.collection, table.labels
        config = configure_fit(benchmark, source.dataset, recipe)
        check_splits(config, benchmark)  # before the warnings: an error makes them pointless
        before, same = Run(Path(runs) / config.folder_name), earlier and _run_of(folder) == config.id
        if earlier and not overwrite and not same:
            raise InputError(f"{folder} holds another model; choose a new folder, or replace it with --overwrite.")
        replaced = f"{folder} holds an earlier model, which this one replaces." if earlier and not same else ""
        warned = [note for note in (*table.notes, weak_parts(table.split, collection, labels)) if note]
        if warn:
            said = (replaced, *warned, *recipe_notes(recipe, benchmark, config), before.reuse_note)
            for sentence in filter(None, said):
                warn(sentence)
        if watch and not before.finished:
            watch(f"training {config.method['name']} on {counted(len(benchmark.splits['train']), 'row')} ...")
        fitted, run = fit_benchmark(config, benchmark, runs, hardware)
        baselines = fit_baselines(run, config, benchmark, runs, hardware, watch) if baseline else None
        fitted.smiles = None if collection.smiles is None else source.smiles
        fitted.classes, fitted.standardise, fitted.reader = dict(labels.classes), source.standardise, READER
        plan = plan_refit(fitted, table.split, refit, retrain)
        final = refitted(fitted, run, config, benchmark, plan, hardware, watch)
        places = places_of(table.split, collection, labels.y)
        known = torch.cat([places[split] for split in plan.splits]).sort().values
        final.remember(collection.subset(known), labels.y).save(new)
        notes = (*warned, *notes_on(final, source.path), *filter(None, [one_class_note(fitted, run)]))
        report = fit_report(table, benchmark, fitted, final, run, baselines, notes)
        files.write_json(new / REPORT, report)
        files.write_text(new / CARD, card(report))
        replace(table.split, keys=row_keys(collection)).save(new / SPLIT)
        if problems := table.rows.problems():
            with RowWriter(new / UNREADABLE, list(problems[0])) as writer:
                writer.write({name: [problem[name] for problem in problems] for name in problems[0]})
    made: str | None = None
    failed: list[str] = []
    if page:
        from goodformer.pages.model import fit_page  # loads what draws

        others = {name: member_run(run, row["run"]) for name, row in (baselines or {"rows": {}})["rows"].items()}
        made, failed = attempted(lambda: fit_page(folder, fitted, table, benchmark.splits, report, run, others))
    return {**report, "notes": [*report["notes"], *failed], "folder": str(out), "page": made}


def fit_report(
    table: LabelledFile,
    benchmark: Benchmark,
    fitted: FittedModel,
    final: FittedModel,
    run: Run,
    baselines: dict[str, Any] | None,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return what `REPORT` says of a fit: the data, the split, the model and its metrics.

    Args:
        table: The data.
        benchmark: The same data as a benchmark.
        fitted: The model of the run, whose metrics are reported.
        final: The model that is saved, perhaps fitted again to all rows.
        run: The run.
        baselines: What `goodformer.apply.baseline.fit_baselines` found.
        notes: Sentences on the data and the model.
    """
    collection, labels, problems, conflicts = table.collection, table.labels, table.rows.problems(), table.conflicts
    summary = run.summary or {}
    copied = ["method", "model", "metric", "selection", "selected_epoch", "epochs", "splits", "seed", "commit"]
    copied += ["members"] if "members" in summary else []
    report: dict[str, Any] = {
        "file": table.path.name,
        "files": [list(one) for one in table.split.files],
        "rows": collection.count,
        "graphs": len(collection.graphs),
        "unreadable": len(problems),
        "problems": problems[:LISTED],
        "targets": list(labels.targets),
        "classes": dict(labels.classes),
        "standardise": fitted.standardise,
        "conflicts": len(conflicts),
        "conflicting": conflicts[:LISTED],
        "split": table.split.by,
        "given": list(table.split.given),
        "counts": table.split.counts(),
        "distance": distance_report(table.split, collection, labels.y),
        "task": labels.task.kind,
        "scale": list(benchmark.task.scale),
        "coverage": interval_coverage(fitted, benchmark),
        **{name: summary.get(name) for name in copied},
        "run": run.folder.name,
        "refitted": final.file.about.get("refitted", 0),
        "retrained": final.file.about.get("retrained", False),
        "baseline": baselines,
        "calibration": calibration_on_test(fitted, run),
        "versions": {**summary.get("versions", {}), "rdkit": RDKIT},
    }
    return {**report, "notes": [*notes, *filter(None, (coverage_note(report), verdict(report)))]}


def _run_of(folder: Path) -> str | None:
    """Return the id of the run whose weights a folder holds; None if its description is damaged."""
    with suppress(InputError):
        return str(read_description(folder).about.get("run"))
    return None


def fit_benchmark(
    config: RunConfig, benchmark: Benchmark, runs: str | Path, hardware: Hardware | None = None
) -> tuple[FittedModel, Run]:
    """Train a run and fit the uncertainty of its best weights to ID validation graphs."""
    check_splits(config, benchmark)
    run = train(config, runs, hardware, benchmark)
    return FittedModel.of_run(run).fit_uncertainty(benchmark.splits["train"], benchmark.splits["id_val"]), run


def interval_coverage(fitted: FittedModel, benchmark: Benchmark) -> dict[str, Any]:
    """Return the coverage of intervals of measured values on held-out splits, and what their width follows."""
    measured, known = benchmark.task.measured, fitted.uncertainty
    return {
        "level": LEVEL,
        "splits": fitted.coverage(benchmark.splits) if measured else {},
        "widths": known.difficulty.sentence if measured and known else "",
    }


def coverage_note(report: Mapping[str, Any]) -> str:
    """Return a warning if intervals hold fewer values of ID test than they should, more than chance explains.

    Intervals are fitted to n rows of ID validation. If those of ID test are alike, the share of values that they hold
    has a beta distribution, so the number of values inside is beta-binomial.
    """
    found = report["coverage"]["splits"].get("id_test", {}).get("coverage")
    rows, fitted_to = (report["counts"][split] for split in ("id_test", "id_val"))
    level = report["coverage"]["level"]
    if found is None or (rank := conformal_rank(fitted_to, level)) > fitted_to:
        return ""
    from scipy.stats import betabinom

    if betabinom.cdf(round(found * rows), rows, rank, fitted_to + 1 - rank) >= CHANCE:
        return ""
    test, val = (split_names(report["split"], report["given"])[split] for split in ("id_test", "id_val"))
    return (
        f"intervals are too narrow: those of level {level:.0%} hold {found:.0%} of the values of {test} "
        f"({counted(rows, 'row')}); {val}, to which they were fitted, may be easier."
    )


def calibration_on_test(fitted: FittedModel, run: Run) -> dict[str, Any]:
    """Return calibration errors on the test splits of a run, before and after calibration."""
    entry, known = (run.summary or {}).get("predictions"), fitted.uncertainty
    if not entry or known is None or known.task.kind not in ("binary", "multiclass"):
        return {}
    kept = predictions.read(run.folder / PREDICTED, entry["sha256"])
    found = {}
    for split in ("id_test", "test"):
        y = torch.from_numpy(kept[split].y)
        z, y = torch.from_numpy(kept[split].logits), y.float() if y.is_floating_point() else y.long()
        if len(z):
            scaled = known.scaling(z)
            found[split] = {"before": measures(known.task, z, y), "after": measures(known.task, scaled, y)}
    return found


def one_class_note(fitted: FittedModel, run: Run) -> str:
    """Return a sentence if all test rows are predicted as one class although their labels differ."""
    entry, known = (run.summary or {}).get("predictions"), fitted.uncertainty
    if not entry or known is None or known.task.measured or len(fitted.classes) > 1:
        return ""
    kept = predictions.read(run.folder / PREDICTED, entry["sha256"])
    y, z = (np.concatenate([getattr(kept[split], name) for split in ("id_test", "test")]) for name in ("y", "logits"))
    said = known.classes(torch.from_numpy(z)).unique() if len(z) else torch.empty(0)
    if len(said) != 1 or len(np.unique(y)) < 2:
        return ""
    name = next(iter(fitted.classes.values()))[int(said)]
    return f"all {counted(len(z), 'test row')} are predicted as {name}: sort rows by their probability instead."


def check_splits(config: RunConfig, benchmark: Benchmark) -> None:
    """Raise, before training, if the method does not suit the task, or no graphs are left to choose or to calibrate."""
    check_method(config, benchmark.task)
    for split in ("id_val", RULES[config.training.selection]):
        if split is not None and not len(benchmark.splits[split]):
            rows = counted(sum(map(len, benchmark.splits.values())), "usable row")
            raise InputError(
                f"no rows left for {PURPOSES[split]} ({SPLIT_NAMES[split]}, {split}) out of {rows}; "
                "give more rows, or choose another split."
            )


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
