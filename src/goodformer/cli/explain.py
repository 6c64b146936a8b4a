"""``goodformer explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


def command(
    name: options.RunName,
    split: Annotated[str, typer.Option(help="Where graphs come from: train, id_val, id_test, val, test.")] = "test",
    count: Annotated[int, typer.Option(min=1, help="How many graphs, spread evenly over the split.")] = 6,
    graphs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own graphs instead, one JSON object a line.")
    ] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Edges to choose; by default as many as are true.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for picture and scores.")] = Path(
        "explained"
    ),
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    as_json: options.Json = False,
) -> None:
    """Show which edges decide: a picture of graphs and a JSON file with the score of every edge.

    [bold]Examples[/bold]

      goodformer explain 3f2a --split test --count 6 -o explained
      goodformer explain 3f2a --graphs mine.jsonl --k 6 --json

    A line of mine.jsonl is a graph, nodes counted from 0, x only where the model was trained on node features:

      {"edges": [[0, 1], [1, 2], [2, 0]], "num_nodes": 3}
    """
    with output.working():
        from goodformer.cli.locate import limit_threads
        from goodformer.engine import Run
        from goodformer.experiments.explanation import explain_run

        limit_threads(threads)
        report = explain_run(Run.open(name, runs), out, split, count, graphs, k, weights)
    output.document(report) if as_json else _show(report)


def _show(report: dict[str, Any]) -> None:
    """One row a graph, and where the files are."""
    rows = [[row["graph"], row["label"], row["predicted"], _hits(row)] for row in report["graphs"]]
    output.table(["graph", "label", "predicted", "true edges among the best"], rows)
    typer.echo(f"picture: {report['picture']}\nscores:  {report['scores']}")


def _hits(row: dict[str, Any]) -> str | None:
    """How many of the m best edges are true, m being the number of true edges."""
    truth = row.get("truth")
    return f"{sum(truth[: sum(truth)])} of {sum(truth)}" if truth else None
