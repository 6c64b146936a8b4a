"""Tensors cached on disk under a description of how they were made."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from filelock import FileLock
from torch import Tensor

from goodformer import files
from goodformer.files import cache_folder

Tensors = dict[str, Tensor]


def cached(key: Mapping[str, Any], build: Callable[[], Tensors], folder: Path | None = None) -> Tensors:
    """Return the result of ``build``, from disk if it was built before under the same ``key``.

    A damaged file is rebuilt with a warning. If several processes want the same key, one builds and the others wait. If
    the folder is not writable, a warning is issued and the result is not cached.

    Args:
        key: JSON values that identify the tensors and the version of the code that makes them.
        build: Makes the tensors.
        folder: Where to cache them; by default `cache_folder`.
    """
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    path = (folder or cache_folder()) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.safetensors"
    found = _read(path, text)
    if found is not None:
        return found
    with _locked(path) as writable:
        found = _read(path, text) if writable else None
        if found is not None:
            return found
        tensors = build()
        if writable:
            _write(path, text, tensors)
        return tensors


def _read(path: Path, key: str) -> Tensors | None:
    """Return the tensors of a valid file for ``key``, or None."""
    try:
        if not path.exists():
            return None
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copied, because safetensors returns views that would change with the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        problem = f"cannot be read ({error})"
    else:
        if metadata.get("key") == key and metadata.get("checksum") == checksum(tensors):
            return tensors
        problem = "is damaged" if metadata.get("key") == key else "belongs to another key"
    warnings.warn(f"cache file {path} {problem}; rebuilding it.", stacklevel=3)
    return None


def checksum(tensors: Tensors) -> str:
    """Return a digest of names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of ``path``; yields whether the folder is writable."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        warnings.warn(f"cache folder {path.parent} cannot be used ({error}); continuing without it.", stacklevel=4)
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _write(path: Path, key: str, tensors: Tensors) -> None:
    """Write the tensors in one step; a failure only costs the cached copy."""
    copies = {name: value.contiguous().clone() for name, value in tensors.items()}  # safetensors refuses shared memory
    try:
        files.sweep(path.parent, path.name)  # left by killed processes; this one holds the lock
        with files.placed(path) as part:
            safetensors.torch.save_file(copies, part, {"key": key, "checksum": checksum(tensors)})
    except (OSError, safetensors.SafetensorError) as error:
        warnings.warn(f"cache file {path} cannot be written ({error}); continuing without it.", stacklevel=4)
