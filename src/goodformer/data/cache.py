"""Tensors kept on disk under the description of how they were made."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
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

Tensors = dict[str, Tensor]


def cache_folder() -> Path:
    """Where cached data lie: the environment variable GOODFORMER_CACHE, else ``~/.cache/goodformer``."""
    chosen = os.environ.get("GOODFORMER_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "goodformer"


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
    if not path.exists():
        return None
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
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
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _write(path: Path, key: str, tensors: Tensors) -> None:
    """Put the tensors in place in one step; called under the lock, so temporary files found are left-overs."""
    for stale in path.parent.glob(f"{path.stem}.*.tmp"):
        stale.unlink(missing_ok=True)
    metadata = {"key": key, "checksum": checksum(tensors)}
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f"{path.stem}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
        safetensors.torch.save_file({name: value.contiguous() for name, value in tensors.items()}, temporary, metadata)
        os.replace(temporary, path)
    except (OSError, safetensors.SafetensorError) as error:
        warnings.warn(f"cache file {path} cannot be written ({error}); going on without it.", stacklevel=4)
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
