"""Runs on disk: one folder each, named by the config, read by people and programs alike."""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from goodformer import files
from goodformer.config.run import RunConfig
from goodformer.registry import InputError

CONFIG, EPOCHS, SUMMARY, STATE, LOCK = "config.json", "epochs.jsonl", "summary.json", "last.ckpt", ".lock"
MODEL, BEST, LAST = "model.json", "best", "last"
SHOWN = 5
"""Runs that a sentence names."""


class Run:
    """A run folder, finished or not.

    Args:
        folder: Folder that `goodformer.engine.train` made.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'finished' if self.finished else f'{len(self.epochs)} epochs'})"

    @classmethod
    def open(cls, name: str | Path, root: str | Path = "runs") -> Self:
        """The run in a folder, or the one under ``root`` whose folder name or id begins with ``name``."""
        if (Path(name) / CONFIG).is_file():
            return cls(name)
        if (Path(name) / MODEL).is_file():
            raise InputError(
                f"{name} is a fitted model and no run, so it has no splits of its own; goodformer predict and "
                "goodformer explain apply it to a file of rows."
            )
        folders = {run.folder.name: run.folder for run in list_runs(root)}
        matches = [key for key in folders if key.startswith(str(name)) or _id(key).startswith(str(name))]
        if len(matches) > 1 and str(name) not in matches:
            raise InputError(
                f"{name} stands for {len(matches)} runs in {root}; write more of one of {_some(matches, root)}."
            )
        if not matches:
            raise InputError(f"unknown run {str(name)!r}; {_nearest(str(name), list(folders), root)}.")
        return cls(folders[str(name) if str(name) in matches else matches[0]])

    @cached_property
    def config(self) -> RunConfig:
        """What the run computes."""
        return RunConfig.from_dict(files.read_json(self.folder / CONFIG))

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """One record an epoch so far."""
        return files.read_lines(self.folder / EPOCHS)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The final record, None while the run is not finished."""
        path = self.folder / SUMMARY
        return files.read_json(path) if path.is_file() else None

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return (self.folder / SUMMARY).is_file()

    def tidy(self) -> None:
        """Remove the folder of a run that could not begin, because its settings could not be built."""
        if not (self.folder / CONFIG).is_file():
            with suppress(OSError):  # something else is in there
                (self.folder / LOCK).unlink(missing_ok=True)
                self.folder.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out while this one writes; the lock of a killed process is free."""
        lock = FileLock(self.folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"{self.folder} is being trained by another process; wait for it or stop it first."
            ) from None
        except OSError as error:
            raise InputError(
                f"cannot lock {self.folder} ({error.strerror}); choose a folder that can be written."
            ) from None
        try:
            files.sweep(self.folder)
            yield
        finally:
            lock.release()


def _id(folder: str) -> str:
    """The id at the end of a run folder's name."""
    return folder.rpartition("-")[2]


def _nearest(name: str, folders: Sequence[str], root: str | Path) -> str:
    """The runs whose names or ids are most like a name."""

    def likeness(folder: str) -> float:
        return max(difflib.SequenceMatcher(None, name, part).ratio() for part in (folder, _id(folder)))

    if not folders:
        return f"there is none in {root}, where goodformer train puts them"
    return f"the nearest in {root}: {_some(sorted(folders, key=likeness, reverse=True), root)}"


def _some(folders: Sequence[str], root: str | Path) -> str:
    """The first few, and where they are not all, how many there are and what lists them."""
    more = f" ({len(folders)} in all; goodformer runs --runs {root} lists every run)" if len(folders) > SHOWN else ""
    return f"{', '.join(folders[:SHOWN])}{more}"


def list_runs(root: str | Path = "runs") -> list[Run]:
    """All runs in a folder, by name."""
    folder = Path(root)
    if not folder.is_dir():
        return []
    return [Run(path.parent) for path in sorted(folder.glob(f"*/{CONFIG}"))]


def export_results(runs: Iterable[Run], path: str | Path) -> int:
    """Add the summaries of finished runs to a file of JSON lines; a line of the same id is replaced.

    Returns:
        The number of lines in the file.
    """
    summaries = (summary for run in runs if (summary := run.summary) is not None)
    return merge_lines(Path(path), summaries, lambda line: line["id"], _check_results)


def merge_lines(
    path: Path,
    rows: Iterable[dict[str, Any]],
    key: Callable[[dict[str, Any]], Hashable],
    check: Callable[[Path, Sequence[Any]], None],
) -> int:
    """Add rows to a file of JSON lines, one process at a time; a line of the same key is replaced in its place.

    Args:
        path: The file; it need not be there yet.
        rows: What to add.
        key: What tells a line from others.
        check: Refuses a file, given its lines, that is not of this kind.

    Returns:
        The number of lines in the file.
    """
    files.make_folder(path.parent)
    with _exclusive(path):
        old = files.read_lines(path, "choose another file to add records to")
        check(path, old)
        lines = {key(line): line for line in (*old, *rows)}
        files.write_lines(path, lines.values())
    return len(lines)


def _check_results(path: Path, lines: Sequence[Any]) -> None:
    """Refuse a file that holds something else than summaries; records of other kinds name their kind."""
    if not all(isinstance(line, dict) and "id" in line and "kind" not in line for line in lines):
        raise InputError(f"{path} is not a file of results (a line is no summary of a run); choose another file.")


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """One process at a time, without a lock file beside a file that people keep under version control."""
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"goodformer-{name}.lock"):
        yield
