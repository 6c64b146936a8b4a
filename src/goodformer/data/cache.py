"""Tensors kept on disk under the description of how they were made."""

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
    """What ``build`` returns, taken from disk where it was built before under the same ``key``.

    A file that is damaged or holds something else is built anew, with a warning. Of several processes that want the
    same key one builds and the others wait for it. Where the folder cannot be written, a warning says so and the
    result is simply not kept.

    Args:
        key: JSON values that say what the tensors are and which version of the code makes them.
        build: Makes them.
        folder: Where to keep them; `cache_folder` where not given.
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
    """The tensors of a sound file made under ``key``, or None."""
    try:
        if not path.exists():
            return None
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copied, because what safetensors returns is a view of the file that would change with it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        problem = f"cannot be read ({error})"
    else:
        if metadata.get("key") == key and metadata.get("checksum") == checksum(tensors):
            return tensors
        problem = "is damaged" if metadata.get("key") == key else "was made for something else"
    warnings.warn(f"cache file {path} {problem}; it is built anew.", stacklevel=3)
    return None


def checksum(tensors: Tensors) -> str:
    """A digest of names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of ``path``; yields whether the folder can be written at all."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        warnings.warn(f"cache folder {path.parent} cannot be used ({error}); going on without it.", stacklevel=4)
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _write(path: Path, key: str, tensors: Tensors) -> None:
    """Put the tensors in place in one step; a failure costs nothing but the copy on disk."""
    copies = {name: value.contiguous().clone() for name, value in tensors.items()}  # safetensors refuses shared memory
    try:
        files.sweep(path.parent, path.name)  # of killed processes, as this one holds the lock
        with files.placed(path) as part:
            safetensors.torch.save_file(copies, part, {"key": key, "checksum": checksum(tensors)})
    except (OSError, safetensors.SafetensorError) as error:
        warnings.warn(f"cache file {path} cannot be written ({error}); going on without it.", stacklevel=4)
