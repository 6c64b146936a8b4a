"""The page of many runs: tables beside the paper's numbers, curves over epochs, accuracy against explanation.

Computed from records alone; never imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goodformer.data.readers.values import counted
from goodformer.engine.store import NamedRecord, list_runs
from goodformer.errors import InputError
from goodformer.pages import PAGE, charts, page
from goodformer.pages.charts import COLOURS, Series
from goodformer.pages.page import figure
from goodformer.report import results
from goodformer.report.metrics import METRICS
from goodformer.report.records import Record, mean_of, read_records
from goodformer.report.rows import PAPER
from goodformer.report.table import ABSENT, Table

CURVES = 8
"""Rows whose curves are drawn: those with the best results."""
SHARES = ("accuracy", "rocauc")
"""Metrics that tables show in percent."""
Rows = Sequence[tuple[str, Sequence[Record]]]


def comparison_page(sources: Sequence[Path], out: Path | None = None, overwrite: bool = False) -> Path:
    """Write the page of the records in files and folders; by default ``report.html`` beside the first source."""
    records: dict[str, Record] = {}
    for source in sources:
        if not source.exists():
            raise InputError(f"there is no {source}; give a file of records (.jsonl) or a folder of runs.")
        found = [] if source.is_file() else [run.summary for run in list_runs(source)]
        for record in [*found, *read_records(source, NamedRecord)]:
            if record:
                records[record["id"]] = record
    if not records:
        raise InputError(f"{sources[0]} has no finished run; give a file of records (.jsonl) or a folder of runs.")
    first = sources[0]
    place = out or (first if first.is_dir() else first.parent) / PAGE
    return write(list(records.values()), place, overwrite=overwrite)


def write(records: Sequence[Record], path: Path, tables: Sequence[Table] = (), overwrite: bool = False) -> Path:
    """Write the page of records.

    Args:
        records: The records of runs.
        path: The page.
        tables: Tables that are shown first, such as that of ``goodformer compare``.
        overwrite: Whether to replace another file than a page.
    """
    return page.write(page.check_page(path, overwrite), "comparison.html", **context(records, tables))


def context(records: Sequence[Record], tables: Sequence[Table] = ()) -> dict[str, Any]:
    """Return what the template of a comparison shows."""
    parts = []
    for number, (table, rows) in enumerate(zip(results.tables(records), results.rows(records), strict=True)):
        parts.append(
            {
                "id": f"part-{number}",
                "table": shown(table),
                "best": best(rows),
                "charts": [*curves(rows), *trade_off(rows)],
                "missing": missing([record for _, some in rows for record in some]),
                "without_curves": not any(record.get("curves") for _, some in rows for record in some),
            }
        )
    seeds = {record.get("seed") for record in records}
    return {
        "title": "Comparison of runs",
        "first": [shown(table) for table in tables],
        "groups": parts,
        "tiles": [
            {"value": str(len(records)), "name": "runs", "more": ""},
            {"value": str(len(parts)), "name": "benchmarks", "more": ""},
            {"value": str(len({record.get("method") for record in records})), "name": "methods", "more": ""},
            {"value": str(len(seeds)), "name": "seeds", "more": ""},
        ],
        "commits": sorted({str(record.get("commit")) for record in records if record.get("commit")}),
        "versions": sorted({f"torch {(record.get('versions') or {}).get('torch')}" for record in records}),
    }


def shown(table: Table) -> dict[str, Any]:
    """Return a table as a template shows it."""
    columns = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.heads)
    numeric = [any(cell.value is not None for cell in column) for column in columns]
    return {
        "title": table.title,
        "note": table.note,
        "heads": [(head or "method", number) for head, number in zip(table.heads, numeric, strict=True)],
        "rows": [
            [
                {
                    "text": "" if cell.text == ABSENT else cell.text,
                    "value": cell.value,
                    "deviation": cell.deviation,
                    "remark": cell.remark,
                    "best": cell.rank == 1,
                    "number": number,
                }
                for cell, number in zip(row, numeric, strict=True)
            ]
            for row in table.rows
        ],
    }


def best(rows: Rows) -> str:
    """Return one sentence on the highest OOD test among the rows with most seeds; empty if none has a result."""
    found = [(METRICS["ood_test"].over(some), label) for label, some in rows]
    most = max((mean.known for mean, _ in found), default=0)
    known = [(mean.mean, label) for mean, label in found if mean.mean is not None and mean.known == most]
    if not known or any(record.get("metric") not in SHARES for _, some in rows for record in some):
        return ""
    value, label = max(known)
    among = (
        f"the {len(known)} rows with {counted(most, 'seed')}"
        if len(known) > 1
        else f"rows with {counted(most, 'seed')}"
    )
    return f"Highest OOD test among {among}: {label} with {value:.2f}."


def curves(rows: Rows) -> list[dict[str, Any]]:
    """Return OOD test and OOD validation over the epochs, mean over seeds with the range of seeds as a band."""
    made = []
    drawn = [row for row in rows if any(record.get("curves") for record in row[1])]
    best = sorted(drawn, key=lambda row: -(METRICS["ood_test"].over(row[1]).mean or -math.inf))[:CURVES]
    shares = all(record.get("metric") in SHARES for _, some in drawn for record in some)
    for name, title in (("ood_test", "OOD test"), ("ood_val", "OOD validation"), ("precision_at_10", "Precision@10")):
        series = []
        for colour, (label, some) in zip(COLOURS, best, strict=False):
            own = [found for record in some if (found := (record.get("curves") or {}).get(name))]
            epochs = max(map(len, own), default=0)
            if epochs < 2:
                continue
            factor = 100 if shares and name.startswith("ood") else 1
            at = [
                [factor * one[epoch] for one in own if epoch < len(one) and one[epoch] is not None]
                for epoch in range(epochs)
            ]
            mean = [math.nan if (value := mean_of(some).mean) is None else value for some in at]
            low, high = ([math.nan if not some else end(some) for some in at] for end in (min, max))
            band = (low, high) if len(own) > 1 else ((), ())
            series.append(Series(label, colour, list(range(1, epochs + 1)), mean, *band))
        if series:
            chart = charts.lines(series, "epoch", title, points=max(len(one.x) for one in series) <= 12, whole=True)
            note = "Mean over seeds; band: range of the seeds."
            note += f" The {CURVES} best of {len(drawn)} rows." if len(drawn) > CURVES else ""
            made.append(figure(f"{title} per epoch", chart, [(one.name, one.colour) for one in series], note))
    return made


def trade_off(rows: Rows) -> list[dict[str, Any]]:
    """Return OOD test against the quality of explanations, one point per row."""
    for name in ("precision_at_10", "edge_auc", "node_auc"):
        x, y, labels = [], [], []
        for label, some in rows:
            quality, accuracy = METRICS[name].over(some).mean, METRICS["ood_test"].over(some).mean
            if quality is not None and accuracy is not None:
                x.append(quality)
                y.append(accuracy)
                labels.append(label)
        if len(x) > 1:
            tips = [
                f"{label}: {METRICS[name].head} {a:.3f}, OOD test {b:.1f} %"
                for label, a, b in zip(labels, x, y, strict=True)
            ]
            few = len(x) <= 12
            short = [label.partition(",")[0] for label in labels]  # without changed settings, which do not fit
            series = [Series("rows", "s1", x, y, labels=short if few else tips)]
            chart = charts.scatter(series, METRICS[name].head, "OOD test, %", names=few)
            return [figure("Accuracy against explanation", chart, note="One point per row of the table.")]
    return []


def missing(records: Sequence[Record]) -> list[dict[str, str]]:
    """Return the rows of the paper that have no run here, with the paper's number; none for other benchmarks."""
    dataset = (records[0].get("config") or {}).get("dataset")
    if not dataset:
        return []
    done = {(record.get("method"), record.get("model")) for record in records}
    found = []
    for row in PAPER:
        cell = METRICS["ood_test"].published_cell(dataset, row.published)
        if (row.method, row.model_on(dataset["name"])) not in done and cell.value is not None:
            found.append({"title": row.title, "paper": cell.plain()})
    return found
