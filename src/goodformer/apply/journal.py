"""The journal of a search: one line per operation of an Optuna study, each with its checksum.

Optuna's own file keeps neither checksums nor whole lines: a full disk leaves half a line that the next one is appended
to, and the lock of a killed process stops the others for half a minute. Locks here end with their process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock
from optuna.storages.journal import BaseJournalBackend

from goodformer import files
from goodformer.errors import InputError

ADVICE = "restore it, or choose another folder"
WORKERS = "workers"
"""Folder, beside the journal, of one locked file per process that works on the search."""


class Journal(BaseJournalBackend):
    """A file of operations that several processes read and append to.

    Args:
        path: The file; it is made if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, FileLock(path.with_name(f".{path.name}.lock"))
        self.known, self.offset = 0, 0
        with files.writing(path):
            path.touch()

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the operations from a number on; half a line at the end is one that was not written."""
        if log_number_from != self.known:
            self.known, self.offset = 0, 0
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                content = file.read()
        except OSError as error:
            raise InputError(f"cannot read {self.path} ({error.strerror}); make it readable and repeat.") from None
        for line in content.split(b"\n")[:-1]:
            found = files.parsed(self.path, line.decode(errors="replace"), ADVICE)
            if not isinstance(found, dict):
                raise InputError(f"{self.path} is damaged; {ADVICE}.")
            self.known, self.offset = self.known + 1, self.offset + len(line) + 1
            if self.known > log_number_from:
                yield files.unsealed(found, self.path, ADVICE)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations, all or none."""
        lines = "".join(f"{json.dumps(files.sealed(log), separators=(',', ':'))}\n" for log in logs)
        with files.writing(self.path), self.lock, self.path.open("r+b") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
            whole = file.read(1) in (b"", b"\n")
            end = file.tell()
            if not whole:
                file.seek(0)
                end = file.read().rfind(b"\n") + 1
            try:
                file.seek(end)
                file.truncate()
                file.write(lines.encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file.fileno(), end)
                raise

    @contextmanager
    def worker(self) -> Iterator[str]:
        """Yield a name for this process, which is `alive` until the end of the context or of the process."""
        name = uuid4().hex
        folder = self.path.parent / WORKERS
        files.make_folder(folder)
        with files.locked(folder / name, folder / name):
            yield name

    def alive(self, name: str) -> bool:
        """Return whether the process of that name still works on the search; call it while `lock` is held."""
        path = self.path.parent / WORKERS / Path(name).name
        try:
            if files.holder(path) is not None:
                return True
            path.unlink(missing_ok=True)
        except OSError:  # another user's file: perhaps it works
            return True
        return False
