"""Files that are written whole or not at all, and read with one-sentence errors.

A JSON file can carry its own checksum as its last entry (`sealed`), so that a flipped bit is noticed when it is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from goodformer.errors import CannotWrite, InputError

PART, NEXT, READY, LOCK = ".part", ".next", ".ready", ".lock"
OURS = "restore it from a copy"
"""What to do about a damaged file that this program wrote."""
KEPT = (("model.json", "weights.safetensors"), ("config.json", "epochs.jsonl"), ("config.json", LOCK))
"""Files that show that a folder holds a model or a run."""
PROBE, PATIENCE = 0.3, 10.0
"""Seconds within which a lock is got that `holder` only looks at, and one under which files are only moved."""
CHECKSUM = "checksum"
SEAL = re.compile(r"sha256:[0-9a-f]{64}")


def cache_folder() -> Path:
    """Return the folder of cached data: the environment variable GOODFORMER_CACHE, else ``~/.cache/goodformer``."""
    chosen = os.environ.get("GOODFORMER_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "goodformer"


@contextmanager
def placed(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; the file is moved into place in one step if no error is raised."""
    part = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        yield part
        move(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def move(source: Path, target: Path) -> None:
    """Move a file in one step; its content is on the disk before its name, so that a power cut leaves one of both."""
    _sync(source)
    os.replace(source, target)
    with suppress(OSError):  # some systems cannot synchronise a folder
        _sync(target.parent)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockHeld(Exception):
    """A lock file that another process holds; the message names the process."""


def hold(path: Path, seconds: float = PROBE) -> AbstractContextManager[object]:
    """Lock a file and write into it which process holds it; raise `LockHeld` if it is another one for so many seconds.

    The lock is released at the end of the context that is returned, or of the process, even if it is killed. Who
    removes the file does so before, because afterwards it may be the file of another process.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        held = lock.acquire(timeout=seconds)
    except Timeout:
        if not path.exists():  # its holder has just removed it, or it cannot be made, for which this gives the reason
            tempfile.TemporaryFile(dir=path.parent).close()
        raise LockHeld(_words(path)) from None
    with suppress(OSError):  # the lock holds without a name
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    return held


def holder(path: Path) -> str | None:
    """Return which process holds a lock file, in words; None if there is none."""
    from filelock import FileLock, Timeout

    if not path.exists():
        return None
    try:
        with FileLock(path).acquire(timeout=0):
            return None
    except Timeout:
        return _words(path)
    except FileNotFoundError:  # removed meanwhile
        return None


def _words(path: Path) -> str:
    """Return what the holder of a lock file wrote into it."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[:100] or "unknown"
    return "unknown"


@contextmanager
def locked(path: Path, target: Path, seconds: float = PROBE) -> Iterator[None]:
    """Hold a lock file while a file or folder is written; raise an error if another process keeps it so long."""
    try:
        with writing(target):
            held = hold(path, seconds)
    except LockHeld as other:
        kind = "folder" if target.is_dir() else "file"
        raise InputError(
            f"another process is writing {target} ({other}); wait for it, or choose another {kind}."
        ) from None
    with held:
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def replacing(folder: Path, ours: Collection[str]) -> Iterator[Path]:
    """Yield an empty folder inside ``folder``; what is written there replaces the files ``ours`` of it together.

    Nothing changes if an error is raised. If the process is killed while files are moved, `settle` moves the others.

    Args:
        folder: The folder; it is created if it does not exist.
        ours: Names of files; those that are not written again are removed.
    """
    make_folder(folder)
    new = folder / NEXT
    with locked(folder / LOCK, folder):
        try:
            with writing(folder):
                shutil.rmtree(new, ignore_errors=True)
                new.mkdir()
            yield new
            gone = [name for name in ours if not (new / name).exists()]
            write_json(new / READY, gone)
            _complete(folder)
        finally:
            if not (new / READY).is_file():
                shutil.rmtree(new, ignore_errors=True)


def settle(folder: Path) -> None:
    """Complete what `replacing` had decided before its process was killed; otherwise do nothing.

    A process that is just completing it is waited for. Only then a lock is needed, and a folder that can be written.
    """
    ready = folder / NEXT / READY
    if ready.is_file():
        try:
            with locked(folder / LOCK, folder, PATIENCE):
                if ready.is_file():
                    _complete(folder)
        except InputError:
            if ready.is_file():  # otherwise another process has completed it
                raise


def _complete(folder: Path) -> None:
    """Move what is ready into a folder and remove what is gone; the caller holds its lock."""
    new = folder / NEXT
    with writing(folder):
        for path in sorted(new.iterdir()):
            if path.name != READY:
                move(path, folder / path.name)
        for name in read_json(new / READY):
            (folder / Path(str(name)).name).unlink(missing_ok=True)
        shutil.rmtree(new, ignore_errors=True)


def check_output(out: str | Path, what: str, *inputs: str | Path) -> None:
    """Raise an error if a file cannot be written without harm: a folder, an input, or inside a model or a run.

    Args:
        out: The file to write.
        what: What is written, in the plural.
        inputs: Files that are read.
    """
    place = Path(out)
    if place.is_dir():
        raise InputError(f"{out} is a folder; name a file for the {what}.")
    for source in map(Path, inputs):
        if place.exists() and source.exists() and place.samefile(source):
            raise InputError(f"the {what} would overwrite the input file {source}; choose another output file.")
    for folder in real(place).parents:
        if any(all((folder / name).exists() for name in names) for names in KEPT):
            raise InputError(f"{out} is inside {folder}, which holds a model or a run; choose a file elsewhere.")


def check_replaceable(path: str | Path, ours: Callable[[Path], bool], overwrite: bool = False) -> None:
    """Raise an error if writing ``path`` would lose a file that the same command did not write; empty files may go.

    Args:
        path: The file to write.
        ours: Returns whether the content of an existing file is that of the same command.
        overwrite: Whether the user allows any file to be replaced.
    """
    place = Path(path)
    if overwrite or not place.is_file() or not place.stat().st_size or ours(place):
        return
    raise InputError(
        f"{path} exists and was not written by this command; choose another, or replace it with --overwrite."
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a system error while ``path`` is written into one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "make room and repeat the command" if full else "choose a folder that can be written"
        raise CannotWrite(f"cannot write {path} ({error.strerror or error}); {advice}.") from None


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Write a file in one step: ``fill`` writes it beside ``path``, then it is moved into place."""
    with writing(path), placed(path) as part:
        fill(part)


def check_writable(path: Path) -> None:
    """Raise an error unless a file can be written at ``path``; its folder is created."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    make_folder(path.parent)
    with writing(path), tempfile.TemporaryFile(dir=path.parent, prefix=f".{path.name}."):
        pass


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, indented."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its checksum as last entry."""
    return {**value, CHECKSUM: _checksum(value)}


def unsealed(value: Any, where: object, advice: str = OURS) -> Any:
    """Return what was given to `sealed`; objects of older versions have no checksum and are returned as they are.

    Raises:
        InputError: The checksum is wrong, or its name is damaged.
    """
    if not isinstance(value, dict) or not value:
        return value
    name, last = list(value.items())[-1]
    content = {key: one for key, one in value.items() if key != CHECKSUM}
    found = isinstance(last, str) and SEAL.fullmatch(last)
    if CHECKSUM in value or found:
        if name != CHECKSUM or last != _checksum(content):
            raise InputError(f"{where} is damaged: its content does not match its checksum; {advice}.")
        return content
    return value


def _checksum(value: Mapping[str, Any]) -> str:
    """Return a digest of a JSON object that does not depend on spaces or on the order of entries."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8; half characters, which UTF-8 does not have, become question marks."""
    write_bytes(path, text.encode(errors="replace"))


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write bytes."""
    write(path, lambda part: part.write_bytes(content))


def read_json(path: Path, advice: str = OURS) -> Any:
    """Return the JSON value in a file; ``advice`` says what to do if there is none."""
    return parsed(path, read_text(path), advice)


def read_lines(path: Path, advice: str = OURS) -> list[dict[str, Any]]:
    """Return the JSON objects of a file with one per line; none if there is no file.

    Args:
        path: The file.
        advice: What to do if it holds something else; the file may be a user's own, named by mistake.
    """
    if not path.exists():
        return []
    lines = read_text(path).split("\n")
    return [parsed(f"{path} line {number}", line, advice) for number, line in enumerate(lines, 1) if line.strip()]


def real(path: str | Path) -> Path:
    """Return the absolute path behind symbolic links; a loop of links, on which ``Path.resolve`` fails, stays."""
    return Path(os.path.realpath(path))


def make_folder(path: Path) -> None:
    """Create a folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create folder {path} ({error.strerror}); choose one that can be written.") from None


def sweep(folder: Path, name: str = "*") -> None:
    """Remove what interrupted writes of files of that name left behind; call it only if no other process writes."""
    for part in folder.rglob(f".{name}.*{PART}"):
        part.unlink(missing_ok=True)


def read_text(path: Path, advice: str = "check the path") -> str:
    """Return the text of a file; ``advice`` says what to do if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InputError(f"cannot read {path} ({reason}); {advice}.") from None


def parsed(where: object, text: str, advice: str = OURS) -> Any:
    """Return the value of a JSON text; ``where`` names it in the error."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is damaged or not JSON; {advice}.") from None


def _no_number(word: str) -> None:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise ValueError(word)
