"""Molecules from SDF files, record by record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goodformer.data.molecule import FEATURES, featurise_blocks
from goodformer.data.readers.collection import Collection
from goodformer.registry import InputError

TITLE = "title"
"""A column every file has, unless a property has the same name."""
END = b"$$$$"
PROPERTY = re.compile(r"^>[^<]*<(.*)>[^>]*$")


@dataclass(frozen=True)
class Record:
    """One record of an SDF file.

    Attributes:
        title: Its first line.
        block: The mol block.
        properties: What stands under ``> <NAME>``, lines joined as they are.
    """

    title: str
    block: str
    properties: dict[str, str | None]


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, one at a time."""
    lines: list[bytes] = []
    try:
        with path.open("rb") as file:
            for line in file:
                if line.rstrip() == END:
                    yield _record(lines)
                    lines = []
                else:
                    lines.append(line)
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); check the path.") from None
    if any(line.strip() for line in lines):  # the last record may lack its end
        yield _record(lines)


def property_names(path: Path) -> list[str]:
    """Names of all properties of any record, in the order they first occur."""
    names: dict[str, None] = {}
    for record in read_records(path):
        names |= dict.fromkeys(record.properties)
    return list(names)


def collection(records: Sequence[Record], first: int) -> Collection:
    """The molecules of some records, the first of which has the given number.

    Atoms are numbered as in the record; hydrogens that are written out are left out. The SMILES say which molecules
    these are, but number the atoms otherwise.
    """
    molecules = featurise_blocks([record.block for record in records])
    rejected = tuple(replace(one, row=one.row + first, text=records[one.row].title) for one in molecules.rejected)
    rows = molecules.rows + first  # (G,)
    return Collection(molecules.graphs, FEATURES, rows, len(records), rejected, molecules.parsed, as_written=False)


def _record(lines: list[bytes]) -> Record:
    """The parts of a record."""
    text = _decoded(b"".join(lines)).replace("\r\n", "\n").split("\n")
    ends = next((place for place, line in enumerate(text, 1) if line.startswith("M  END")), None)
    if ends is None:  # not sound, which RDKit will say; properties are kept nevertheless
        ends = next((place for place, line in enumerate(text) if line.startswith(">")), len(text))
    return Record(text[0].strip() if text else "", "\n".join(text[:ends]) + "\n", _properties(text[ends:]))


def _decoded(content: bytes) -> str:
    """Text in UTF-8, or in the one-byte encoding of older files."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _properties(lines: list[str]) -> dict[str, str | None]:
    """Values by name; a value ends with an empty line."""
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
