"""Runs on disk: one folder per run, named after its configuration."""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, cast

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goodformer import files
from goodformer.config.run import Rule, RunConfig
from goodformer.engine.parcel import FINAL, settle
from goodformer.errors import InputError, check_name
from goodformer.settings import first_mistake

CONFIG, EPOCHS, SUMMARY, STATE, LOCK = "config.json", "epochs.jsonl", FINAL, "last.ckpt", ".lock"
MODEL, BEST, LAST = "model.json", "best", "last"
PREDICTED = "predictions.npz"
"""Name of the file of predictions in the folder of a run; see `goodformer.engine.predictions`."""
PREDICTIONS = "predictions"
"""Folder of such files beside exported records; a file there is named after the id of its run."""
REDO = "restore it from a copy, or move it away and train the run again"
"""What to do about a damaged summary: the checkpoint beside it holds all results."""
SHOWN = 5
"""Runs that an error message names."""
ATTEMPTS = 20
"""How often the lock of a run is tried while other processes remove the folder."""


Scores = dict[str, float | None]
"""Metrics by name; unknown ones are null."""


class AlreadyTrained(InputError):
    """A run that another process is training."""


class EpochLine(BaseModel):
    """What a line of ``epochs.jsonl`` must hold; metrics of splits are further entries."""

    model_config = ConfigDict(extra="allow", strict=True)

    epoch: int = Field(ge=1)
    loss: Scores = {}
    seconds: float = 0.0
    processor_seconds: float = 0.0
    eval_seconds: float = 0.0
    train: Scores = {}
    id_val: Scores = {}
    val: Scores = {}
    id_test: Scores = {}
    test: Scores = {}


class Entry(BaseModel):
    """An entry of a record, which may hold more."""

    model_config = ConfigDict(extra="allow", strict=True)


class DatasetEntry(Entry):
    """The data set of a configuration, and its settings."""

    name: str


class ConfigEntry(Entry):
    """The parts of a configuration that tables of records read; versions differ in the others."""

    dataset: DatasetEntry | None = None
    training: dict[str, Any] = {}


class MemberEntry(Entry):
    """A member of a blend."""

    run: str | None = None


class GraphsEntry(Entry):
    """Fingerprints of the graphs of each split."""

    test: str


class PredictionsEntry(Entry):
    """What identifies the predictions of a run."""

    sha256: str
    graphs: GraphsEntry


