"""Digests of a user's files, which are settings of the data set ``table`` and so part of a run's id."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = "file:"
"""Start of a ``split`` that is read from a file."""


def file_digest(value: str, settings: Mapping[str, Any]) -> str:
    """Return the digest as given, or else that of the file ``path`` names; empty if there is no such file."""
    path = Path(str(settings.get("path") or ""))
    return value or (digest(path) if path.exists() else "")


def val_digest(value: str, settings: Mapping[str, Any]) -> str:
    """Return the digest as given, or else that of the file ``val`` names; empty if it names none."""
    return file_digest(value, {"path": settings.get("val")}) if settings.get("val") else value


def test_digest(value: str, settings: Mapping[str, Any]) -> str:
    """Return the digest as given, or else that of the file ``test`` names; empty if it names none."""
    return file_digest(value, {"path": settings.get("test")}) if settings.get("test") else value


def split_digest(value: str, settings: Mapping[str, Any]) -> str:
    """Return the digest as given, or else that of the file ``split`` names; empty if it names none."""
    split = str(settings.get("split") or "")
    path = Path(split.removeprefix(FILE))
    return value or (digest(path) if split.startswith(FILE) and path.exists() else "")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all text files of a folder."""
    files = [path] if path.is_file() else sorted(path.glob("*.txt"))
    return _digest_of(tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in files), path.is_file())


@lru_cache(maxsize=64)
def _digest_of(files: tuple[tuple[str, int, int], ...], single: bool) -> str:
    """Return the digest of files, computed once as long as they do not change: settings are checked many times."""
    whole = hashlib.sha256()
    for name, _, _ in files:
        with Path(name).open("rb") as file:
            one = hashlib.file_digest(file, "sha256").hexdigest()
        if single:
            return one
        whole.update(f"{Path(name).name} {one}\n".encode())
    return whole.hexdigest()
