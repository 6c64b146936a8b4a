"""``goodformer bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


def command(
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write them here.")] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write the table between the bench markers of this page.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions and smaller data.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Measure speed and memory on this machine.

    [bold]Examples[/bold]

      goodformer bench --quick
      goodformer bench -o benchmarks/latest.json --page docs/benchmarks.md
      goodformer bench --quick --json > bench.json

    Ratios (training and inference against GraphGPS, a step against its matrix products) are taken within one run, so
    they can be compared between machines; seconds cannot.
    """
    with output.working():
        from goodformer.experiments import bench, tables

        results = bench.run(quick=quick, progress=not quiet)
        if out:
            output.save_json(results, out)
        if page:
            tables.insert(page, "bench", bench.table(results))
    output.document(results) if as_json else typer.echo(bench.table(results))
