"""Files that are written whole or not at all, and read with one-sentence errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from goodformer.errors import InputError

PART = ".part"
OURS = "remove it or restore it from a copy"
"""What to do about a damaged file that this program wrote."""


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
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a system error while ``path`` is written into one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {path} ({error.strerror or error}); choose a folder that can be written."
        ) from None


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Write a file in one step: ``fill`` writes it beside ``path``, then it is moved into place."""
    with writing(path), placed(path) as part:
        fill(part)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, indented."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes."""
    write(path, lambda part: part.write_bytes(content))


def read_json(path: Path) -> Any:
    """Return the JSON value in a file."""
    return _parsed(path, read_text(path))


def read_lines(path: Path, advice: str = OURS) -> list[dict[str, Any]]:
    """Return the JSON objects of a file with one per line; none if there is no file.

    Args:
        path: The file.
        advice: What to do if it holds something else; the file may be a user's own, named by mistake.
    """
    return (
        [_parsed(path, line, advice) for line in read_text(path).splitlines() if line.strip()] if path.exists() else []
    )


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


def _parsed(path: Path, text: str, advice: str = OURS) -> Any:
    """Return the value of a JSON text from a file."""
    try:
        return json.loads(text)
    except ValueError:
        raise InputError(f"{path} is damaged or not JSON; {advice}.") from None
