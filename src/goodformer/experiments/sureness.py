"""How sure a trained run is, measured on its own benchmark, and which domain score many runs speak for."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.engine import Run, files
from goodformer.engine.record import machine, source_commit, versions
from goodformer.engine.uncertainty import (
    DEFAULT,
    SCORES,
    TRAINING_GRAPHS,
    Seen,
    Sureness,
    available,
    coverage,
    detection,
    figures,
    observe,
)
from goodformer.experiments import tables
from goodformer.registry import InputError
from goodformer.spec import SPLITS, Task

Record = Mapping[str, Any]
KIND = "sureness"
SHIFTED = ("val", "test")
MEASURED = ("id_test", "val", "test")
STAGES = ("before", "after")
LEVEL = 0.9


def measure_run(run: Run, weights: str = "best", alpha: float = 0.05, level: float = LEVEL) -> dict[str, Any]:
    """What a run's calibration, domain scores and conformal sets are worth in and out of distribution.

    All is learnt from training and in-distribution validation graphs; ``id_test``, ``val`` and ``test`` only measure.

    Args:
        run: A trained run.
        weights: ``best`` or ``last``.
        alpha: Share of usual graphs that may be called outside.
        level: Of the conformal sets.
    """
    predictor = run.predictor(weights)
    benchmark = load_benchmark(**run.config.dataset).with_encodings(predictor.method.encodings)
    limits = {"train": TRAINING_GRAPHS}
    seen = {split: observe(predictor, benchmark.splits[split], limit=limits.get(split)) for split in SPLITS}
    return {
        **_identity(run, benchmark, weights),
        "graphs": {split: len(part) for split, part in seen.items()},
        **measure(benchmark.task, seen, alpha, level),
        "commit": source_commit(),
        "versions": versions(),
        "machine": machine(),
    }


def measure(task: Task, seen: Mapping[str, Seen], alpha: float = 0.05, level: float = LEVEL) -> dict[str, Any]:
    """The figures of `measure_run` from the five splits already seen."""
    fitted = {
        name: Sureness.learn(task, seen["train"], seen["id_val"], name, alpha) for name in available(seen["id_val"])
    }
    plain = fitted[DEFAULT]  # calibration and sets are the same whatever the score
    return {
        "default": DEFAULT,
        "alpha": alpha,
        "level": level,
        "scores": {name: _detected(sure, seen) for name, sure in fitted.items()},
        "temperature": plain.temperature,
        "calibration": {split: _calibrated(task, seen[split], plain.temperature) for split in MEASURED},
        "conformal": {
            split: coverage(task, plain.sets(part.logits, level), part.y)
            for split in MEASURED
            if (part := seen[split]).y is not None
        },
        "notes": list(plain.notes),
    }


def save(run: Run, weights: str = "best", alpha: float = 0.05, score: str = DEFAULT) -> Sureness:
    """Fit how sure a run's predictor is and keep it beside its weights, so that its predictions tell."""
    predictor = run.predictor(weights)
    splits = load_benchmark(**run.config.dataset).with_encodings(predictor.method.encodings).splits
    predictor.sureness = Sureness.fit(predictor, splits["train"], splits["id_val"], score, alpha)
    predictor.save(run.folder / weights)
    return predictor.sureness


def export(record: Record, path: str | Path) -> int:
    """Put a record into a file of JSON lines, in place of an older one of the same run and weights; lines there are."""
    target = Path(path)
    files.make_folder(target.parent)
    lines = {_key(line): line for line in read_records(target)} if target.exists() else {}
    lines[_key(record)] = dict(record)
    files.write_lines(target, [dict(line) for line in lines.values()])
    return len(lines)


def read_records(path: str | Path) -> list[Record]:
    """The records of a file that `export` wrote."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file {source}; write one with goodformer sureness RUN --export {source}.")
    lines = files.read_lines(source)
    if not all(isinstance(line, dict) and line.get("kind") == KIND for line in lines):
        raise InputError(f"{source} holds a line that goodformer sureness did not write; choose another file.")
    return list(lines)


def rank(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row a domain score, best first: figures averaged over the runs of a data set, then over data sets.

    A score that some runs do not have is averaged over those that do; ``everywhere`` says whether all have it.
    """
    rows = [_row(name, [record for record in records if name in record["scores"]], len(records)) for name in SCORES]
    return sorted((row for row in rows if row["runs"]), key=lambda row: -(row["auroc"] or 0))


def best(records: Sequence[Record]) -> str | None:
    """The score that every run has and that tells shifted test graphs best, which `DEFAULT` should be."""
    return next((row["score"] for row in rank(records) if row["everywhere"]), None)


