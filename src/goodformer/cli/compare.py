"""``goodformer compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError


def command(
    dataset: Annotated[str | None, typer.Option(help="Data set, e.g. good-motif; see goodformer datasets.")] = None,
    suite: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Several data sets instead of one: {options.SUITES}.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Attribute that shifts, e.g. basis or size.")] = None,
    shift: Annotated[str | None, typer.Option(help="Kind of shift: covariate, concept or none.")] = None,
    methods: Annotated[
        str, typer.Option(metavar="ROW,ROW", help="all, or rows: METHOD, MODEL, METHOD on MODEL, ROW:PRESET.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per row.")] = 3,
    budget: Annotated[
        str, typer.Option(help=f"Number of graphs and epochs for all rows: {options.BUDGETS}.")
    ] = "compare",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ROW",
            help="Show the paired difference of every row to this one, with its interval. Of several, separated by "
            "commas, the best on OOD validation of each data set counts.",
        ),
    ] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="ROW ROW", help="Show the paired difference of the first row to the second."),
    ] = None,
    overrides: options.Set = None,
    jobs: options.Jobs = None,
    threads: options.Threads = 1,
    executor: options.Executor = "local",
    address: options.Address = None,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Also use these records, files or folders; default with --table-only: results."
        ),
    ] = None,
    table_only: Annotated[bool, typer.Option("--table-only", help="Train nothing.")] = False,
    export: options.Export = None,
    predictions: options.Predictions = False,
    form: options.FormatOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the table here; - is stdout.")
    ] = None,
    page: options.Page = True,
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
      goodformer compare --dataset bace --methods erm,gsat,goodformer --against erm
      goodformer compare --suite molecules --methods erm,goodformer --against erm --pair goodformer erm

    Finished runs are reused and stopped runs are continued, so the command can be interrupted and repeated at any
    time. A run that fails does not stop the others; the exit code is then 1.
    """
    chosen = output.chosen_format(form, out)
    if (dataset is None) == (suite is None):
        raise InputError("give either --dataset or --suite, for example --dataset good-motif.")
    if suite and (domain or shift):
        raise InputError("--domain and --shift belong to one data set; leave them out with --suite.")
    with output.working():
        from goodformer.comparing import Work, compare
        from goodformer.engine.store import export_results
        from goodformer.report.records import finished

        sources = options.record_sources(records) if table_only else records or []
        given = {key: value for key, value in (("domain", domain), ("shift", shift)) if value is not None}

        def begin(known: int, wanted: int) -> None:
            if known and not table_only and not quiet:
                again = "" if sources else f"; to train one again, delete its folder in {runs}"
                typer.echo(f"{known} of {wanted} runs finished before{again}.", err=True)

        with output.watching(quiet or table_only) as watch:
            done = compare(
                suite or {"name": dataset, **given},
                methods,
                seeds,
                budget,
                overrides or [],
                against=against,
                pairs=[pair] if pair else (),
                runs=runs,
                records=sources,
                work=None if table_only else Work(executor, jobs, threads, address, watch),
                begin=begin,
            )
        if export:
            export_results(finished(done.runs, runs), export, predictions)
        if page and done.records and not table_only:
            from goodformer.pages import PAGE, attempted
            from goodformer.pages.comparison import write

            written, notes = attempted(lambda: write(list(done.records.values()), runs / PAGE, [done.table]))
            typer.echo(f"page: {written}" if written else f"note: {notes[0]}", err=True)
    made = {
        output.Format.text: lambda: done.table.text(output.width()),
        output.Format.markdown: done.table.markdown,
        output.Format.latex: done.table.latex,
        output.Format.json: lambda: output.document_text(done.report),
    }
    output.print_or_save(made, chosen, out, as_json)
    if done.failures:
        raise typer.Exit(1)
