"""``goodformer quickstart``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


def command(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for runs and picture.")] = Path(
        "quickstart"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of both runs.")] = 0,
    page: options.Page = True,
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train ERM on GIN and GOODFormer on a reduced GOOD-Motif, compare them, draw the subgraphs GOODFormer finds.

    [bold]Examples[/bold]

      goodformer quickstart
      goodformer quickstart --seed 1
      goodformer quickstart -o elsewhere --json

    A second call continues a stopped run and shows finished runs at once.
    """
    with output.working():
        from goodformer import quickstart

        table, report = quickstart.run(out, seed=seed, threads=threads, progress=not quiet, page=page)
    if as_json:
        output.document({**table.to_dict(), **report})
        return
    output.show(table)
    typer.echo(f"\npicture: {report['picture']}")
    output.notes(report)
    if report["page"]:
        typer.echo(f"page:    {report['page']}")