class RecordLine(BaseModel):
    """Types of the entries of a record; all but the id may be missing in records of older versions."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: str
    dataset: str | None = None
    domain: str | None = None
    shift: str | None = None
    method: str | None = None
    model: str | None = None
    preset: str | None = None
    budget: str | None = None
    seed: int | None = None
    epochs: int | None = None
    train_graphs: int | None = None
    selection: Rule | None = None
    selected_epoch: int | None = None
    metric: str | None = None
    id_val: float | None = None
    ood_val: float | None = None
    id_test: float | None = None
    ood_test: float | None = None
    precision_at_10: float | None = None
    precision_at_10_logits: float | None = None
    edge_auc: float | None = None
    node_auc: float | None = None
    seconds_per_epoch: float | None = None
    processor_seconds_per_epoch: float | None = None
    wall_seconds: float | None = None
    parameters: int | None = None
    splits: dict[str, Scores] | None = None
    by_rule: dict[str, Scores] | None = None
    curves: dict[str, list[float | None]] | None = None
    predictions: PredictionsEntry | None = None
    members: list[MemberEntry] | None = None
    config: ConfigEntry = ConfigEntry()
    machine: dict[str, Any] | None = None
    hardware: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None


class NamedRecord(RecordLine):
    """What a record must hold to have a row in a table."""

    dataset: str
    method: str
    model: str


class SummaryFile(NamedRecord):
    """What ``summary.json`` must hold."""

    seed: int
    epochs: int
    selection: Rule
    selected_epoch: int
    metric: str
    splits: dict[str, Scores]


class InferenceLine(Entry):
    """What a record of an inference time must hold."""

    graphs: int
    processor_seconds: float


class UncertaintyLine(Entry):
    """What a record of uncertainty must hold; see `goodformer.uncertainty.measure`."""

    kind: Literal["sureness"]
    id: str
    weights: str
    dataset: str
    domain: str | None
    shift: str | None
    method: str
    model: str
    scores: dict[str, dict[str, Scores]]
    calibration: dict[str, dict[str, Scores]] = {}
    conformal: dict[str, Scores] = {}


def check_record(found: Any, path: Path, kind: type[BaseModel], advice: str = files.OURS) -> dict[str, Any]:
    """Return a JSON object from a file; raise an error unless its entries have the types of ``kind``."""
    try:
        kind.model_validate(found)
    except ValidationError as error:
        raise InputError(f"{path} is damaged: {first_mistake(error).rstrip('.')}; {advice}.") from None
    return cast(dict[str, Any], found)


class Run:
    """A run folder, finished or not.

    Args:
        folder: Folder that `goodformer.engine.run.train` made.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'finished' if self.finished else f'{len(self.epochs)} epochs'})"

    @classmethod
    def open(cls, name: str | Path, root: str | Path = "runs", models: bool = False) -> Self:
        """Return the run in a folder, or the one under ``root`` whose folder name or id begins with ``name``.

        Args:
            name: The folder, or the start of its name or id.
            root: Folder of the runs.
            models: Whether the error for an unknown name suggests fitted models, if there are some nearby.
        """
        if (Path(name) / CONFIG).is_file():
            return cls(name)
        if (Path(name) / MODEL).is_file():
            raise InputError(
                f"{name} is a fitted model, not a run, and has no splits; apply it to a file with goodformer predict, "
                "explain or evaluate."
            )
        start, folders = str(name), {run.folder.name: run.folder for run in list_runs(root)}
        matches = [key for key in folders if key.startswith(start) or _id(key).startswith(start)]
        if start in matches or len(matches) == 1:
            return cls(folders[start if start in matches else matches[0]])

        if models and not matches and (near := nearby_models(Path(name))):
            folders_shown = ", ".join(map(str, near[:SHOWN]))
            raise InputError(f"{start!r} is neither a fitted model nor a run; fitted models nearby: {folders_shown}.")

        def likeness(folder: str) -> float:
            return max(difflib.SequenceMatcher(None, start, part).ratio() for part in (folder, _id(folder)))

        candidates = matches or sorted(folders, key=likeness, reverse=True)
        shown = ", ".join(candidates[:SHOWN])
        if len(candidates) > SHOWN:
            shown += f" ({len(candidates)} in all; goodformer runs --runs {shlex.quote(str(root))} lists every run)"
        if matches:
            raise InputError(f"{name} matches {len(matches)} runs in {root}; give more characters of one of {shown}.")
        nearest = f"the nearest in {root}: {shown}" if folders else f"{root} contains no run"
        raise InputError(f"{start!r} is neither a folder of a fitted model nor a run; {nearest}.")

    @cached_property
    def config(self) -> RunConfig:
        """What the run computes."""
        path = self.folder / CONFIG
        config = RunConfig.from_dict(files.read_json(path))
        named = _id(self.folder.name)
        if len(named) == len(config.id) and set(named) <= set("0123456789abcdef") and named != config.id:
            raise InputError(
                f"{path} is damaged or of another run: its settings have the id {config.id}; {files.OURS}."
            )
        return config

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """One record per completed epoch."""
        path = self.folder / EPOCHS
        lines = (files.unsealed(line, path) for line in files.read_lines(path))
        return [check_record(line, path, EpochLine) for line in lines]

    @property
    def summary(self) -> dict[str, Any] | None:
        """The final record, None while the run is not finished."""
        path = self.folder / SUMMARY
        if not path.is_file():
            return None
        return check_record(files.unsealed(files.read_json(path, REDO), path, REDO), path, SummaryFile, REDO)

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return (self.folder / SUMMARY).is_file()

    @property
    def reuse_note(self) -> str:
        """A sentence for a finished run that is used without training; empty if the run is not finished."""
        if (summary := self.summary) is None:
            return ""
        commit = f" (trained at commit {summary['commit']})" if summary.get("commit") else ""
        return f"run {self.folder}{commit} is finished and used as it is; delete its folder to train it again."

    def weights(self, which: str = "best") -> Path:
        """Return the folder of saved weights: of the selected epoch (``best``) or of the latest one (``last``)."""
        check_name("weights", which, (BEST, LAST))
        if not (self.folder / which).is_dir():
            raise InputError(f"{self.folder} has no weights yet; train it for at least one epoch.")
        return self.folder / which

    @property
    def owner(self) -> str | None:
        """The process that trains this run now, in words; None if there is none."""
        with suppress(OSError):  # not writable: who wants to train it will find out
            return files.holder(self.folder / LOCK)
        return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep other processes from training this run; the lock of a killed process is released.

        At the end, the folder is removed if the settings of the run could not be built. Only the process that holds the
        lock changes anything.
        """
        path = self.folder / LOCK
        for _ in range(ATTEMPTS):
            files.make_folder(self.folder)
            try:
                held = files.hold(path)
                break
            except files.LockHeld as other:
                if path.exists():  # otherwise its owner removed the folder
                    raise AlreadyTrained(
                        f"{self.folder} is already being trained by another process ({other}); wait for it, or stop it "
                        "first."
                    ) from None
            except FileNotFoundError:  # its owner removed the folder
                continue
            except OSError as error:
                raise InputError(f"cannot lock {self.folder} ({error.strerror}); choose a writable folder.") from None
        else:
            raise InputError(f"cannot lock {self.folder}, which other processes keep removing; repeat the command.")
        with held:
            try:
                files.sweep(self.folder)
                settle(self.folder)
                yield
            finally:
                if not (self.folder / CONFIG).is_file():
                    with suppress(OSError):  # the folder holds something else
                        path.unlink(missing_ok=True)
                        self.folder.rmdir()


def nearby_models(name: Path) -> list[Path]:
    """Return folders of fitted models beside a path that is none, or in the current folder, the most similar first."""
    found: dict[Path, Path] = {}
    for root in (name.parent, Path()):
        with suppress(OSError):
            for folder in (root, *sorted(root.iterdir())):
                if (folder / MODEL).is_file():
                    found.setdefault(files.real(folder), folder)
    wanted = name.name.lower()
    return sorted(found.values(), key=lambda place: -difflib.SequenceMatcher(None, wanted, place.name.lower()).ratio())


def _id(folder: str) -> str:
    """Return the id at the end of a run folder's name."""
    return folder.rpartition("-")[2]


