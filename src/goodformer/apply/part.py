"""Rows written beside their final place, so that a stopped command continues where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from goodformer import files
from goodformer.data.readers.rows import APPENDED, PARQUET, AppendableFormat, RowWriter, appended, value_kinds
from goodformer.data.readers.text import chunks
from goodformer.errors import CannotWrite, InputError

FORMAT = "goodformer part 1"
CHUNK = 2**20
"""Bytes that are read at a time for the checksum."""
COPIED = 4096
"""Rows that are copied at a time into a format that cannot be appended to."""


class PartFile:
    """The rows of an output that are written so far: ``NAME.part``, and its state in ``NAME.part.json``.

    The same command continues the part of an earlier call; that of another command is replaced. The part stays if the
    command is stopped, and goes if the input is wrong. Parquet and JSON files cannot be appended to, so their rows are
    JSON lines until the end.

    Args:
        out: The output.
        same: What decides the rows, as JSON values: the model, the input and the settings.

    Attributes:
        rows: Rows written so far.
        notes: What the caller last saved beside the rows.
        discarded: Rows of another, stopped command with the same output, which this one replaces.
    """

    def __init__(self, out: str | Path, same: Mapping[str, Any]) -> None:
        self.out, self.same = Path(out), json.loads(json.dumps(same))
        self.path, self.state = (self.out.with_name(f"{self.out.name}{end}") for end in (".part", ".part.json"))
        self._held = ExitStack()
        self.rows, self.notes = 0, {}  # type: int, dict[str, Any]
        self.discarded = 0
        self._columns: list[str] = []
        self._at = self._read = 0
        self._hash = hashlib.sha256()
        self._writer: AppendableFormat | None = None
        RowWriter(self.out, ())  # refuses other suffixes

    def __enter__(self) -> Self:
        self._held.enter_context(files.locked(self.out.with_name(f"{self.out.name}.part.lock"), self.out))
        found = self._earlier()
        if found is None:
            self._read, self._hash = 0, hashlib.sha256()
        else:
            self.rows, self._at = found["rows"], found["at"]
            self._columns, self.notes = found["columns"], found["notes"]
        return self

    def _earlier(self) -> dict[str, Any] | None:
        """Return the state of an earlier call of the same command; None if there is none or it is damaged."""
        try:
            found: dict[str, Any] = files.unsealed(files.read_json(self.state), self.state)
            self.discarded = found["rows"] if found["same"] != self.same else 0
            sound = found["format"] == FORMAT and found["same"] == self.same and isinstance(found["notes"], dict)
            sound = sound and type(found["rows"]) is int and isinstance(found["columns"], list)
            sound = sound and 0 < found["at"] <= self.path.stat().st_size
            return found if sound and self._digest(found["at"]) == found["sha256"] else None
        except (InputError, OSError, KeyError, TypeError):
            return None

    def write(self, columns: Mapping[str, Sequence[Any]], notes: Mapping[str, Any]) -> None:
        """Add rows, given as one list per column, and save the state."""
        if not self._columns:
            self._columns = list(columns)
        with files.writing(self.out):
            writer = self._opened()
            writer.write({name: columns[name] for name in self._columns})
            self._at = writer.position()
            sha256 = self._digest(self._at)
        self.rows, self.notes = self.rows + len(next(iter(columns.values()))), dict(notes)
        state = {"format": FORMAT, "same": self.same, "rows": self.rows, "at": self._at, "sha256": sha256}
        files.write_json(self.state, files.sealed({**state, "columns": self._columns, "notes": self.notes}))

    def _digest(self, end: int) -> str:
        """Return the checksum of the part up to a byte; bytes that were read before are not read again."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            for size in iter(lambda: min(CHUNK, end - self._read), 0):
                self._hash.update(file.read(size))
                self._read += size
        return self._hash.hexdigest()

    def _opened(self) -> AppendableFormat:
        """Return the writer of the part, which continues after the last saved row."""
        if self._writer is None:
            self._writer = appended(self.path, self._columns, self.out.suffix.lower(), self._at)
        return self._writer

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._held:
            if kind is None and self.rows:
                self._finish()
            elif self._writer is not None:
                self._writer.close()
            if kind is None or (issubclass(kind, InputError) and not issubclass(kind, CannotWrite)):
                for path in (self.path, self.state):
                    path.unlink(missing_ok=True)

    def _finish(self) -> None:
        """Move the rows to the output."""
        with files.writing(self.out):
            self._opened().close()
            if self.out.suffix.lower() in APPENDED:
                files.move(self.path, self.out)
                return
            kinds: dict[str, set[type]] = {name: set() for name in self._columns}
            for columns in self._blocks() if self.out.suffix.lower() == PARQUET else ():
                for name, values in columns.items():
                    kinds[name] |= value_kinds(values)
            with RowWriter(self.out, self._columns, kinds) as writer:
                for columns in self._blocks():
                    writer.write(columns)

    def _blocks(self) -> Iterator[dict[str, list[Any]]]:
        """Read the JSON lines of the part in blocks of columns."""
        with self.path.open(encoding="utf-8") as lines:
            for some in chunks(map(json.loads, lines), COPIED):
                yield {name: [row[name] for row in some] for name in self._columns}
