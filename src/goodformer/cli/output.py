"""What commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from goodformer.errors import InputError

if TYPE_CHECKING:
    from goodformer.executors.board import Status
    from goodformer.report.table import Table


class Format(StrEnum):
    """Format of a table."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    json = "json"


SUFFIXES = {".txt": Format.text, ".md": Format.markdown, ".tex": Format.latex, ".json": Format.json}
"""Formats by file extension."""
STDOUT = Path("-")
PROBLEMS, LETTERS = 5, 80
"""Unreadable rows that are printed, and the most letters of each."""


@contextlib.contextmanager
def working() -> Iterator[None]:
    """Send progress bars and messages of any library to stderr while work is done."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def counting(
    what: str, hidden: bool = False, total: Callable[[], int | None] | None = None
) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many items are done, and how many per second; yield the function to call with the number.

    Args:
        what: The items, in the plural.
        hidden: Show nothing.
        total: Returns about how many items there are; called only if something is shown.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    expected = total() if total else None
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
    started: list[tuple[int, float]] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=expected)

        def show(done: int) -> None:
            now = time.monotonic()
            first, since = started[0] if started else (0, now)
            if not started:
                started.append((done, now))
            pace = f", {(done - first) / (now - since):,.0f} per second" if now > since else ""
            bar.update(task, completed=done, description=f"{done:,} {what}{pace}")

        yield show


def show(table: Table) -> None:
    """Print a table; on a terminal, one that is too wide is printed in parts."""
    typer.echo(table.text(width()))


def width() -> int | None:
    """Return the columns of the terminal, None if stdout is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def teller(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a sentence on the progress of a command to stderr; nothing if quiet."""

    def tell(sentence: str) -> None:
        if not quiet:
            typer.echo(sentence, err=True)

    return tell


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", note: str = "") -> None:
    """Print plain values as a table between a title and a note, followed by an empty line."""
    from goodformer.report.table import Table

    show(Table.of(columns, rows, title, note))
    typer.echo()


def cell(value: Any) -> str:
    """Return a plain value as a table shows it."""
    from goodformer.report.table import Cell

    return Cell.of(value).plain()


def document(value: Any) -> None:
    """Print one JSON document; numbers that JSON cannot represent become null."""
    typer.echo(document_text(value))


def document_text(value: Any) -> str:
    """Return one JSON document as text."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def notes(report: Mapping[str, Any], shown: Sequence[str] = ()) -> None:
    """Print the notes of a report, one line each, except those that were already shown."""
    for note in report.get("notes", ()):
        if note not in shown:
            typer.echo(f"note: {note}")


def problems(report: Mapping[str, Any]) -> None:
    """Print the first rows of a user's file that could not be read, with the reasons."""
    from goodformer.data.readers.values import counted

    if not report.get("unreadable"):
        return
    typer.echo(f"{report['unreadable']} of {counted(report['rows'], 'row')} cannot be read:")
    for problem in report["problems"][:PROBLEMS]:
        file = f"{problem['file']} " if "file" in problem else ""
        text, end = str(problem["text"] or ""), "..." if len(str(problem["text"] or "")) > LETTERS else ""
        typer.echo(f"  {file}row {problem['row']}: {text[:LETTERS]!r}{end}: {problem['reason']}")
    if report["unreadable"] > PROBLEMS:
        typer.echo(f"  and {report['unreadable'] - PROBLEMS} more")


def page(path: Path, changed: bool) -> None:
    """Say on stderr whether a page of the documentation was rewritten."""
    typer.echo(f"{path} {'rewritten' if changed else 'is up to date'}", err=True)


def chosen_format(form: Format | None, out: Path | None) -> Format:
    """Return the format asked for, else the one of the file's extension."""
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
        from goodformer import files

        files.check_output(file, "tables")
        files.make_folder(file.parent)
        files.write_text(file, f"{made[form]()}\n")
        typer.echo(f"written to {file}", err=True)
    typer.echo(made[Format.json if as_json else Format.text if file else form]())


@contextlib.contextmanager
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


def _plain(value: Any) -> Any:
    """Return the value with everything replaced that JSON cannot represent."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
