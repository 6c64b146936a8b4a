"""Molecules from SDF files, record by record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goodformer.data.molecule import featurise_blocks
from goodformer.data.readers.collection import Collection, from_molecules
from goodformer.data.readers.source import lines_of, open_bytes, reading
from goodformer.limits import check_limit

TITLE = "title"
"""Column with the title of each record, unless a property has the same name."""
END = b"$$$$"
PROPERTY = re.compile(r"^>[^<]*<(.*)>[^>]*$")


@dataclass(frozen=True)
class Record:
    """One record of an SDF file.

    Attributes:
        title: First line.
        block: The mol block.
        properties: Text under each ``> <NAME>`` heading.
    """

    title: str
    block: str
    properties: dict[str, str | None]


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file."""
    lines: list[bytes] = []
    size, number = 0, 1
    with reading(path), open_bytes(path) as file:
        for line in lines_of(file, path):
            if line.rstrip() == END:
                yield _record(lines)
                lines, size, number = [], 0, number + 1
            else:
                lines.append(line)
                size += len(line)
                check_limit("characters", size, f"{path} record {number}")
    if any(line.strip() for line in lines):  # the last record may lack its end
        yield _record(lines)


def property_names(path: Path) -> list[str]:
    """Return the names of all properties of any record, in the order in which they first occur."""
    names: dict[str, None] = {}
    for record in read_records(path):
        names |= dict.fromkeys(record.properties)
    return list(names)


def collection(records: Sequence[Record], first: int, standardise: str = "none") -> Collection:
    """Return the molecules of some records; the first record has number ``first``.

    Atoms are numbered as in the record, without explicit hydrogens. The SMILES number them differently.
    """
    made = featurise_blocks([record.block for record in records], standardise)
    read = from_molecules(made, len(records), first, as_written=standardise != "none")
    return replace(read, rejected=tuple(replace(one, text=records[one.row - first].title) for one in read.rejected))


def _record(lines: list[bytes]) -> Record:
    """Return the parts of a record."""
    text = _decoded(b"".join(lines)).replace("\r\n", "\n").split("\n")
    ends = next((place for place, line in enumerate(text, 1) if line.startswith("M  END")), None)
    if ends is None:  # RDKit will reject it; its properties are kept
        ends = next((place for place, line in enumerate(text) if line.startswith(">")), len(text))
    return Record(text[0].strip() if text else "", "\n".join(text[:ends]) + "\n", _properties(text[ends:]))


def _decoded(content: bytes) -> str:
    """Decode UTF-8, or the one-byte encoding of older files."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _properties(lines: list[str]) -> dict[str, str | None]:
    """Return values by name; a value ends with an empty line."""
    values: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        if current is None and (heading := PROPERTY.match(line)):
            current = values.setdefault(heading[1], [])
        elif not line.strip():
            current = None
        elif current is not None:
            current.append(line)
    return {name: "\n".join(value) or None for name, value in values.items()}
