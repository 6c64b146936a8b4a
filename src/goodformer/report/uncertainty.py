"""How sure a trained run is, measured on its own benchmark, and which domain score many runs speak for."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch

from goodformer import files
from goodformer.data import load_benchmark
from goodformer.engine.record import identity, machine, source_commit, versions
from goodformer.engine.store import Run, merge_lines
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.report import tables
from goodformer.spec import SPLITS, Task
from goodformer.uncertainty.calibration import figures
from goodformer.uncertainty.conformal import coverage
from goodformer.uncertainty.domain import DOMAIN_SCORES, available, detection
from goodformer.uncertainty.observe import Seen, observe
from goodformer.uncertainty.uncertainty import DEFAULT, TRAINING_GRAPHS, Sureness, check_validation

Record = Mapping[str, Any]
KIND = "sureness"
AGAINST = {"val": "id_val", "test": "id_test"}
"""Shifted splits, and the in-distribution graphs that a domain score should tell each from."""
MEASURED = ("id_test", "val", "test")
STAGES = ("before", "after")
LEVEL = 0.9
RECORDS = "give a file of records, one JSON object a line, as goodformer sureness RUN --export FILE writes it"
NOTHING = torch.empty(0)


def measure_run(run: Run, weights: str = "best", alpha: float = 0.05, level: float = LEVEL) -> dict[str, Any]:
    """What a run's calibration, domain scores and conformal sets are worth in and out of distribution.

    All is learnt from training and in-distribution validation graphs; ``id_test``, ``val`` and ``test`` only measure,
    and are left out where the benchmark has no such graph.

    Args:
        run: A trained run.
        weights: ``best`` or ``last``.
        alpha: Share of usual graphs that may be called outside.
        level: Of the conformal sets.
    """
    predictor = FittedModel.of_run(run, weights)
    benchmark = load_benchmark(**run.config.dataset).with_encodings(predictor.method.encodings)
    check_validation(benchmark.splits["id_val"])
    limits, there = {"train": TRAINING_GRAPHS}, [split for split in SPLITS if len(benchmark.splits[split])]
    seen = {split: observe(predictor, benchmark.splits[split], limit=limits.get(split)) for split in there}
    return {
        "kind": KIND,
        **identity(run.config, benchmark),
        "weights": weights,
        "epochs": len(run.epochs),
        "graphs": {split: len(seen[split]) if split in seen else 0 for split in SPLITS},
        **measure(benchmark.task, seen, alpha, level),
        "commit": source_commit(),
        "versions": versions(),
        "machine": machine(),
    }


def measure(task: Task, seen: Mapping[str, Seen], alpha: float = 0.05, level: float = LEVEL) -> dict[str, Any]:
    """The figures of `measure_run` from splits already seen; only ``train`` and ``id_val`` must be there."""
    fitted = {
        name: Sureness.learn(task, seen["train"], seen["id_val"], name, alpha) for name in available(seen["id_val"])
    }
    plain = fitted[DEFAULT]  # calibration and sets are the same whatever the score
    labelled = {split: (part.logits, part.y) for split, part in _measured(seen).items() if part.y is not None}
    return {
        "default": DEFAULT,
        "against": dict(AGAINST),
        "alpha": alpha,
        "level": level,
        "scores": {name: _detected(sure, seen) for name, sure in fitted.items()},
        "temperature": plain.temperature,
        "calibration": {
            split: {"before": figures(task, z, y), "after": figures(task, z / plain.temperature, y)}
            for split, (z, y) in labelled.items()
        },
        "conformal": {split: coverage(task, plain.sets(z, level), y) for split, (z, y) in labelled.items()},
        "notes": list(plain.notes),
    }


def save(run: Run, weights: str = "best", alpha: float = 0.05, score: str = DEFAULT) -> Sureness:
    """Fit how sure a run's predictor is and keep it beside its weights, so that its predictions tell."""
    predictor = FittedModel.of_run(run, weights)
    splits = load_benchmark(**run.config.dataset).with_encodings(predictor.method.encodings).splits
    predictor.sureness = Sureness.fit(predictor, splits["train"], splits["id_val"], score, alpha)
    predictor.save(run.folder / weights)
    return predictor.sureness


def export(record: Record, path: str | Path) -> int:
    """Put a record into a file of JSON lines, in place of an older one of the same run and weights; lines there are."""
    return merge_lines(Path(path), [dict(record)], lambda line: (line["id"], line["weights"]), _check)


def read_records(path: str | Path) -> list[Record]:
    """The records of a file that `export` wrote."""
    source = Path(path)
    if source.is_dir():
        raise InputError(f"{source} is a folder; {RECORDS}.")
    if not source.is_file():
        raise InputError(f"there is no file {source}; write one with goodformer sureness RUN --export {source}.")
    lines = files.read_lines(source, RECORDS)
    _check(source, lines)
    if not lines:
        raise InputError(f"{source} holds no record; {RECORDS}.")
    return list(lines)


