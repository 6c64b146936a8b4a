"""Records of uncertainty: ranking domain scores over many runs, and the tables of the uncertainty page.

`goodformer.uncertainty` measures a run; this module only reads what it recorded.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.engine.store import UncertaintyLine, check_record, merge_lines
from goodformer.errors import InputError
from goodformer.report.metrics import entry
from goodformer.report.records import Record, mean_of
from goodformer.report.table import Cell, Table, insert

KIND = "sureness"
"""Kind of these records, and marker of the tables in a page."""
SCORES = {
    "energy": "energy of the logits",
    "doubt": "-log of the largest probability",
    "entropy": "entropy of the prediction",
    "mahalanobis": "distance of the embedding to the nearest class mean",
    "neighbours": "distance of the embedding to the tenth nearest training graph",
    "similarity": "Tanimoto distance to the nearest training molecule",
    "statistics": "size and degrees, without a model",
    "temperature": "solved attention temperature",
    "entropy_gap": "difference of the attention entropy from that in training",
    "spread": "disagreement of the members",
}
"""Domain scores in the order of tables, with a description; the same names as `goodformer.uncertainty.domain`."""
BASELINES = ("statistics",)
"""Scores that do not read the model: they see size and degrees, and no other shift."""
DEFAULT, OF_MOLECULES = "neighbours", "similarity"
"""The domain scores of fitted models: of most graphs, and of molecules."""
RANKING = {
    "auroc_val": "AUROC OOD validation",
    "auroc": "AUROC OOD test",
    "lowest": "lowest",
    "fpr95": "FPR95",
    "outside_id": "outside ID test",
    "outside": "outside OOD test",
    "runs": "runs",
    "data_sets": "data sets",
}
"""Columns of the ranking by their keys in `rank`."""
ADVICE = "give a file with one JSON object per line, as goodformer uncertainty RUN --export FILE writes it"


def _check(path: Path, lines: Sequence[Any]) -> None:
    """Refuse a file that `export` did not write."""
    for line in lines:
        if not isinstance(line, dict) or line.get("kind") != KIND:
            raise InputError(f"{path} contains a line that goodformer uncertainty did not write; {ADVICE}.")
        check_record(line, path, UncertaintyLine, ADVICE)


def export(record: Record, path: str | Path) -> int:
    """Add a record to a file of JSON lines, replacing the one of the same run and weights; return the line count."""
    return merge_lines(Path(path), [dict(record)], lambda line: (line["id"], line["weights"]), _check)


def read_records(path: str | Path) -> list[Record]:
    """Return the records of a file that `export` wrote."""
    source = Path(path)
    if source.is_dir():
        raise InputError(f"{source} is a folder; {ADVICE}.")
    if not source.is_file():
        command = f"goodformer uncertainty RUN --export {shlex.quote(str(source))}"
        raise InputError(f"there is no file {source}; write one with {command}.")
    lines = files.read_lines(source, ADVICE)
    _check(source, lines)
    if not lines:
        raise InputError(f"{source} contains no record; {ADVICE}.")
    return list(lines)


def rank(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row per domain score: metrics averaged over the runs of a data set, then over data sets.

    Rows are ordered by ``auroc_val``, OOD against ID validation graphs, so that no test graph influences the choice.
    ``auroc`` and the entries after it are measured on test graphs. A score that some runs lack is averaged over those
    that have it; ``everywhere`` says whether all runs have it.
    """
    rows = []
    for name in dict.fromkeys([*SCORES, *(name for record in records for name in record["scores"])]):
        some = [record for record in records if name in record["scores"]]
        lowest = [entry(record, "scores", name, "test", "auroc") for record in some]
        rows.append(
            {
                "score": name,
                "about": SCORES.get(name, name),
                "auroc_val": _over_data_sets(some, "scores", name, "val", "auroc"),
                "auroc": _over_data_sets(some, "scores", name, "test", "auroc"),
                "lowest": min((value for value in lowest if value is not None), default=None),
                "fpr95": _over_data_sets(some, "scores", name, "test", "fpr95"),
                "outside_id": _over_data_sets(some, "scores", name, "id_test", "outside"),
                "outside": _over_data_sets(some, "scores", name, "test", "outside"),
                "runs": len(some),
                "data_sets": len({_data_set(record) for record in some}),
                "everywhere": len(some) == len(records),
                "baseline": name in BASELINES,
            }
        )
    return sorted((row for row in rows if row["runs"]), key=lambda row: -(row["auroc_val"] or 0))


