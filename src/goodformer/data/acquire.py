"""Files of public data sets: found in a folder, or downloaded once and verified."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from goodformer.data.digest import digest
from goodformer.errors import InputError
from goodformer.files import cache_folder
from goodformer.limits import limit

VARIABLE = "GOODFORMER_DATA"
RETRIES = 2
TIMEOUT = 30
"""Seconds without a response after which a download fails."""

_folder: ContextVar[Path | None] = ContextVar("data_folder", default=None)


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set.

    Attributes:
        file: Path below a data folder, e.g. ``hiv/HIV.csv``.
        url: Public download address; empty if there is none.
        sha256: Checksum of the content; None if unknown.
        about: Origin and licence in one line.
    """

    file: str
    url: str
    sha256: str | None
    about: str


class DataNotFound(InputError):
    """A data file that was not found and cannot be downloaded."""


@contextmanager
def data_folder(path: str | Path | None) -> Iterator[None]:
    """Look for data files in that folder first while the context is active; None changes nothing."""
    if path is None:
        yield
        return
    if not Path(path).is_dir():
        raise InputError(f"folder {path} not found; give the folder that contains the data files.")
    token = _folder.set(Path(path))
    try:
        yield
    finally:
        _folder.reset(token)


def obtain(source: PublicFile, folder: Path | None = None) -> Path:
    """Return the path of a verified data file.

    Looks in ``folder`` (or that of `data_folder`), then in the folder named by the environment variable
    GOODFORMER_DATA, then in the cache; otherwise the file is downloaded into the cache. In each folder, both
    ``hiv/HIV.csv`` and ``HIV.csv`` are accepted.

    Raises:
        InputError: The file has the wrong content, or cannot be obtained; the message says where to put it.
    """
    places = _places(folder or _folder.get())
    for place in places:
        for path in (place / source.file, place / Path(source.file).name):
            if path.is_file():
                _check(path, source)
                return path
    if not source.url:
        raise DataNotFound(_missing(source, places, "has no download address"))
    return _download(source, places)


def _places(folder: Path | None) -> list[Path]:
    """Return the folders to search in order; the last one is the cache."""
    named = os.environ.get(VARIABLE)
    chosen = [folder, Path(named).expanduser() if named else None, cache_folder() / "data"]
    return [place for place in chosen if place is not None]


def _check(path: Path, source: PublicFile) -> None:
    """Raise an error if the file has the wrong content."""
    try:
        found = digest(path)
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); make it readable or remove it.") from None
    if source.sha256 is not None and found != source.sha256:
        raise InputError(
            f"{path} is not the expected file: its SHA-256 begins with {found[:12]} instead of {source.sha256[:12]}; "
            f"replace it with the one from {source.url or source.about}, or remove it."
        )


def _download(source: PublicFile, places: list[Path]) -> Path:
    """Download the file into the cache; it appears there only when it is complete and verified."""
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    store = pooch.create(
        path=places[-1],
        base_url="",
        registry={source.file: None if source.sha256 is None else f"sha256:{source.sha256}"},
        urls={source.file: source.url},
        retry_if_failed=RETRIES,
    )
    http = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)

    def fetch(url: str, part: str, store: object) -> None:
        with open(part, "wb") as file:
            http(url, _Limited(file, limit("download")), store)

    try:
        return Path(store.fetch(source.file, downloader=fetch))
    except (ValueError, OSError) as error:  # what goes wrong on the network is an OSError, too
        raise DataNotFound(_missing(source, places, f"cannot be downloaded ({_short(error)})")) from None


class _Limited:
    """A file that takes a limited number of bytes."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.file, self.left, self.most = file, most, most

    def write(self, content: bytes) -> int:
        """Write, or raise an error if that is too much."""
        self.left -= len(content)
        if self.left < 0:
            raise OSError(errno.EFBIG, f"larger than {self.most:,} bytes")
        return self.file.write(content)

    def flush(self) -> None:
        """Write what is waiting."""
        self.file.flush()


def _short(error: Exception) -> str:
    """Return what went wrong without the chain of causes of network errors."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return "the checksum of the download is wrong"
    return getattr(error, "strerror", None) or type(error).__name__


def _missing(source: PublicFile, places: list[Path], why: str) -> str:
    """Return an error message that says what is missing and where to put it."""
    folders = [f"{place}" for place in places[:-1]] or [f"a folder that {VARIABLE} or --data-dir names"]
    return (
        f"{Path(source.file).name} was not found and {why}; get it from {source.url or source.about} and put it as "
        f"{source.file} into {' or '.join(folders)}, or at {places[-1] / source.file}."
    )