def rank(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row a domain score: figures averaged over the runs of a data set, then over data sets.

    The order is that of ``auroc_val``, shifted validation graphs against in-distribution ones, so that no test graph
    has a say in what is chosen; ``auroc`` and what follows it are of test graphs and say what the choice is worth. A
    score that some runs do not have is averaged over those that do; ``everywhere`` says whether all have it.
    """
    rows = [
        _row(name, [record for record in records if name in record["scores"]], len(records)) for name in DOMAIN_SCORES
    ]
    return sorted((row for row in rows if row["runs"]), key=lambda row: -(row["auroc_val"] or 0))


def best(records: Sequence[Record]) -> str | None:
    """What `DEFAULT` should be: of the scores that read the model and that every run has, the first in `rank`.

    Scores that read no model are baselines: they see size and degrees, and are blind to a shift in anything else.
    """
    return next((row["score"] for row in rank(records) if row["everywhere"] and not row["baseline"]), None)


def markdown(records: Sequence[Record]) -> str:
    """Three tables: domain scores in their order, their test AUROC method by method, and probabilities and sets."""
    keys = ("auroc_val", "auroc", "lowest", "fpr95", "outside_id", "outside")
    rows = [
        [
            f"`{row['score']}`",
            row["about"],
            *(_figure(row[key]) for key in keys),
            str(row["runs"]),
            str(row["data_sets"]),
        ]
        for row in rank(records)
    ]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((*_data_set(record), record["method"], record["model"]), []).append(record)
    bodies = ((RANKED, rows), (DETECTED, map(_detects, groups.items())), (SURE, map(_sure, groups.items())))
    first, *others = (tables.markdown_table(head, body) for head, body in bodies)
    return "\n\n".join((first, verdict(records), *others))


def verdict(records: Sequence[Record]) -> str:
    """Which score the records speak for, and which is the default."""
    data_sets = len({_data_set(record) for record in records})
    return (
        f"Best on validation, of the scores that read the model and that all {len(records)} runs on {data_sets} data "
        f"set{'s' * (data_sets != 1)} have: `{best(records)}`. The default: `{DEFAULT}`."
    )


def write(records: Sequence[Record], page: Path) -> bool:
    """Put the tables of records between the markers of a page; True where that changed it."""
    return tables.insert(page, KIND, markdown(records))


RANKED = (
    *("score", "what", "AUROC validation", "AUROC test", "lowest", "FPR95", "outside ID", "outside OOD"),
    *("runs", "data sets"),
)
DETECTED = ("data set", "method", "model", "runs", *(f"`{name}`" for name in DOMAIN_SCORES))
SURE = (
    *("data set", "method", "model", "runs", "ECE ID, before", "after", "ECE OOD, before", "after"),
    *("coverage ID", "coverage OOD", "labels a set ID", "OOD"),
)


def _detects(group: tuple[tuple[str, ...], Sequence[Record]]) -> list[str]:
    """Test AUROC of every score of one method on one model."""
    return _cells(group, [("scores", name, "test", "auroc") for name in DOMAIN_SCORES])


def _sure(group: tuple[tuple[str, ...], Sequence[Record]]) -> list[str]:
    """Calibration and conformal sets of one method on one model."""
    ends = ("id_test", "test")
    paths = [("calibration", end, when, "ece") for end, when in product(ends, STAGES)]
    return _cells(group, [*paths, *(("conformal", end, what) for what, end in product(("coverage", "size"), ends))])


def _cells(group: tuple[tuple[str, ...], Sequence[Record]], paths: Sequence[tuple[str, ...]]) -> list[str]:
    """The cells of one method on one model: means over runs of the entries at some paths."""
    (dataset, domain, shift, method, model), records = group
    values = [_known(_entry(record, *path) for record in records) for path in paths]
    cells = [_figure(statistics.fmean(known) if known else None) for known in values]
    return [" / ".join((dataset, domain, shift)), method, model, str(len(records)), *cells]


def _entry(record: Record, *path: str) -> Any:
    """What stands at a path in a record, None where the run has no such split or score."""
    found: Any = record
    for name in path:
        found = (found or {}).get(name)
    return found


def _figure(value: float | None) -> str:
    return "-" if value is None else tables.written(value, 3)


def _row(name: str, records: Sequence[Record], count: int) -> dict[str, Any]:
    """What the records say of one score."""

    def mean(split: str, figure: str) -> float | None:
        return _over_data_sets(records, "scores", name, split, figure)

    return {
        "score": name,
        "about": DOMAIN_SCORES[name].about,
        "auroc_val": mean("val", "auroc"),
        "auroc": mean("test", "auroc"),
        "lowest": min(_known(_entry(record, "scores", name, "test", "auroc") for record in records), default=None),
        "fpr95": mean("test", "fpr95"),
        "outside_id": mean("id_test", "outside"),
        "outside": mean("test", "outside"),
        "runs": len(records),
        "data_sets": len({_data_set(record) for record in records}),
        "everywhere": len(records) == count,
        "baseline": DOMAIN_SCORES[name].baseline,
    }


def _over_data_sets(records: Sequence[Record], *path: str) -> float | None:
    """The mean over data sets of the mean over their runs, so that a data set with many runs counts once."""
    groups: dict[Any, list[float]] = {}
    for record in records:
        groups.setdefault(_data_set(record), []).extend(_known([_entry(record, *path)]))
    means = [statistics.fmean(values) for values in groups.values() if values]
    return statistics.fmean(means) if means else None


def _detected(sure: Sureness, seen: Mapping[str, Seen]) -> dict[str, dict[str, Any]]:
    """How well one score tells each shifted split from its like, and the share of each split it calls outside."""
    unusual = {split: sure.unusual(part) for split, part in seen.items() if split != "train"}
    found: dict[str, dict[str, Any]] = {}
    for split in _measured(seen):
        other = AGAINST.get(split)
        told = detection(unusual.get(other, NOTHING), unusual[split]) if other else {}
        found[split] = {**told, "outside": float(sure.outside(unusual[split]).double().mean())}
    return found


def _measured(seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """The splits that measure, as far as they are there."""
    return {split: seen[split] for split in MEASURED if split in seen}


def _check(path: Path, lines: Sequence[Any]) -> None:
    """Refuse a file that `export` did not write."""
    if not all(isinstance(line, dict) and line.get("kind") == KIND for line in lines):
        raise InputError(f"{path} holds a line that goodformer sureness did not write; {RECORDS}.")


def _data_set(record: Record) -> tuple[Any, ...]:
    return record["dataset"], record["domain"], record["shift"]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
