"""A run folder that travels between machines: packed into one piece, put in place whole or not at all."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path, PurePosixPath

from goodformer import files
from goodformer.errors import InputError

FINAL = "summary.json"
"""Name of the file that is put in place last, because it makes a run finished."""
PARCEL = "parcel.tar"
"""Name of a parcel in the folder that it belongs to, until its files are in place."""
DIGEST = 32
"""Bytes at the start of a parcel: the SHA-256 checksum of the tar archive that follows."""
Signature = dict[str, tuple[int, int, int]]


def signature(folder: Path) -> Signature:
    """Return inode, size and time of change of each file in a folder; hidden files and parcels are left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(".") and path.name != PARCEL:
            facts = path.stat()
            found[path.relative_to(folder).as_posix()] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


def pack(folder: Path) -> bytes | None:
    """Return all files of a folder as one parcel; None if there are none, or if one was changed meanwhile.

    A run killed at any moment can be resumed, and a parcel shows its folder at one moment, so it can be resumed, too.
    """
    content = io.BytesIO()
    try:
        before = signature(folder)
        with tarfile.open(fileobj=content, mode="w") as archive:
            for name in before:
                archive.add(folder / name, name)
        if not before or signature(folder) != before:
            return None
        return hashlib.sha256(content.getvalue()).digest() + content.getvalue()
    except OSError:  # a file is gone, or shorter than it was
        return None


def receive(folder: Path, content: bytes) -> None:
    """Replace the files of a folder by those of a parcel; `settle` completes it after a stop at any moment."""
    files.make_folder(folder)
    files.write_bytes(folder / PARCEL, content)
    settle(folder)


def settle(folder: Path) -> None:
    """Put the files of a parcel in place, if the folder holds one; it may have been done in part before."""
    path = folder / PARCEL
    if not path.is_file():
        return
    content = _unpacked(path.read_bytes())
    if not content:
        raise InputError(f"{path} is damaged; remove it, and the run continues from the files beside it.")
    for name in signature(folder).keys() - content:
        (folder / name).unlink(missing_ok=True)
    for place in sorted(folder.rglob("*"), reverse=True):  # folders that are empty now, the inner ones first
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    for name in sorted(content, key=lambda name: name == FINAL):
        files.make_folder((folder / name).parent)
        files.write_bytes(folder / name, content[name])
    path.unlink()


def _unpacked(packed: bytes) -> dict[str, bytes]:
    """Return the files of a parcel by their names; none if it is damaged or a name leads out of the folder."""
    digest, archived = packed[:DIGEST], packed[DIGEST:]
    if hashlib.sha256(archived).digest() != digest:
        return {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archived)) as archive:
            found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
            content = {name: file.read() for name, file in found.items() if file is not None}
    except tarfile.TarError:
        return {}
    outside = any(".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute() for name in content)
    return {} if outside else content