def _over_data_sets(records: Sequence[Record], *path: str) -> float | None:
    """Return the mean over data sets of the mean over their runs, so that every data set counts once."""
    groups: dict[Any, list[float | None]] = {}
    for record in records:
        groups.setdefault(_data_set(record), []).append(entry(record, *path))
    return mean_of(mean_of(values).mean for values in groups.values()).mean


def _data_set(record: Record) -> tuple[Any, ...]:
    return record["dataset"], record["domain"], record["shift"]


def best(records: Sequence[Record]) -> str | None:
    """Return the first score of `rank` that reads the model and that every run has: what the default should be."""
    reads = (row["score"] for row in rank(records) if row["everywhere"] and not row["baseline"])
    return next((score for score in reads if score != OF_MOLECULES), None)


def verdict(records: Sequence[Record]) -> str:
    """Return a sentence with the best score and the default one."""
    data_sets = len({_data_set(record) for record in records})
    return (
        f"Best score on OOD validation, among those that use the model and exist for all {len(records)} runs on "
        f"{data_sets} data set{'s' * (data_sets != 1)}: `{best(records)}`. Default: `{DEFAULT}`, for molecules "
        f"`{OF_MOLECULES}`."
    )


def ranking(records: Sequence[Record]) -> Table:
    """Return the table of domain scores, best on OOD validation first."""
    rows = [[row["score"], *(row[key] for key in RANKING)] for row in rank(records)]
    title = "OOD against ID graphs, best on OOD validation first; columns after the first AUROC are of test graphs"
    return Table.of(["score", *RANKING.values()], rows, title, verdict(records).replace("`", ""))


def markdown(records: Sequence[Record]) -> str:
    """Return three tables: ranked domain scores, their test AUROC per method, calibration and conformal sets."""
    scores = [[f"`{row['score']}`", row["about"], *(row[key] for key in RANKING)] for row in rank(records)]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((*_data_set(record), record["method"], record["model"]), []).append(record)
    ends = {"id_test": "ID", "test": "OOD"}
    measured = [name for name in SCORES if any(name in record["scores"] for record in records)]
    detected = {f"`{name}`": ("scores", name, "test", "auroc") for name in measured}
    sure: dict[str, tuple[str, ...]] = {
        f"ECE {ends[end]}, {when}": ("calibration", end, when, "ece")
        for end, when in product(ends, ("before", "after"))
    }
    sure |= {
        f"{head} {ends[end]}": ("conformal", end, what)
        for (what, head), end in product((("coverage", "coverage"), ("size", "labels per set")), ends)
    }
    return "\n\n".join(
        (
            Table.of(["score", "description", *RANKING.values()], scores).markdown(),
            verdict(records),
            _per_method(groups, detected).markdown(),
            _per_method(groups, sure).markdown(),
        )
    )


def _per_method(groups: Mapping[tuple[str, ...], Sequence[Record]], columns: Mapping[str, tuple[str, ...]]) -> Table:
    """Return one row per data set, method and model: means over runs of the entries at some paths."""
    rows = []
    for (dataset, domain, shift, method, model), records in groups.items():
        means = (mean_of(entry(record, *path) for record in records).mean for path in columns.values())
        names = Cell(" / ".join((dataset, domain, shift))), Cell(method), Cell(model), Cell.of(len(records))
        rows.append([*names, *(Cell.mean(mean, digits=3) for mean in means)])
    return Table(["data set", "method", "model", "runs", *columns], rows)


def write(records: Sequence[Record], page: Path) -> bool:
    """Write the tables of records between the markers of a page; return whether it changed."""
    return insert(page, KIND, markdown(records))
