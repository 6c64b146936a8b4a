"""``goodformer report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


def command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="A fitted model or a run; a fitted model and its answers; or records (.jsonl) and folders of runs.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="The file that was predicted, if the answers lack the structures."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The page; default: report.html beside the source."),
    ] = None,
    smiles: options.SmilesAsTrained = None,
    overwrite: options.Overwrite = False,
    runs: options.Runs = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Write an HTML page on a fitted model, on its predictions, or on a comparison of runs.

    [bold]Examples[/bold]

      goodformer report bace
      goodformer report bace answers.csv
      goodformer report bace answers.csv --data new.sdf -o answers.html
      goodformer report results/*.jsonl -o comparison.html
      goodformer report runs

    A page is one file without links to other hosts: open it in any browser, or send it to a colleague. It contains
    molecules of the training data.
    """
    with output.working():
        from goodformer.pages.report import report

        page = report(sources, out, data, smiles, runs, overwrite)
    output.document({"page": str(page)}) if as_json else typer.echo(f"report: {page}")
