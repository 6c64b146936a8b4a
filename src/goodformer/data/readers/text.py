"""Tables as text: fields separated by commas, semicolons or tabs, and SMILES files."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from goodformer.data.readers.collection import Columns
from goodformer.data.readers.source import encoding_note, form_of, lines_of, open_text, reading
from goodformer.data.readers.values import counted
from goodformer.errors import InputError
from goodformer.limits import limit

DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLES = {**DELIMITERS, ".txt": "\t"}
"""Field separators by suffix; spreadsheet programs write tab-separated tables as .txt."""
SMI = ".smi"
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Field separators that are tried, whatever the suffix."""
HEADINGS = frozenset(("smiles", "smi", "canonical_smiles", "canonicalsmiles", "isomeric_smiles", "structure", "mol"))
"""First words, in lower case, that show that the first line of a SMILES file is a heading."""
NAME = "name"
"""Column of what follows the SMILES in a file without a heading."""
LISTED = 3
"""Renamed columns that a note lists."""


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items, ``size`` at a time."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part


def unique_names(names: Sequence[str | None], path: Path) -> list[str]:
    """Return column names that are unique and not empty: ``column_3`` for an unnamed one, ``name_2`` for a repeated."""
    if not any(name and name.strip() for name in names):
        raise InputError(f"{path} is empty or has no column names; write the column names in its first line.")
    given = {name for name in names if name and name.strip()}
    found: list[str] = []
    for place, name in enumerate(names, 1):
        stem = name if name and name.strip() else f"column_{place}"
        free, number = stem, 1
        while free in found or (free in given and free != name):
            number += 1
            free = f"{stem}_{number}"
        found.append(free)
    return found


def names_note(names: Sequence[str | None], path: Path) -> str:
    """Return a note on columns that were renamed; empty if none was."""
    pairs = zip(names, unique_names(names, path), strict=True)
    changed = [f"{old or ''!r} to {new!r}" for old, new in pairs if old != new]
    if not changed:
        return ""
    rest = f" and {len(changed) - LISTED} more" if len(changed) > LISTED else ""
    what = counted(len(changed), "unnamed or repeated column")
    return f"{what} of {path.name} renamed: {', '.join(changed[:LISTED])}{rest}."


def notes_on_text(path: Path, smiles: str) -> list[str]:
    """Return sentences on the separator, the encoding and the column names of a text file, where they are unusual."""
    form = form_of(path)
    notes = [encoding_note(path)]
    if form in TABLES:
        found = _delimiter(path, smiles)
        if found != TABLES[form]:
            notes.append(f"{path.name} is separated by {SEPARATORS[found]}, not by {SEPARATORS[TABLES[form]]}.")
        notes.append(names_note(_heading(path, found), path))
    return [note for note in notes if note]


def table_parts(path: Path, size: int, wanted: str) -> Iterator[Columns]:
    """Yield the columns of a separated table, ``size`` rows at a time after an empty part."""
    delimiter = _delimiter(path, wanted)
    with reading(path), open_text(path) as file:
        rows = _rows(lines_of(file, path), delimiter, path)
        header = unique_names(next(rows, (0, []))[1], path)
        for part in chain([[]], chunks(_fields(rows, len(header), path), size)):
            yield {name: [row[place] or None for row in part] for place, name in enumerate(header)}


def _rows(lines: Iterable[str], delimiter: str, path: Path, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of every row and the number of its last line."""
    csv.field_size_limit(limit("characters"))  # Python's default is 2^17
    reader = csv.reader(lines, delimiter=delimiter, strict=strict)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num} is not a valid row ({error}); correct its quotes.") from None


def _heading(path: Path, delimiter: str) -> list[str]:
    """Return the fields of the first line as they are."""
    with reading(path), open_text(path) as file:
        return next(_rows(lines_of(file, path), delimiter, path, strict=False), (0, []))[1]


def _delimiter(path: Path, wanted: str) -> str:
    """Return the separator: that of the suffix, unless only another one yields the wanted column or any columns."""
    with reading(path), open_text(path) as file:
        line = next(lines_of(file, path), "")
    usual = TABLES[form_of(path)]
    headers = {one: next(_rows([line], one, path, strict=False), (0, []))[1] for one in (usual, *SEPARATORS)}
    having = [one for one, names in headers.items() if wanted.lower() in map(str.lower, names)]
    cutting = [one for one, names in headers.items() if len(names) > 1]
    return (having or cutting or [usual])[0]


def _fields(rows: Iterable[tuple[int, list[str]]], width: int, path: Path) -> Iterator[list[str]]:
    """Yield the fields of every row; empty lines are skipped unless the table has a single column."""
    number = 0
    for line, read in rows:
        row = read or [""] * (width == 1)
        if not row:
            continue
        number += 1
        if len(row) != width:
            raise InputError(
                f"{path} row {number} (line {line}) has {len(row)} fields but the first line has {width}; "
                "correct it, and quote fields that contain the separator."
            )
        yield row


def smi_parts(path: Path, size: int, wanted: str) -> Iterator[Columns]:
    """Yield the columns of a SMILES file, ``size`` rows at a time after an empty part.

    Every line starts with a SMILES; what follows the first space or tab is the name. If the first line is a heading
    (``smiles name ...``, or the wanted column), it names the columns, and the last column holds the rest of the line.
    The column of the SMILES is called as wanted. Empty lines are skipped.
    """
    with reading(path), open_text(path) as file:
        lines = (line.strip() for line in lines_of(file, path) if line.strip())
        first = next(lines, None)
        if first is None:
            raise InputError(f"{path} is empty; write one SMILES per line.")
        words = first.split("\t" if "\t" in first else None)
        headed = words[0].lstrip("#").lower() in HEADINGS or wanted in words
        names = [wanted, NAME] if not headed else words if wanted in words else [wanted, *words[1:]]
        header = unique_names(names, path)
        split = "\t" if headed and "\t" in first else None
        for part in chain([[]], chunks(lines if headed else chain([first], lines), size)):
            rows = [line.split(split, len(header) - 1) for line in part]
            yield {
                name: [(row[place].strip() or None) if place < len(row) else None for row in rows]
                for place, name in enumerate(header)
            }
