"""What commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from goodformer.report.table import Table

PROBLEMS = 5
"""Unreadable rows that are printed."""


@contextlib.contextmanager
def working() -> Iterator[None]:
    """Send progress bars and messages of any library to stderr while work is done."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def counting(what: str, hidden: bool = False) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many items are done; yield the function to call with the number so far."""
    if hidden or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + what), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done: bar.update(task, completed=done)


def show(table: Table) -> None:
    """Print a table; on a terminal, one that is too wide is printed in parts."""
    typer.echo(table.text(width()))


def width() -> int | None:
    """Return the columns of the terminal, None if stdout is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


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


def save_text(text: str, path: Path) -> None:
    """Write a text file in one step."""
    from goodformer import files

    files.make_folder(path.parent)
    files.write_text(path, f"{text}\n")


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
        typer.echo(f"  row {problem['row']}: {problem['text']!r}: {problem['reason']}")
    if report["unreadable"] > PROBLEMS:
        typer.echo(f"  and {report['unreadable'] - PROBLEMS} more")


def page(path: Path, changed: bool) -> None:
    """Say on stderr whether a page of the documentation was rewritten."""
    typer.echo(f"{path} {'rewritten' if changed else 'is up to date'}", err=True)


def _plain(value: Any) -> Any:
    """Return the value with everything replaced that JSON cannot represent."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
