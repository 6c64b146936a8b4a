"""Files as bytes or as text: compressed or not, in the encodings that programs save."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import IO, AnyStr, cast

from goodformer.errors import InputError
from goodformer.limits import check_limit, limit

PACKED = ".gz"
WINDOWS = "cp1252"
CHUNK = 2**20
"""Bytes that are read at a time to find the encoding."""


def form_of(path: str | Path) -> str:
    """Return the suffix that says what a file contains, in lower case and without ``.gz``."""
    return Path(Path(path).name.lower().removesuffix(PACKED)).suffix


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file; a ``.gz`` file is unpacked while it is read."""
    return cast(IO[bytes], gzip.open(path)) if path.name.lower().endswith(PACKED) else path.open("rb")


def open_text(path: Path) -> IO[str]:
    """Open a file as text; line ends stay as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding_of(path), newline="")


def lines_of(file: IO[AnyStr], path: str | Path) -> Iterator[AnyStr]:
    """Yield the lines of an open file; a line that is longer than the limit raises an error before it is read whole."""
    most = limit("characters")
    for number in count(1):
        line = file.readline(most + 1)
        if not line:
            return
        if len(line) > most:
            check_limit("characters", len(line), f"{path} line {number}")
        yield line


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn an error of the system or of the content into one sentence."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path} is not a complete gzip file; copy or pack it again.") from None
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}); check the path.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not valid UTF-16 text; save it as CSV UTF-8.") from None


def encoding_of(path: Path) -> str:
    """Return the encoding of a text file: UTF-16 by its byte-order mark, UTF-8, or else Windows-1252.

    Raises:
        InputError: It has none of these encodings.
    """
    with reading(path):
        facts = path.stat()
        return _encoding(str(path), facts.st_mtime_ns, facts.st_size)


def encoding_note(path: Path) -> str:
    """Return a note if a text file is neither UTF-8 nor UTF-16; otherwise an empty string."""
    return f"{path.name} is not UTF-8 and is read as Windows-1252 text." if encoding_of(path) == WINDOWS else ""


@lru_cache(maxsize=64)
def _encoding(path: str, changed: int, size: int) -> str:
    """Read the whole file once, as long as it does not change."""
    with open_bytes(Path(path)) as file:
        start = file.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    for encoding in ("utf-8-sig", WINDOWS):
        if _decodes(Path(path), encoding):
            return encoding
    raise InputError(f"{path} is not text in UTF-8, UTF-16 or Windows-1252; save it as CSV UTF-8.")


def _decodes(path: Path, encoding: str) -> bool:
    """Return whether a file is text in this encoding; a null byte is none in Windows-1252."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_bytes(path) as file:
        while part := file.read(CHUNK):
            try:
                text = decoder.decode(part)
            except UnicodeDecodeError:
                return False
            if encoding == WINDOWS and "\0" in text:
                return False
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
