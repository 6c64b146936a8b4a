"""``goodformer compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


def command(
    dataset: Annotated[str, typer.Option(help="Data set, e.g. good-motif; see goodformer datasets.")],
    domain: Annotated[str | None, typer.Option(help="Attribute that shifts, e.g. basis or size.")] = None,
    shift: Annotated[str | None, typer.Option(help="Kind of shift: covariate, concept or none.")] = None,
    methods: Annotated[
        str, typer.Option(metavar="ROW,ROW", help="all, or rows: METHOD, MODEL, METHOD on MODEL, ROW:PRESET.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per row.")] = 3,
    budget: Annotated[
        str, typer.Option(help=f"Number of graphs and epochs for all rows: {options.BUDGETS}.")
    ] = "compare",
    overrides: options.Set = None,
    jobs: options.Jobs = 2,
    threads: options.Threads = 1,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Also use these records, files or folders; default with --table-only: results."
        ),
    ] = None,
    table_only: Annotated[bool, typer.Option("--table-only", help="Train nothing.")] = False,
    export: options.Export = None,
    form: options.FormatOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the table here; - is stdout.")
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train many methods on one benchmark under one budget and show them beside the paper's numbers.

    [bold]Examples[/bold]

      goodformer compare --dataset good-motif --domain basis
      goodformer compare --dataset good-motif --domain size --methods erm,gsat,goodformer --seeds 1
      goodformer compare --dataset sp-motif --set dataset.bias=0.9 --export results/comparison.jsonl
      goodformer compare --dataset good-motif --methods "all,erm on goodformer,goodformer:paper"
      goodformer compare --dataset good-motif --table-only -o table.tex

    Finished runs are reused and stopped runs are continued, so the command can be interrupted and repeated at any
    time. A run that fails does not stop the others; the exit code is then 1.
    """
    chosen = output.chosen_format(form, out)
    with output.working():
        from goodformer.engine.store import export_results
        from goodformer.report import compare
        from goodformer.report.records import finished

        sources = options.record_sources(records) if table_only else records or []
        given = {key: value for key, value in (("domain", domain), ("shift", shift)) if value is not None}
        plan = compare.plan({"name": dataset, **given}, methods, seeds, budget, overrides or [])
        known = compare.known_records(plan, runs, sources)
        failures: dict[str, str] = {}
        if not table_only and (missing := plan.missing(known)):
            from goodformer.data import load_benchmark
            from goodformer.executors import local

            load_benchmark(**missing[0].dataset)  # missing data are one error, not one failure per run
            with output.watching(quiet) as watch:
                failures = local.complete(missing, runs, jobs, threads, watch)
            known = compare.known_records(plan, runs, sources)
        if export:
            export_results(finished(plan.configs.values(), runs), export)
        report = compare.report(plan, known, failures)
        table = compare.table(report)
    made = {
        output.Format.text: lambda: table.text(output.width()),
        output.Format.markdown: table.markdown,
        output.Format.latex: table.latex,
        output.Format.json: lambda: output.document_text(report),
    }
    output.print_or_save(made, chosen, out, as_json)
    if failures:
        raise typer.Exit(1)
