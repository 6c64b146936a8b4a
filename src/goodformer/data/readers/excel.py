"""The first sheet of an Excel workbook. The only file that imports openpyxl."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import chain
from pathlib import Path
from typing import Any

from goodformer.data.readers.collection import Columns
from goodformer.data.readers.source import reading
from goodformer.data.readers.text import chunks, names_note, unique_names
from goodformer.data.readers.values import plain_of
from goodformer.errors import InputError
from goodformer.limits import check_limit

WORKBOOKS = (".xlsx", ".xlsm")


def sheet_parts(path: Path, size: int) -> Iterator[Columns]:
    """Yield the columns of the first sheet, ``size`` rows at a time after an empty part; empty rows are skipped."""
    with _sheet(path) as (sheet, _):
        rows = sheet.iter_rows(values_only=True)
        header = unique_names(_names(next(rows, ())), path)
        full = (row for row in rows if any(value is not None for value in row))
        for part in chain([[]], chunks(full, size)):
            yield {
                name: [_value(row[place]) if place < len(row) else None for row in part]
                for place, name in enumerate(header)
            }


def notes_on_workbook(path: Path) -> list[str]:
    """Return sentences on further sheets, which are not read, and on renamed columns."""
    with _sheet(path) as (sheet, count):
        names = _names(next(sheet.iter_rows(values_only=True), ()))
        more = f"{path.name} has {count} sheets; only the first, {sheet.title!r}, is read." if count > 1 else ""
    return [note for note in (more, names_note(names, path)) if note]


def only_first(path: Path) -> str:
    """Return which sheet of a workbook is read, if it has several; else nothing."""
    with _sheet(path) as (sheet, count):
        return f" (sheet {sheet.title!r}; only the first of {count} sheets is read)" if count > 1 else ""


@contextmanager
def _sheet(path: Path) -> Iterator[tuple[Any, int]]:
    """Open the first sheet, row by row, and count the sheets."""
    try:
        import openpyxl  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise InputError(
            f"reading {path} needs openpyxl; install it with pip install 'goodformer[excel]', or save the sheet as CSV."
        ) from None
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            check_limit("bytes", sum(one.file_size for one in archive.infolist()), f"{path}, unpacked,")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except InputError:
        raise
    except Exception:  # openpyxl raises anything from KeyError to ParseError on a damaged workbook
        raise InputError(f"{path} is not an Excel workbook; save the sheet as .xlsx or CSV again.") from None
    try:
        if not book.worksheets:
            raise InputError(f"{path} has no sheet with cells; give a workbook with a table.")
        yield book.worksheets[0], len(book.worksheets)
    except InputError:
        raise
    except Exception:  # openpyxl raises anything from KeyError to ParseError on a damaged sheet
        raise InputError(f"the first sheet of {path} is damaged; save it as .xlsx or CSV again.") from None
    finally:
        book.close()


def _names(row: tuple[Any, ...]) -> list[str | None]:
    """Return the cells of the first row as text; empty cells at its end are no columns."""
    names = [None if cell is None else str(_value(cell)) for cell in row]
    while names and names[-1] is None:
        names.pop()
    return names


def _value(cell: Any) -> str | int | float | None:
    """Return a cell as a table holds it; a day without a time is a date."""
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, date | time) else plain_of(cell)
