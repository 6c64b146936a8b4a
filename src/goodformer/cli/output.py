"""What commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

UNFOLDED = 10_000
"""Columns of a table that is written to a file."""


@contextlib.contextmanager
def working() -> Iterator[None]:
    """While work goes on, progress bars and messages of any library go to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def counting(what: str, hidden: bool = False) -> Iterator[Callable[[int], None]]:
    """Show on stderr how many are done; the function given out is told the number so far."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + what), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done: bar.update(task, completed=done)


def document(value: Any) -> None:
    """Print one JSON document; numbers that JSON has no word for become null."""
    typer.echo(document_text(value))


def document_text(value: Any) -> str:
    """One JSON document as text."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    note: str = "",
    file: IO[str] | None = None,
    width: int | None = None,
    parted: bool = False,
) -> None:
    """Print a table under its title and over its note; columns of numbers stand to the right.

    A table too wide for the terminal folds its cells, or is ``parted`` into several with the same first column.
    """
    from rich.console import Console

    console = Console(file=file, width=width, highlight=False, markup=False)
    texts = [[cell(value) for value in row] for row in (columns, *rows)]
    places = [[*range(len(columns))]] if not parted else _parts([*map(_width, zip(*texts, strict=True))], console.width)
    views = [_view([columns[k] for k in part], [[row[k] for k in part] for row in rows]) for part in places]
    for part in (title, *views, note):
        if part:
            console.print(part)


def _width(texts: Sequence[str]) -> int:
    """Characters of a column and the space behind it."""
    return max(map(len, texts)) + 2


def _parts(widths: Sequence[int], most: int) -> list[list[int]]:
    """Columns in as few groups as fit, each after the first column of all."""
    groups, room = [[0]], most - widths[0]
    for place, width in enumerate(widths[1:], 1):
        if width > room and len(groups[-1]) > 1:
            groups.append([0])
            room = most - widths[0]
        groups[-1].append(place)
        room -= width
    return groups


def _view(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table without title and note."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    view = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        numeric = any(isinstance(row[place], int | float) for row in rows)
        view.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=place == 0)
    for row in rows:
        view.add_row(*(cell(value) for value in row))
    return view


def table_text(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", note: str = "") -> str:
    """A table as text, no line folded."""
    text = io.StringIO()
    table(columns, rows, title, note, text, width=UNFOLDED)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def plain(markdown: str) -> str:
    """A text in Markdown for a terminal: its tables as other tables are, no backticks."""
    return "\n\n".join(_plain_part(part) for part in markdown.replace("`", "").split("\n\n"))


def _plain_part(part: str) -> str:
    """A table or a paragraph of a text in Markdown."""
    if not part.startswith("|"):
        return part
    head, _, *rows = ([word.strip() for word in line.strip("|").split("|")] for line in part.splitlines())
    return table_text(head, rows)


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) >= 1000 or 0 < abs(value) < 0.001 else f"{value:.3f}"
    return str(value)


def save_text(text: str, path: Path) -> None:
    """Write a text file in one step."""
    from goodformer import files

    files.make_folder(path.parent)
    files.write_text(path, f"{text}\n")


def save_json(value: Any, path: Path) -> None:
    """Write one JSON document in one step."""
    from goodformer import files

    files.make_folder(path.parent)
    files.write_json(path, _plain(value))


def _plain(value: Any) -> Any:
    """The value with nothing in it that JSON cannot say."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
