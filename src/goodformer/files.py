"""Files that are there whole or not at all."""

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
    """Where to write what shall be at ``path``: a place beside it, moved there in one step if nothing went wrong."""
    part = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        yield part
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence what the system refuses while ``path`` is written."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {path} ({error.strerror or error}); choose a folder that can be written."
        ) from None


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Let ``fill`` write a file beside ``path`` and put it in place in one step."""
    with writing(path), placed(path) as part:
        fill(part)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, readable by people."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line."""
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes."""
    write(path, lambda part: part.write_bytes(content))


def read_json(path: Path) -> Any:
    """The JSON value in a file."""
    return _parsed(path, _text(path))


def read_lines(path: Path, advice: str = OURS) -> list[dict[str, Any]]:
    """The JSON objects of a file, one a line; none where there is no file.

    Args:
        path: The file.
        advice: What to do where it holds something else; the file may be a user's own, named by mistake.
    """
    return [_parsed(path, line, advice) for line in _text(path).splitlines() if line.strip()] if path.exists() else []


def make_folder(path: Path) -> None:
    """Create a folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create folder {path} ({error.strerror}); choose one that can be written.") from None


def sweep(folder: Path, name: str = "*") -> None:
    """Remove what interrupted writes of files of that name left behind; call only where nobody else writes."""
    for part in folder.rglob(f".{name}.*{PART}"):
        part.unlink(missing_ok=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InputError(f"cannot read {path} ({reason}); check the path.") from None


def _parsed(path: Path, text: str, advice: str = OURS) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InputError(f"{path} is damaged or not JSON; {advice}.") from None