def list_runs(root: str | Path = "runs") -> list[Run]:
    """Return all runs in a folder, sorted by name."""
    return [Run(path.parent) for path in sorted(Path(root).glob(f"*/{CONFIG}"))]


def export_results(runs: Iterable[Run], path: str | Path, predictions: bool = False) -> int:
    """Add the summaries of finished runs to a file of JSON lines; a line of the same id is replaced.

    Args:
        runs: The runs; those that are not finished are left out.
        path: The file of records.
        predictions: Whether to copy the predictions of the runs, too, into the folder ``predictions`` beside the file.

    Returns:
        The number of lines in the file.
    """

    def check(path: Path, lines: Sequence[Any]) -> None:
        # Records of other kinds name their kind.
        if not all(isinstance(line, dict) and "id" in line and "kind" not in line for line in lines):
            raise InputError(f"{path} contains lines that are not records of runs; choose another file.")

    found = [(run, summary) for run in runs if (summary := run.summary) is not None]
    if predictions:
        folder = Path(path).parent / PREDICTIONS
        for run, summary in found:
            if summary.get("predictions"):
                content = read_checked(run.folder / PREDICTED, summary["predictions"]["sha256"])
                files.make_folder(folder)
                files.write_bytes(folder / f"{summary['id']}.npz", content)
    return merge_lines(Path(path), (summary for _, summary in found), lambda line: line["id"], check)


def read_checked(path: Path, sha256: str) -> bytes:
    """Return the content of a file of predictions; raise an error unless it has the checksum of its record."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); restore it, or export the run again.") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path} does not belong to the record of its run; restore it, or export the run again.")
    return content


def merge_lines(
    path: Path,
    rows: Iterable[dict[str, Any]],
    key: Callable[[dict[str, Any]], Hashable],
    check: Callable[[Path, Sequence[Any]], None],
) -> int:
    """Add rows to a file of JSON lines, one process at a time; a row replaces the line with the same key.

    Args:
        path: The file; it is created if it does not exist.
        rows: Rows to add.
        key: Returns what identifies a line.
        check: Raises if the lines of the file are of another kind.

    Returns:
        The number of lines in the file.
    """
    files.make_folder(path.parent)
    # The lock lies elsewhere: beside a file that is under version control it would be in the way. Its name has the
    # user's number, because one user may not open the lock of another.
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = hashlib.sha256(os.fsencode(files.real(path))).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"goodformer-{user}-{name}.lock"):
        old = files.read_lines(path, "choose another file to add records to")
        check(path, old)
        lines = {key(line): line for line in (*old, *rows)}
        files.write_lines(path, lines.values())
    return len(lines)
