"""The predictions of a finished run on its held-out graphs, kept in one small file without code.

A file holds, for each split in `KEPT`, the logits (or predicted values, see `keep`) and labels of every graph in the
order of the split, and for OOD test also a key of each graph. A record names the checksum of its file and a fingerprint
of the graphs of each split, so two runs are compared graph by graph only where these are the same.
Letters: G graphs, C outputs, T targets.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from goodformer import files
from goodformer.engine.store import read_checked
from goodformer.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from goodformer.data.graphs import GraphSet
    from goodformer.spec import Task

Floats = npt.NDArray[np.floating[Any]]
KEPT = ("id_val", "val", "id_test", "test")
KEYED = "test"
"""The split whose graphs have keys, by which test sets that share graphs are compared."""


@dataclass(frozen=True)
class Kept:
    """Predictions for the graphs of one split.

    Attributes:
        logits: Unnormalised scores as the method returned them (G, C), or predicted values (G, T).
        y: Classes (G,), or binary or measured targets (G, T) with NaN for missing labels.
        graphs: A key of each graph and its label, equal for equal graphs (G,); empty where it is not stored.
    """

    logits: Floats
    y: npt.NDArray[Any]
    graphs: npt.NDArray[np.uint32]


def keep(path: Path, logits: Mapping[str, Tensor], splits: Mapping[str, GraphSet], task: Task) -> dict[str, Any]:
    """Write the predictions of a run and return the entry of its record.

    For measured targets the file holds predicted values instead of logits, divided, like the labels, by `Task.units`.

    Args:
        path: The file.
        logits: Logits (G, C) of each split in `KEPT`, in the order of its graphs.
        splits: The graphs of these splits.
        task: What is predicted.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split in KEPT:
        y, found = splits[split].graph["y"].numpy(), logits[split].detach().cpu()
        if task.measured:
            from goodformer.methods.base import link

            arrays[f"{split}/logits"] = (link(task, found.double()).numpy() / task.units).astype(np.float32)
            arrays[f"{split}/y"] = (y / task.units).astype(np.float32)
            continue
        arrays[f"{split}/logits"] = found.numpy().astype(np.float32)
        arrays[f"{split}/y"] = y.astype(np.float16 if y.dtype.kind == "f" else np.min_scalar_type(y.max(initial=0)))
    arrays[f"{KEYED}/graphs"] = graph_keys(splits[KEYED]).astype(np.uint32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    files.write_bytes(path, buffer.getvalue())
    return {
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        "graphs": {split: fingerprint(splits[split]) for split in KEPT},
    }


def read(path: Path, sha256: str) -> dict[str, Kept]:
    """Return the predictions of each split from a file that `keep` wrote; raise an error if it is another file."""
    content = read_checked(path, sha256)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        none = np.empty(0, np.uint32)
        kept = {
            split: Kept(arrays[f"{split}/logits"], arrays[f"{split}/y"], arrays.get(f"{split}/graphs", none))
            for split in KEPT
        }
    except (KeyError, ValueError, zipfile.BadZipFile):
        raise InputError(f"{path} is not a file of predictions; restore it, or export the run again.") from None
    for split, one in kept.items():
        sound = one.logits.ndim == 2 and one.y.ndim in (1, 2) and len(one.logits) == len(one.y)
        if not sound or len(one.graphs) not in (0, len(one.y)):
            raise InputError(
                f"{path} has {len(one.logits)} predictions for {len(one.y)} labels of {split}; restore it."
            )
    return kept


# Identity of graphs ---------------------------------------------------------------------------------------------------


def fingerprint(graphs: GraphSet) -> str:
    """Return 16 hexadecimal digits that identify the graphs of a split, their labels and their order."""
    return hashlib.sha256(graph_keys(graphs).tobytes()).hexdigest()[:16]


def graph_keys(graphs: GraphSet) -> npt.NDArray[np.uint64]:
    """Return a number for each graph that depends on its nodes, edges, features and label (G,)."""
    from goodformer.data.hashes import hash_graphs, hash_rows, mix

    y = graphs.graph["y"]
    return mix(hash_graphs(graphs) + hash_rows(y[:, None] if y.dim() == 1 else y))
