"""``goodformer explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


def command(
    name: options.ModelName,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Your own rows: CSV, TSV, Parquet, SDF, JSON lines or a TU folder."),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Without a file, graphs of the run's own data: train, id_val, id_test, val, test.")
    ] = "test",
    count: Annotated[int, typer.Option(min=1, help="How many graphs are drawn.")] = 6,
    k: Annotated[int | None, typer.Option(min=1, help="Edges to choose; by default as many as are true.")] = None,
    smiles: Annotated[str | None, typer.Option(help="Column of the SMILES; by default as in training.")] = None,
    form: Annotated[
        str, typer.Option("--format", help="Tables of a file's scores as csv, tsv, parquet, json or jsonl.")
    ] = "csv",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for pictures and scores.")] = Path(
        "explained"
    ),
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Show what decides: pictures with the deciding edges or atoms marked, and tables with the score of each.

    [bold]Examples[/bold]

      goodformer explain bace new.csv -o why --count 12
      goodformer explain mine graphs.jsonl --k 6 --format parquet
      goodformer explain 3f2a --split test --count 6 -o explained

    A line of graphs.jsonl is a graph, nodes counted from 0, x only where the model was trained on node features:

      {"edges": [[0, 1], [1, 2], [2, 0]], "num_nodes": 3}

    Fidelity says what the probability loses without the chosen edges, and with them alone, beside as many random edges.
    """
    with output.working():
        from goodformer.cli.locate import limit_threads

        limit_threads(threads)
        report = _explain_split(name, runs, out, split, count, k, weights) if data is None else None
        if data is not None:
            from goodformer.apply.explain import explain_file
            from goodformer.apply.model import Model

            with output.counting("rows", hidden=quiet) as watch:
                report = explain_file(Model.open(name, runs, weights), data, out, count, k, form, smiles, watch)
    assert report is not None
    output.document(report) if as_json else _show(report)


def _explain_split(
    name: str, runs: Path, out: Path, split: str, count: int, k: int | None, weights: str
) -> dict[str, Any]:
    """Graphs of the data a run was trained on."""
    from goodformer.engine import Run
    from goodformer.experiments.explanation import explain_run

    return explain_run(Run.open(name, runs), out, split, count, k=k, weights=weights)


def _show(report: dict[str, Any]) -> None:
    """One row a graph, and where the files are."""
    rows = [[row["graph"], row["label"], row["predicted"], _hits(row)] for row in report["graphs"]]
    output.table(["graph", "label", "predicted", "true edges among the best"], rows)
    _show_fidelity(report.get("fidelity") or {})
    typer.echo(f"picture: {report['picture']}\nscores:  {report['scores']}")
    for table in report.get("tables", []):
        typer.echo(f"table:   {table}")


def _show_fidelity(fidelity: dict[str, Any]) -> None:
    """What the probability loses, beside random edges."""
    if fidelity.get("removed") is None:
        return
    lost = "probability lost without the chosen edges {removed:.3f} (random {random_removed:.3f}), "
    kept = "with them alone {kept:.3f} (random {random_kept:.3f})"
    typer.echo((lost + kept).format(**fidelity))


def _hits(row: dict[str, Any]) -> str | None:
    """How many of the m best edges are true, m being the number of true edges."""
    truth = row.get("truth")
    return f"{sum(truth[: sum(truth)])} of {sum(truth)}" if truth else None
