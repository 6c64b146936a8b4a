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
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train ERM on GIN and GOODFormer on a reduced GOOD-Motif, compare them, draw what GOODFormer found.

    [bold]Examples[/bold]

      goodformer quickstart
      goodformer quickstart --seed 1
      goodformer quickstart -o elsewhere --json

    A second call continues what was stopped and shows at once what is finished.
    """
    with output.working():
        from goodformer import quickstart

        report = quickstart.run(out, seed=seed, threads=threads, progress=not quiet)
    if as_json:
        output.document(report)
        return
    output.table(report["columns"], report["rows"], title=report["title"], note=report["note"])
    typer.echo(f"picture: {report['picture']}")