def markdown(records: Sequence[Record]) -> str:
    """Two tables: the domain scores, best first, and what every method on a model is sure of, in and out of it."""
    head = ["score", "what", "AUROC", "lowest", "FPR95", "outside ID", "outside OOD", "runs", "data sets"]
    keys = ("auroc", "lowest", "fpr95", "outside_id", "outside")
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
    return f"{tables.markdown_table(head, rows)}\n\n{tables.markdown_table(SURE, map(_sure, groups.items()))}"


def write(records: Sequence[Record], page: Path) -> bool:
    """Put the tables of records between the markers of a page; True where that changed it."""
    return tables.insert(page, KIND, markdown(records))


SURE = (
    *("data set", "method", "model", "runs", "ECE ID, before", "after", "ECE OOD, before", "after"),
    *("coverage ID", "coverage OOD", "labels a set ID", "OOD"),
)


def _sure(group: tuple[tuple[str, ...], Sequence[Record]]) -> list[str]:
    """The cells of one method on one model: means over runs."""
    (dataset, domain, shift, method, model), records = group
    ends = ("id_test", "test")
    values = [[record["calibration"][end][when]["ece"] for record in records] for end in ends for when in STAGES]
    values += [[record["conformal"][end][what] for record in records] for what in ("coverage", "size") for end in ends]
    cells = [_figure(statistics.fmean(known) if (known := _known(part)) else None) for part in values]
    return [" / ".join((dataset, domain, shift)), method, model, str(len(records)), *cells]


def _figure(value: float | None) -> str:
    return "-" if value is None else tables.written(value, 3)


def _row(name: str, records: Sequence[Record], count: int) -> dict[str, Any]:
    """What the records say of one score."""
    return {
        "score": name,
        "about": SCORES[name].about,
        "auroc": _over_data_sets(records, lambda record: record["scores"][name]["test"]["auroc"]),
        "fpr95": _over_data_sets(records, lambda record: record["scores"][name]["test"]["fpr95"]),
        "auroc_val": _over_data_sets(records, lambda record: record["scores"][name]["val"]["auroc"]),
        "lowest": min(_known(record["scores"][name]["test"]["auroc"] for record in records), default=None),
        "outside_id": _over_data_sets(records, lambda record: record["scores"][name]["id_test"]["outside"]),
        "outside": _over_data_sets(records, lambda record: record["scores"][name]["test"]["outside"]),
        "runs": len(records),
        "data_sets": len({_data_set(record) for record in records}),
        "everywhere": len(records) == count,
    }


def _over_data_sets(records: Sequence[Record], read: Any) -> float | None:
    """The mean over data sets of the mean over their runs, so that a data set with many runs counts once."""
    groups: dict[Any, list[float]] = {}
    for record in records:
        groups.setdefault(_data_set(record), []).extend(_known([read(record)]))
    means = [statistics.fmean(values) for values in groups.values() if values]
    return statistics.fmean(means) if means else None


def _detected(sure: Sureness, seen: Mapping[str, Seen]) -> dict[str, dict[str, Any]]:
    """How well one score tells shifted splits from ``id_test``, and the share of each split it calls outside."""
    unusual = {split: sure.unusual(seen[split]) for split in MEASURED}
    flagged = {split: {"outside": float(sure.outside(values).double().mean())} for split, values in unusual.items()}
    return {
        split: {**(detection(unusual["id_test"], unusual[split]) if split in SHIFTED else {}), **flagged[split]}
        for split in MEASURED
    }


def _calibrated(task: Task, seen: Seen, temperature: float) -> dict[str, dict[str, float]]:
    """What probabilities are worth as they come, and calibrated."""
    return dict(zip(STAGES, (figures(task, seen, 1.0), figures(task, seen, temperature)), strict=True))


def _identity(run: Run, benchmark: Benchmark, weights: str) -> dict[str, Any]:
    config = run.config
    return {
        "kind": KIND,
        "id": config.id,
        "weights": weights,
        "dataset": config.dataset["name"],
        "domain": benchmark.domain,
        "shift": benchmark.shift,
        "method": config.method["name"],
        "model": config.model["name"],
        "preset": config.preset,
        "budget": config.budget,
        "seed": config.seed,
        "epochs": len(run.epochs),
    }


def _key(record: Record) -> tuple[Any, Any]:
    return record["id"], record["weights"]


def _data_set(record: Record) -> tuple[Any, ...]:
    return record["dataset"], record["domain"], record["shift"]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
