"""``goodformer uncertainty``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run's folder, or the start of its name or id.")
    ] = None,
    weights: options.Weights = "best",
    alpha: Annotated[float, typer.Option(help="Share of ID graphs that may be flagged as outside.")] = 0.05,
    level: Annotated[float, typer.Option(help="Target coverage of the conformal sets.")] = 0.9,
    save: Annotated[
        bool, typer.Option("--save", help="Save the uncertainty beside the weights; predictions then use it.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the record to this file of JSON lines.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of a run: rank domain scores over these records.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="With --records: write tables between the markers of this page.")
    ] = None,
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    as_json: options.Json = False,
) -> None:
    """Measure calibration, domain scores and conformal sets of a run, in and out of distribution.

    [bold]Examples[/bold]

      goodformer uncertainty 3f2a
      goodformer uncertainty 3f2a --save --export results/sureness.jsonl
      goodformer uncertainty --records results/sureness.jsonl
    """
    if (name is None) == (records is None):
        raise InputError("give either a RUN to measure or --records FILE to rank domain scores.")
    if records is not None:
        _rank(records, write, as_json)
        return
    with output.working():
        from goodformer.engine.store import Run
        from goodformer.report.uncertainty import export as export_record
        from goodformer.uncertainty.measure import measure_run

        options.limit_threads(threads)
        run = Run.open(str(name), runs)
        record = measure_run(run, weights, alpha, level, save)
        if export:
            typer.echo(f"{export}: {export_record(record, export)} records", err=True)
    output.document(record) if as_json else _show(run.folder.name, record)


def _rank(path: Path, page: Path | None, as_json: bool) -> None:
    """Rank domain scores over records."""
    from goodformer.report import uncertainty as report

    found = report.read_records(path)
    if page:
        output.page(page, report.write(found, page))
    elif as_json:
        output.document({"best": report.best(found), "default": report.DEFAULT, "scores": report.rank(found)})
    else:
        output.show(report.ranking(found))


def _show(name: str, record: dict[str, Any]) -> None:
    """Print domain scores, calibration and conformal sets."""
    from goodformer.spec import SPLIT_NAMES

    ood, held = ("val", "test"), ("id_test", "val", "test")
    typer.echo(f"{name}, weights {record['weights']}\n")
    columns = [*(f"AUROC {SPLIT_NAMES[split]}" for split in ood), f"FPR95 {SPLIT_NAMES['test']}"]
    columns += [f"outside {SPLIT_NAMES[split]}" for split in held]
    rows = []
    for score, by_split in record["scores"].items():
        cells = [by_split.get(split, {}).get("auroc") for split in ood]
        cells += [by_split.get("test", {}).get("fpr95"), *(by_split.get(split, {}).get("outside") for split in held)]
        rows.append([f"{score}{' *' if score == record['default'] else ''}", *cells])
    title = "domain scores: OOD validation against ID validation, OOD test against ID test"
    output.table(["score", *columns], rows, title, f"* default; outside at alpha {record['alpha']:g}")
    pairs = [(kind, when) for kind in ("nll", "ece", "brier") for when in ("before", "after")]
    rows = [
        [SPLIT_NAMES[split], *(row[when][kind] for kind, when in pairs)] for split, row in record["calibration"].items()
    ]
    shifts = ", ".join(f"{shift:.3f}" for shift in record["shifts"])
    title = f"calibration, temperature {record['temperature']:.3f}{f', shift {shifts}' if shifts else ''}"
    output.table(["split", *(f"{kind} {when}" for kind, when in pairs)], rows, title)
    rows = [[SPLIT_NAMES[split], row["coverage"], row["size"]] for split, row in record["conformal"].items()]
    output.table(["split", "coverage", "labels per set"], rows, f"conformal sets at level {record['level']:g}")
    output.notes(record)
