"""``goodformer bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


def command(
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write them here.")] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write the table between the markers of this page.")
    ] = None,
    batches: Annotated[
        str | None,
        typer.Option(metavar="DATASET", help="Time steps with random batches and with batches by size, nothing else."),
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
      goodformer bench --batches drugood -o benchmarks/batches.json --page docs/training.md

    Ratios (training and inference against GraphGPS, a step against its matrix products) are taken within one run, so
    they can be compared between machines; seconds cannot. The table goes between the lines <!-- bench: begin --> and
    <!-- bench: end --> of a page, that of --batches between those that say batches.
    """
    with output.working():
        from goodformer.experiments import bench, tables

        if batches is None:
            made = bench.record(bench.run(quick=quick, progress=not quiet), quick=quick)
            name, text = "bench", bench.table(made)
        else:
            dataset = {"name": batches}
            made = bench.record(bench.batch_orders(dataset, 600 if quick else 3000), quick=quick, dataset=dataset)
            name, text = "batches", bench.batches_table(made)
        if out:
            output.save_json(made, out)
        if page:
            tables.insert(page, name, text)
    output.document(made) if as_json else typer.echo(text)
