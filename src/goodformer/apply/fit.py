"""From a user's file of molecules or graphs to a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from goodformer import files
from goodformer.apply.baseline import fit_baselines, verdict
from goodformer.apply.card import CARD, card
from goodformer.apply.predict import LISTED, notes_on
from goodformer.apply.refit import check_refit, plan_refit, refitted
from goodformer.config.members import (
    MEASURED,
    MOLECULES,
    blend_preset,
    gains_from_networks,
    split_overrides,
    with_members,
)
from goodformer.config.presets import configure, fit_steps, presets
from goodformer.config.run import Hardware, RunConfig, ignored_epochs, parse_assignment
from goodformer.config.search import is_preset_file, read_preset
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
from goodformer.methods.members import BLEND, split_member
from goodformer.pages import EVIDENCE, PAGE, attempted
from goodformer.spec import SPLIT_NAMES, split_names
from goodformer.transforms.environments import MOLECULE
from goodformer.uncertainty.calibration import measures
from goodformer.uncertainty.conformal import conformal_rank
from goodformer.uncertainty.intervals import LEVEL
from goodformer.uncertainty.training_rows import TRAINING

AUTO, GOODFORMER = "auto", "goodformer"
CHEMPROP = ("erm", "dmpnn")
"""Method and model of chemprop's network, which has a preset for molecules, too."""
STEPS = 3000
"""Training steps by default: on few graphs that is many epochs."""
MOST_EPOCHS = 100
LEAST_PATIENCE = 10
PERFECT_EPOCHS, PERFECT_STEPS = 5, 80
"""A run ends after so many epochs, and so many steps, with a perfect metric. Explanations improve for longer than the
metric of an easy task. With the 400 molecules of ``examples/nitro.csv``, the marked part decided in 24 of 44 molecules
with a nitro group (``molecule-rules``) for a network that ended after 40 perfect steps, in 38 after 80, and in the same
38 after 200; for the blend it was 44 each time."""
LEAST_AVERAGE = 10
"""Smallest number of steps over which weights are averaged."""
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


@dataclass(frozen=True)
class Recipe:
    """What is fitted to a user's data.

    Attributes:
        method: Name of a method, ``METHOD:PRESET``, ``METHOD on MODEL``, or ``auto``, see `choose_method`.
        model: Name of a model; by default the one the method is published with.
        preset: Preset of the method to start from, or a preset file, which also names method and model; by default see
            `choose_method`.
        overrides: ``part.setting=value``, for example ``training.epochs=5``.
        seed: Seed of the run.
        members: Runs with different seeds that predict together; by default one, or what a blend says.
        networks: Whether networks are members of the blend that ``auto`` means for molecules; None decides by the data,
            see `wants_networks`.
    """

    method: str = AUTO
    model: str | None = None
    preset: str | Path | None = None
    overrides: Sequence[str] = ()
    seed: int = 0
    members: int | None = None
    networks: bool | None = None


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
            ignored = ignored_epochs(config.method["name"], recipe.overrides)
            notes = (replaced, *warned, ignored, network_note(benchmark, recipe, config), before.reuse_note)
            for sentence in filter(None, notes):
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
        report = fit_report(table, benchmark, fitted, final, run, baselines)
        report["notes"] = [*warned, *notes_on(final, source.path), *report["notes"]]
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
) -> dict[str, Any]:
    """Return what `REPORT` says of a fit: the data, the split, the model and its metrics.

    Args:
        table: The data.
        benchmark: The same data as a benchmark.
        fitted: The model of the run, whose metrics are reported.
        final: The model that is saved, perhaps fitted again to all rows.
        run: The run.
        baselines: What `goodformer.apply.baseline.fit_baselines` found.
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
    return {**report, "notes": list(filter(None, (coverage_note(report), verdict(report))))}


def _run_of(folder: Path) -> str | None:
    """Return the id of the run whose weights a folder holds; None if its description is damaged."""
    with suppress(InputError):
        return str(read_description(folder).about.get("run"))
    return None


def configure_fit(benchmark: Benchmark, dataset: Mapping[str, Any], recipe: Recipe) -> RunConfig:
    """Return the configuration of a run on a user's data: a preset, with training adapted to the number of graphs."""
    method, model, preset, overrides = recipe.method, recipe.model, recipe.preset, recipe.overrides
    if preset is not None and is_preset_file(preset):
        file = preset
        method, model, preset, lines = read_preset(file)
        for kind, wanted, named in (("method", recipe.method, method), ("model", recipe.model, model)):
            if wanted not in (None, AUTO, named):
                raise InputError(f"{file} names the {kind} {named}, not {wanted}; leave out --{kind}, or the file.")
        overrides = [*lines, *overrides]
    method, model, preset = named_row(method, model, preset)
    if method == AUTO and model is None and preset is None and benchmark.features == MOLECULE:
        method, networks = BLEND, wants_networks(benchmark, recipe)
        if not {"method.of", "preset"} & {line.partition("=")[0].strip() for line in overrides}:
            preset = blend_preset(benchmark.task.measured, networks)
    elif recipe.networks is not None:
        cause = "name no method, model or preset" if benchmark.features == MOLECULE else "these are other graphs"
        raise InputError(f"whether networks take part can be chosen only for the default blend of molecules; {cause}.")
    method, preset = choose_method(benchmark, method, model, None if preset is None else str(preset), overrides)
    if recipe.members is not None:
        method, overrides = with_members(method, recipe.members, overrides)
    plain = configure(dataset, method, model, preset, seed=recipe.seed, overrides=overrides)
    given = {".".join(parse_assignment(line)[0]) for line in overrides}
    fitting = enough_training(benchmark.splits["train"], plain, given)
    return plain.with_overrides([line for line in fitting if line.partition("=")[0] not in given])


