"""``goodformer compare``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goodformer.cli import options, output

if TYPE_CHECKING:
    from goodformer.executors.local import Status


class Format(StrEnum):
    """How a table is written."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    json = "json"


SUFFIXES = {".txt": Format.text, ".md": Format.markdown, ".tex": Format.latex, ".json": Format.json}
"""Formats by how a file's name ends."""
STDOUT = Path("-")
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How tables are written; by default as the file's name ends, or text.")
]


def command(
    dataset: Annotated[str, typer.Option(help="Data set, e.g. good-motif; see goodformer datasets.")],
    domain: Annotated[str | None, typer.Option(help="What shifts, e.g. basis or size.")] = None,
    shift: Annotated[str | None, typer.Option(help="How it shifts: covariate, concept or none.")] = None,
    methods: Annotated[
        str, typer.Option(metavar="ROW,ROW", help="Rows: all, or names, METHOD on MODEL, ROW:PRESET.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds each row is trained with.")] = 3,
    budget: Annotated[str, typer.Option(help=f"The same for all rows: {options.BUDGETS}.")] = "compare",
    overrides: options.Set = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs trained at a time, each in its own process.")] = 2,
    threads: options.Threads = 1,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Take finished runs from these records, too; for --table-only by default results."
        ),
    ] = None,
    table_only: Annotated[bool, typer.Option("--table-only", help="Train nothing.")] = False,
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
    """Train many methods on one benchmark under one budget and show them beside the paper's figures.

    [bold]Examples[/bold]

      goodformer compare --dataset good-motif --domain basis
      goodformer compare --dataset good-motif --domain size --methods erm,gsat,goodformer --seeds 1
      goodformer compare --dataset sp-motif --set dataset.bias=0.9 --export results/comparison.jsonl
      goodformer compare --dataset good-motif --methods "all,erm on goodformer,goodformer:paper"
      goodformer compare --dataset good-motif --table-only -o table.tex

    Finished runs are taken as they are and stopped ones go on, so the same command can be given again at any time. A
    run that fails stops no other; the exit code is then 1.
    """
    chosen = chosen_format(form, out)
    with output.working():
        from goodformer.engine.store import export_results
        from goodformer.executors import local as runner
        from goodformer.report import compare

        sources = recorded(records) if table_only else records or []
        given = {key: value for key, value in (("domain", domain), ("shift", shift)) if value is not None}
        plan = compare.plan({"name": dataset, **given}, methods, seeds, budget, overrides or [])
        known = compare.records(plan, runs, sources)
        failures: dict[str, str] = {}
        if not table_only:
            with watching(quiet) as watch:
                failures = compare.train(plan, runs, jobs, threads, known, watch)
            known = compare.records(plan, runs, sources)
        if export:
            export_results(runner.finished(plan.configs.values(), runs), export)
    deliver(compare.report(plan, known, failures), chosen, out, as_json)
    if failures:
        raise typer.Exit(1)


def recorded(given: list[Path] | None) -> list[Path]:
    """Where records are read from: what was given, else the folder of records where there is one."""
    return given or [path for path in (options.RESULTS,) if path.is_dir()]


def chosen_format(form: Format | None, out: Path | None) -> Format:
    """The format asked for, else that of the file's name."""
    from goodformer.registry import InputError

    if form or out is None or out == STDOUT:
        return form or Format.text
    if out.suffix not in SUFFIXES:
        raise InputError(f"{out} does not end as a table does; end it in {', '.join(SUFFIXES)}, or give --format.")
    return SUFFIXES[out.suffix]


def deliver(report: dict[str, Any], form: Format, out: Path | None, as_json: bool = False) -> None:
    """Print the table; with a file, write it there and print it for people."""
    from goodformer.report import sheets

    columns, rows = sheets.grid(report)
    body = (columns, rows, sheets.title(report), sheets.note(report))
    made: dict[Format, Callable[[], str]] = {
        Format.text: lambda: output.table_text(*body),
        Format.markdown: lambda: sheets.markdown(report),
        Format.latex: lambda: sheets.latex(report),
        Format.json: lambda: output.document_text(report),
    }
    print_or_save(made, form, out, lambda: output.table(*body, parted=True), as_json)


def print_or_save(
    made: Mapping[Format, Callable[[], str]],
    form: Format,
    out: Path | None,
    show: Callable[[], None],
    as_json: bool = False,
) -> None:
    """Print what is made in a format; with a file, write it there and print it for people.

    Args:
        made: What makes the text of each format.
        form: The format wanted.
        out: The file, if any; ``-`` is none.
        show: What shows it on a terminal.
        as_json: Print JSON in any case.
    """
    file = None if out == STDOUT else out
    if file:
        output.save_text(made[form](), file)
        typer.echo(f"written to {file}", err=True)
    shown = Format.json if as_json else Format.text if file else form
    if shown is Format.text and sys.stdout.isatty():
        show()
    else:
        typer.echo(made[shown]())


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[Status], None] | None]:
    """Something to call with how far the runs are: a bar on a terminal, else a line a finished run."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield show
    else:
        yield _lines()


@contextmanager
def _bar() -> Iterator[Callable[[Status], None]]:
    """A bar over all epochs, and under it what is being trained."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as progress:
        task = progress.add_task("starting")

        def show(status: Status) -> None:
            words = "\n".join([summary(status), *status.running])
            progress.update(task, total=max(status.epochs, 1), completed=status.epochs_done, description=words)

        yield show


def _lines() -> Callable[[Status], None]:
    """A line whenever a run has ended."""
    last = -1

    def show(status: Status) -> None:
        nonlocal last
        if status.ended != last:
            last = status.ended
            typer.echo(summary(status), err=True)

    return show


def summary(status: Status) -> str:
    """How far things are, in one line."""
    from goodformer.report.pace import duration

    failed = f" ({status.failed} failed)" if status.failed else ""
    left = "" if status.seconds_left is None else f", about {duration(status.seconds_left)} left"
    return f"{status.ended} of {status.runs} runs{failed}, {status.epochs_done} of {status.epochs} epochs{left}"
