"""``goodformer sureness``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output

MEASURED = ("id_test", "val", "test")
"""The splits that nothing was learnt from."""


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's folder, or the start of its name or id.")
    ] = None,
    weights: options.Weights = "best",
    alpha: Annotated[float, typer.Option(help="Share of usual graphs that may be called outside.")] = 0.05,
    level: Annotated[float, typer.Option(help="Share of labels the conformal sets should hold.")] = 0.9,
    save: Annotated[bool, typer.Option("--save", help="Keep it beside the weights, so that predictions tell.")] = False,
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
    """Measure how sure a run may be: calibration, unusual graphs, conformal sets, in and out of distribution.

    [bold]Examples[/bold]

      goodformer sureness 3f2a
      goodformer sureness 3f2a --save --export results/sureness.jsonl
      goodformer sureness --records results/sureness.jsonl
    """
    if records is not None and name is None:
        _rank(records, write, as_json)
        return
    with output.working():
        from goodformer.cli.locate import limit_threads
        from goodformer.engine.store import Run
        from goodformer.registry import InputError
        from goodformer.report import uncertainty as sureness

        if name is None or records is not None:
            raise InputError("give either a RUN to measure or --records FILE to rank scores, and not both.")
        limit_threads(threads)
        run = Run.open(name, runs)
        record = sureness.measure_run(run, weights, alpha, level)
        if save:
            sureness.save(run, weights, alpha)
        if export:
            typer.echo(f"{export} now holds {sureness.export(record, export)} records", err=True)
    output.document(record) if as_json else _show(run.folder.name, record)


def _rank(path: Path, page: Path | None, as_json: bool) -> None:
    """One row a domain score, over all records."""
    from goodformer.report import uncertainty as sureness

    found = sureness.read_records(path)
    if page:
        typer.echo(f"{page} {'rewritten' if sureness.write(found, page) else 'is up to date'}", err=True)
    elif as_json:
        output.document({"best": sureness.best(found), "default": sureness.DEFAULT, "scores": sureness.rank(found)})
    else:
        output.show(sureness.ranking(found))


def _show(name: str, record: dict[str, Any]) -> None:
    """Domain scores, calibration, conformal sets."""
    from goodformer.spec import SPLIT_NAMES

    typer.echo(f"{name}, weights {record['weights']}\n")
    columns = ["score", "AUROC val", "AUROC test", "FPR95 test", "outside ID", "outside val", "outside test"]
    rows = [[f"{key}{' *' if key == record['default'] else ''}", *_cells(row)] for key, row in record["scores"].items()]
    title = "unusual graphs: val against ID val, test against ID test"
    output.table(columns, rows, title, f"* default; outside at alpha {record['alpha']:g}")
    kinds = ("nll", "ece", "brier")
    head = ["split", *(f"{kind} {when}" for kind in kinds for when in ("before", "after"))]
    lines = [
        [SPLIT_NAMES[split], *(row[when][kind] for kind in kinds for when in ("before", "after"))]
        for split, row in record["calibration"].items()
    ]
    output.table(head, lines, f"probabilities, temperature {record['temperature']:.3f}")
    sets = [[SPLIT_NAMES[split], row["coverage"], row["size"]] for split, row in record["conformal"].items()]
    output.table(["split", "coverage", "labels a set"], sets, f"conformal sets at {record['level']:g}")
    for note in record["notes"]:
        typer.echo(note)


def _cells(row: dict[str, Any]) -> list[Any]:
    """The figures of one domain score, None where a split has no graph."""
    val, test = row.get("val", {}), row.get("test", {})
    flagged = [row.get(split, {}).get("outside") for split in MEASURED]
    return [val.get("auroc"), test.get("auroc"), test.get("fpr95"), *flagged]
