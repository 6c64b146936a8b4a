"""``goodformer compare``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goodformer.cli import options, output

if TYPE_CHECKING:
    from goodformer.executors.local import Status


class Format(StrEnum):
    """Format of a table."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    json = "json"


SUFFIXES = {".txt": Format.text, ".md": Format.markdown, ".tex": Format.latex, ".json": Format.json}
"""Formats by file extension."""
STDOUT = Path("-")
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Format of tables; default: by the extension of the file, or text.")
]


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
    jobs: Annotated[int, typer.Option(min=1, help="Runs trained at the same time, one process each.")] = 2,
    threads: options.Threads = 1,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Also use these records, files or folders; default with --table-only: results."
        ),
    ] = None,
    table_only: Annotated[
        bool, typer.Option("--table-only", help="Train nothing; use finished runs and records.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the records of finished runs to this file.")
    ] = None,
    form: FormatOption = None,
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
    chosen = chosen_format(form, out)
    with output.working():
        from goodformer.engine.store import export_results
        from goodformer.report import compare
        from goodformer.report.records import finished

        sources = record_sources(records) if table_only else records or []
        given = {key: value for key, value in (("domain", domain), ("shift", shift)) if value is not None}
        plan = compare.plan({"name": dataset, **given}, methods, seeds, budget, overrides or [])
        known = compare.known_records(plan, runs, sources)
        failures: dict[str, str] = {}
        if not table_only and (missing := plan.missing(known)):
            from goodformer.data import load_benchmark
            from goodformer.executors import local

            load_benchmark(**missing[0].dataset)  # missing data are one error, not one failure per run
            with watching(quiet) as watch:
                failures = local.complete(missing, runs, jobs, threads, watch)
            known = compare.known_records(plan, runs, sources)
        if export:
            export_results(finished(plan.configs.values(), runs), export)
        report = compare.report(plan, known, failures)
        table = compare.table(report)
    made = {
        Format.text: lambda: table.text(output.width()),
        Format.markdown: table.markdown,
        Format.latex: table.latex,
        Format.json: lambda: output.document_text(report),
    }
    print_or_save(made, chosen, out, as_json)
    if failures:
        raise typer.Exit(1)


def record_sources(given: list[Path] | None) -> list[Path]:
    """Return the files and folders of records: those given, else the folder ``results`` if it exists."""
    return given or [path for path in (options.RESULTS,) if path.is_dir()]


def chosen_format(form: Format | None, out: Path | None) -> Format:
    """Return the format asked for, else the one of the file's extension."""
    from goodformer.registry import InputError

    if form or out is None or out == STDOUT:
        return form or Format.text
    if out.suffix not in SUFFIXES:
        raise InputError(f"{out}: unsupported file extension; use {', '.join(SUFFIXES)}, or give --format.")
    return SUFFIXES[out.suffix]


def print_or_save(
    made: Mapping[Format, Callable[[], str]], form: Format, out: Path | None, as_json: bool = False
) -> None:
    """Print a result; with a file, write it there in the chosen format and print it as text.

    Args:
        made: The function that makes the text of each format.
        form: The chosen format.
        out: The file, if any; ``-`` is stdout.
        as_json: Print JSON in any case.
    """
    file = None if out == STDOUT else out
    if file:
        output.save_text(made[form](), file)
        typer.echo(f"written to {file}", err=True)
    typer.echo(made[Format.json if as_json else Format.text if file else form]())


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[Status], None] | None]:
    """Yield the function that shows progress: a bar on a terminal, else one line whenever a run has ended."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        ended = -1

        def line(status: Status) -> None:
            nonlocal ended
            if status.ended != ended:
                ended = status.ended
                typer.echo(summary(status), err=True)

        yield line
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(), TextColumn("{task.description}", markup=False))
        with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as progress:
            task = progress.add_task("starting")

            def bar(status: Status) -> None:
                words = "\n".join([summary(status), *status.running])
                progress.update(task, total=max(status.epochs, 1), completed=status.epochs_done, description=words)

            yield bar


def summary(status: Status) -> str:
    """Return the progress in one line."""
    from goodformer.report.pace import duration

    failed = f" ({status.failed} failed)" if status.failed else ""
    left = "" if status.seconds_left is None else f", about {duration(status.seconds_left)} left"
    return f"{status.ended} of {status.runs} runs{failed}, {status.epochs_done} of {status.epochs} epochs{left}"
