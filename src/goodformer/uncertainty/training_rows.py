"""The training rows most similar to a new graph, with their labels: what a prediction can be compared with.

Letters: m stored rows, B new graphs, k neighbours, D width of the embedding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from goodformer.data.similarity import BITS
from goodformer.engine.seeds import derive_seed
from goodformer.engine.weights import read_tensors, write_tensors
from goodformer.errors import InputError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TRAINING = "training.safetensors"
"""File of a fitted model that holds its training rows; a model works without it."""
MOST = 100_000
"""Largest number of training rows that a model stores."""
TANIMOTO = f"Tanimoto similarity of Morgan fingerprints (radius 2, {BITS} bits)"
COSINE = "cosine of the model's embeddings"
REPAIR = "restore it from a copy, delete it, or fit the model again"


class Neighbour(NamedTuple):
    """A training row that resembles a graph.

    Attributes:
        row: Its number in the training file, from 1; of data in memory, its position from 0.
        similarity: Between 0 and 1 for molecules, see `TANIMOTO`; otherwise between -1 and 1, see `COSINE`.
        label: Its label in words; with several targets "target label, target label".
        smiles: Its SMILES; None if graphs are not molecules.
    """

    row: int
    similarity: float
    label: str
    smiles: str | None


@dataclass(frozen=True)
class TrainingRows:
    """Training rows in the form in which similarity is computed.

    Attributes:
        rows: Number of each row, (m,).
        labels: Label of each in words.
        total: Number of training rows, of which at most `MOST` are stored.
        smiles: SMILES of each, if they are molecules.
        bits: Fingerprints of molecules, eight bits per number, (m, `BITS` / 8), uint8.
        embedding: Embeddings of other graphs, of length 1, (m, D).
        hashes: Hashes of other graphs, by which equal ones are found, (m,); None in older models.
    """

    rows: Tensor
    labels: tuple[str, ...]
    total: int
    smiles: tuple[str, ...] | None = None
    bits: Tensor | None = None
    embedding: Tensor | None = None
    hashes: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def measure(self) -> str:
        """What similarity means."""
        return TANIMOTO if self.bits is not None else COSINE

    def nearest(self, queries: Tensor, count: int) -> list[list[Neighbour]]:
        """Return the most similar rows of each query, best first, equal ones in the order of their rows.

        Args:
            queries: Packed fingerprints (B, `BITS` / 8) if rows are molecules, otherwise embeddings (B, D).
            count: Number of rows for each query; fewer if fewer are stored.
        """
        if count < 1:
            raise InputError(f"{count} neighbours are not possible; ask for at least 1.")
        similar = self._tanimoto if self.bits is not None else self._cosine
        found = [_best(similar(query), min(count, len(self))) for query in queries]
        return [
            [
                Neighbour(
                    int(self.rows[place]),
                    round(float(value), 6),
                    self.labels[place],
                    None if self.smiles is None else self.smiles[place],
                )
                for place, value in row
            ]
            for row in found
        ]

    def alike(self, bits: Tensor) -> list[int]:
        """Return the places of the stored molecules that have one of the packed fingerprints (B, `BITS` / 8)."""
        assert self.bits is not None
        wanted = {row.tobytes() for row in bits.numpy()}
        return [place for place, row in enumerate(self.bits.numpy()) if row.tobytes() in wanted]

    def _tanimoto(self, query: Tensor) -> Floats:
        """Return the similarity of a packed fingerprint to each row, (m,)."""
        starts, rows, sizes = self._postings
        bits = np.flatnonzero(np.unpackbits(query.numpy()))
        shared = [rows[starts[bit] : starts[bit + 1]] for bit in bits]
        common = np.bincount(np.concatenate([rows[:0], *shared]), minlength=len(self))
        return common / np.maximum(sizes + len(bits) - common, 1)

    @cached_property
    def _postings(self) -> tuple[Ints, Ints, Ints]:
        """Start of the rows with each bit (`BITS` + 1,), all these rows in one list, and the bits of each row (m,)."""
        assert self.bits is not None
        row, bit = (np.concatenate(part) for part in zip(*_set_bits(self.bits.numpy()), strict=True))
        starts = np.concatenate(([0], np.bincount(bit, minlength=BITS).cumsum()))
        return starts, row[np.argsort(bit, kind="stable")], np.bincount(row, minlength=len(self))

    def _cosine(self, query: Tensor) -> Floats:
        """Return the similarity of an embedding to each row, (m,); equal rows have equal values."""
        assert self.embedding is not None
        values: Floats = (self.embedding @ unit(query).float()).double().numpy().round(6)
        return values

    def save(self, folder: Path) -> str:
        """Write the rows into a folder and return the checksum of the file."""
        texts = json.dumps({"labels": self.labels, "smiles": self.smiles, "total": self.total})
        tensors = {"rows": self.rows, "texts": torch.frombuffer(bytearray(texts.encode()), dtype=torch.uint8)}
        optional = {"bits": self.bits, "embedding": self.embedding, "hashes": self.hashes}
        tensors |= {name: value for name, value in optional.items() if value is not None}
        return write_tensors(folder / TRAINING, tensors)

    @classmethod
    def load(cls, folder: Path, sha256: str) -> Self:
        """Read what `save` wrote."""
        path = folder / TRAINING
        tensors = read_tensors(path, sha256, REPAIR)
        try:
            texts: dict[str, Any] = json.loads(tensors["texts"].numpy().tobytes())
            smiles = None if texts["smiles"] is None else tuple(texts["smiles"])
            labels, total = tuple(texts["labels"]), int(texts["total"])
            optional = (tensors.get(name) for name in ("bits", "embedding", "hashes"))
            return cls(tensors["rows"], labels, total, smiles, *optional)
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{path} is damaged; {REPAIR}.") from None


def stored_places(count: int) -> Tensor:
    """Return which of ``count`` training rows are stored: all, or a seeded random choice in ascending order."""
    if count <= MOST:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(derive_seed("training rows", count))
    return torch.randperm(count, generator=generator)[:MOST].sort().values


def packed_bits(fingerprints: npt.NDArray[np.bool_]) -> Tensor:
    """Return fingerprints (m, `BITS`) with eight bits per number, (m, `BITS` / 8)."""
    return torch.from_numpy(np.packbits(fingerprints, axis=1))


def unit(embedding: Tensor) -> Tensor:
    """Return embeddings of length 1, (B, D)."""
    return F.normalize(embedding.double(), dim=-1)


def _set_bits(packed: npt.NDArray[np.uint8], size: int = 4096) -> Iterator[tuple[Ints, Ints]]:
    """Yield row and number of every bit that is set, some rows at a time: all bits together may not fit in memory."""
    for start in range(0, max(len(packed), 1), size):
        row, bit = np.nonzero(np.unpackbits(packed[start : start + size], axis=1))
        yield row + start, bit


def _best(similarity: Floats, count: int) -> list[tuple[int, float]]:
    """Return places and values of the largest values, equal ones in order."""
    bar = np.partition(similarity, len(similarity) - count)[len(similarity) - count]
    near = np.flatnonzero(similarity >= bar)
    best = near[np.argsort(-similarity[near], kind="stable")[:count]]
    return list(zip(best.tolist(), similarity[best].tolist(), strict=True))


def label_words(values: Sequence[float], classes: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return labels in words: names of classes, or numbers where a target has no classes; "?" if missing."""

    def word(value: float, names: Sequence[str]) -> str:
        if math.isnan(value):
            return "?"
        return names[int(value)] if names else f"{value:g}"

    if len(classes) == 1:
        return word(values[0], classes[0][1])
    return ", ".join(f"{target} {word(value, names)}" for value, (target, names) in zip(values, classes, strict=True))
