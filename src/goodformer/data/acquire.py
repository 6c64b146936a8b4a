"""Files of public data sets: found in a folder, or downloaded once and checked."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from goodformer.files import cache_folder
from goodformer.registry import InputError

VARIABLE = "GOODFORMER_DATA"
RETRIES = 2
TIMEOUT = 30
"""Seconds without an answer after which a download is given up."""

_folder: ContextVar[Path | None] = ContextVar("data_folder", default=None)


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set.

    Attributes:
        file: Where it lies under a folder of data, e.g. ``hiv/HIV.csv``.
        url: Its public address; empty where it has none that leads straight to the file.
        sha256: Checksum of its content; None where it is not known.
        about: Where it comes from and its licence, in one line.
    """

    file: str
    url: str
    sha256: str | None
    about: str


class NotAtHand(InputError):
    """A file that is in no folder and cannot be downloaded."""


@contextmanager
def data_folder(path: str | Path | None) -> Iterator[None]:
    """Look for data files in that folder first, for all that is loaded inside; None changes nothing."""
    if path is None:
        yield
        return
    if not Path(path).is_dir():
        raise InputError(f"there is no folder {path}; give the folder that holds the data files.")
    token = _folder.set(Path(path))
    try:
        yield
    finally:
        _folder.reset(token)


def obtain(source: PublicFile, folder: Path | None = None) -> Path:
    """The path of a file that is there and is the right one.

    Looks in ``folder`` (or that of `data_folder`), then in the folder the environment variable GOODFORMER_DATA names,
    then in the cache; where it is in none, it is downloaded into the cache. In each folder both ``hiv/HIV.csv`` and
    plain ``HIV.csv`` are accepted.

    Raises:
        InputError: The file has another content than it should, or can be had in no way; says where to put it.
    """
    places = _places(folder or _folder.get())
    for place in places:
        for path in (place / source.file, place / Path(source.file).name):
            if path.is_file():
                _check(path, source)
                return path
    if not source.url:
        raise NotAtHand(_missing(source, places, "has no address to download it from"))
    return _download(source, places)


def _places(folder: Path | None) -> list[Path]:
    """Folders to look in, the first one first; the last one is the cache."""
    named = os.environ.get(VARIABLE)
    chosen = [folder, Path(named).expanduser() if named else None, cache_folder() / "data"]
    return [place for place in chosen if place is not None]


def _check(path: Path, source: PublicFile) -> None:
    """Refuse a file of another content."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); make it readable or remove it.") from None
    if source.sha256 is not None and found != source.sha256:
        raise InputError(
            f"{path} is not the file expected: its SHA-256 begins with {found[:12]} instead of {source.sha256[:12]}; "
            f"replace it with the one from {source.url or source.about}, or remove it."
        )


def _download(source: PublicFile, places: list[Path]) -> Path:
    """Fetch the file into the cache; it is put in place only when whole and, where a checksum is known, of that one."""
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    store = pooch.create(
        path=places[-1],
        base_url="",
        registry={source.file: None if source.sha256 is None else f"sha256:{source.sha256}"},
        urls={source.file: source.url},
        retry_if_failed=RETRIES,
    )
    fetch = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)
    try:
        return Path(store.fetch(source.file, downloader=fetch))
    except (ValueError, OSError) as error:  # what goes wrong on the network is an OSError, too
        raise NotAtHand(_missing(source, places, f"cannot be downloaded ({_short(error)})")) from None


def _short(error: Exception) -> str:
    """What went wrong, without the chain of causes that network errors carry."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return "what came has another checksum"
    return getattr(error, "strerror", None) or type(error).__name__


def _missing(source: PublicFile, places: list[Path], why: str) -> str:
    """One sentence on a file that cannot be had: what it is, and where to put it."""
    folders = [f"{place}" for place in places[:-1]] or [f"a folder that {VARIABLE} or --data-dir names"]
    return (
        f"{Path(source.file).name} is not at hand and {why}; get it from {source.url or source.about} and put it as "
        f"{source.file} into {' or '.join(folders)}, or at {places[-1] / source.file}."
    )