def named_row(method: str, model: str | None, preset: str | Path | None) -> tuple[str, str | None, str | Path | None]:
    """Return method, model and preset, also of a method that is named ``METHOD:PRESET`` or ``METHOD on MODEL``.

    A preset that only blends have means a blend.
    """
    name, its_model, its_preset = split_member(method)
    if (its_model and model) or (its_preset and preset):
        raise InputError(
            f"{method!r} names a {'model' if its_model and model else 'preset'} already; give one of them."
        )
    model, preset = its_model or model, its_preset or preset
    if name == AUTO and preset in set(presets(BLEND)) - set(presets(GOODFORMER)):
        name = BLEND
    return name, model, preset


def wants_networks(benchmark: Benchmark, recipe: Recipe) -> bool:
    """Return whether networks are members of the blend that molecules get.

    A recipe with several members or with settings of networks has networks.
    """
    about = network_settings(recipe)
    if recipe.networks is False and about:
        raise InputError(
            f"{about[0]} is a setting of networks, which were to be left out; remove it, or let networks take part."
        )
    if recipe.networks is not None:
        return recipe.networks
    return bool(about) or gains_from_networks(benchmark.task.measured, len(benchmark.splits["train"]))


def network_settings(recipe: Recipe) -> list[str]:
    """Return what a recipe says of networks: ``members``, and names of settings other than those of any blend."""
    names = [line.partition("=")[0].strip() for line in recipe.overrides]
    about = [name for name in names if name.partition(".")[0] in ("training", "model", "method")]
    several = recipe.members is not None and recipe.members > 1
    return [*(["members"] if several else []), *(name for name in about if name not in ("method.shift", "method.mean"))]


def network_note(benchmark: Benchmark, recipe: Recipe, config: RunConfig) -> str:
    """Return a sentence if networks are part of a fit only because the recipe has settings of networks."""
    measured, rows = benchmark.task.measured, len(benchmark.splits["train"])
    free = recipe.networks is None and config.preset == blend_preset(measured, True)
    if not free or not (about := network_settings(recipe)) or gains_from_networks(measured, rows):
        return ""
    return f"networks are included because {about[0]} is a setting of networks; the default for {rows} rows has none."


def choose_method(
    benchmark: Benchmark, method: str, model: str | None, preset: str | None, overrides: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the method and the preset where they are left open; ``auto`` is GOODFormer.

    GOODFormer reads codes of environments if the graphs are molecules or the labels measured values; chemprop's network
    reads properties of atoms if the labels are classes of molecules.

    Args:
        benchmark: The data.
        method: Name of a method, or ``auto``.
        model: Name of a model, or None.
        preset: Name of a preset, or None.
        overrides: Settings of the user; ``method.of`` names the method of a blend's members.
    """
    molecular = benchmark.features == MOLECULE
    if method == AUTO:
        method = GOODFORMER
    if preset is None:
        of = split_overrides(overrides)[0].get("of", GOODFORMER) if method == BLEND else method
        ours = (of == GOODFORMER and model in (None, GOODFORMER)) or (of, model) == CHEMPROP
        kind = MEASURED if benchmark.task.measured else MOLECULES if molecular else ""
        preset = kind if ours and kind in presets(of) else "default"
    return method, preset


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


def enough_training(train: Sized, config: RunConfig, given: Collection[str] = ()) -> list[str]:
    """Return settings that adapt training to the number of graphs; none if the user set the epochs.

    None, too, if the preset has one epoch, as for methods that are fitted at once.

    The epochs of presets are meant for benchmarks with tens of thousands of graphs; a table of a thousand molecules
    needs more. Early stopping ends the run, so the learning rate is constant: a decaying rate would still be high at
    that point. Presets that name their number of steps, such as those with codes of environments, which are learnt
    fast, keep their decaying rate. A run also ends once the
    selection metric has been perfect for some time. Weights are averaged over at most one epoch, so that the average
    does not contain the first steps.

    Args:
        train: Training graphs.
        config: The run with the settings of its preset.
        given: Names of the settings of the user, such as ``training.epochs``.
    """
    if config.training.epochs == 1 or "training.epochs" in given:
        return []
    steps = max(math.ceil(len(train) / config.training.batch_size), 1)
    own = fit_steps(config)
    epochs = min(max(math.ceil((own or STEPS) / steps), 3 if own else 10), MOST_EPOCHS)
    decay = min(config.training.average_decay, 1 - 1 / max(steps, LEAST_AVERAGE))
    return [
        f"training.epochs={epochs}",
        f"training.patience={max(epochs // 4, LEAST_PATIENCE)}",
        f"training.perfect_patience={max(math.ceil(PERFECT_STEPS / steps), PERFECT_EPOCHS)}",
        *([] if own else ["training.schedule=constant"]),
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
