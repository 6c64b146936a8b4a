"""A user's own file as a benchmark: graphs, labels and a split that keeps whole domains for testing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from goodformer.data import molecule
from goodformer.data.benchmark import Benchmark
from goodformer.data.digest import FILE, digest
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, Rejected
from goodformer.data.readers.collection import Collection, pick
from goodformer.data.readers.labels import Labels, read_labels
from goodformer.data.readers.rows import read_collection
from goodformer.data.readers.values import counted
from goodformer.data.splits.parts import check_taught
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import check_not_target, make_split, split_note
from goodformer.registry import InputError
from goodformer.settings import Computed
from goodformer.spec import SPLITS, Features, FeatureSpec

VERSION = 4
"""Raised whenever the same file gives other graphs or another split."""
LISTED = 5
"""Rejected rows named in the notes."""


def table(
    *,
    path: Annotated[str, Field(description="The file: csv, tsv, parquet, sdf, jsonl, or a folder in TU format.")],
    smiles: Annotated[str, Field(description="Column that holds SMILES, where the file is a table.")] = "smiles",
    target: Annotated[
        str | tuple[str, ...], Field(description="Column of the label, or several columns of binary targets.")
    ],
    split: Annotated[
        str, Field(description="auto, scaffold, size, cluster, random, column:NAME or file:PATH.")
    ] = "auto",
    seed: Annotated[int, Field(ge=0, description="Decides what is drawn when the data are split.")] = 0,
    sha256: Annotated[
        str,
        Computed("goodformer.data.digest:file_digest"),
        Field(description="Digest of the file; filled in, refused if it differs."),
    ] = "",
    split_sha256: Annotated[
        str,
        Computed("goodformer.data.digest:split_digest"),
        Field(description="Digest of the file a split is read from; likewise."),
    ] = "",
) -> Benchmark:
    """Your own file: molecules or graphs with labels, split so that whole domains are kept for testing.

    The digest of the file is one of the settings and is filled in when they are checked. So a run belongs to what the
    file held when it was begun: another content under the same path is another run, and an old run is not mixed up
    with a new file but refuses it.

    Splits: rows by the domain that ``split`` names, the first domains train, the last test; ``auto`` takes scaffolds
        for molecules, sizes otherwise.
    Input: molecules (atoms and bonds as in PyG's ``from_smiles``), or graphs with the features the file gives them.
    Label: two values are a binary target, more are classes, several columns are several binary targets.
    Domain: what ``split`` names.
    Source: your file.
    Licence: that of your file.
    Statistics: `goodformer split` prints them, with how far train and test lie apart.
    """
    _check_digest(Path(path), sha256, "the file")
    if split.startswith(FILE):
        _check_digest(Path(split.removeprefix(FILE)), split_sha256, "the split")
    return load_table(path, smiles, target, split, seed).benchmark()


@dataclass(frozen=True)
class Table:
    """What a file holds: graphs, labels and where each row belongs.

    Attributes:
        path: The file.
        smiles: Column of the SMILES.
        collection: The graphs of its rows.
        labels: The labels of the same rows.
        split: Where each row belongs.
        notes: What is not plain about how labels and domains were read, a sentence each.
    """

    path: Path
    smiles: str
    collection: Collection
    labels: Labels
    split: Split
    notes: tuple[str, ...] = ()

    def benchmark(self) -> Benchmark:
        """The table as a benchmark."""
        parts = json.dumps([self.split.part.tolist(), self.split.domain.tolist()])
        recipe = {"table": VERSION, "sha256": digest(self.path), "smiles": self.smiles, "target": self.labels.targets}
        recipe |= {"rdkit": molecule.RDKIT, "molecule": molecule.VERSION}
        recipe |= {"split": hashlib.sha256(parts.encode()).hexdigest()}
        return assemble(self.collection, self.labels, self.split, self.path.stem, self.split.by, recipe)


def load_table(
    path: str | Path, smiles: str = "smiles", target: str | Sequence[str] = (), split: str = "auto", seed: int = 0
) -> Table:
    """Read a file, its labels and make its split; see `table` for the arguments."""
    collection, columns = read_collection(path, smiles)
    check_readable(collection, path)
    targets = (target,) if isinstance(target, str) else target
    check_not_target(split, targets)
    labels = read_labels(pick(columns, targets, str(path)))
    made = make_split(split, collection, columns, labels.y, seed)
    notes = [*labels.notes, split_note(split, collection, columns)]
    return Table(Path(path), smiles, collection, labels, made, tuple(filter(None, notes)))


def assemble(
    collection: Collection, labels: Labels, split: Split, name: str, domain: str, recipe: Mapping[str, Any]
) -> Benchmark:
    """Graphs, labels and split as a benchmark; rows without graph, label or split are left out.

    Args:
        collection: The graphs of R rows.
        labels: The labels of the same rows.
        split: Where each of these rows belongs.
        name: What the benchmark is called.
        domain: The attribute that shifts.
        recipe: All that decides the graphs; encodings are cached under it, and not at all where empty.
    """
    if not collection.count == len(labels.y) == len(split):
        counts = f"{collection.count} rows, {len(labels.y)} labels and {len(split)} entries of the split"
        raise InputError(f"there are {counts}; give as many of each.")
    part = torch.where(labels.labelled, split.part, torch.full_like(split.part, -1))[collection.rows]  # (G,)
    graphs, num_envs = _attached(collection, labels, split)
    places = {one: (part == number).nonzero().flatten() for number, one in enumerate(SPLITS)}
    splits = {one: graphs.subset(found) for one, found in places.items()}
    check_taught(splits["train"].graph["y"], labels)
    return Benchmark(
        name=name,
        domain=domain,
        shift="none" if split.by == "random" else "covariate",
        splits=splits,
        task=labels.task,
        features=_of_training(collection.features, splits["train"]),
        num_envs=num_envs,
        notes=_notes(collection, int((part < 0).sum())),
        recipe=dict(recipe),
        domain_names=split.names,
    )


def rejected_sentence(rejected: Sequence[Rejected], where: str) -> str:
    """Which rows could not be read, and why; empty where all could."""
    if not rejected:
        return ""
    verb = "is" if len(rejected) == 1 else "are"
    return f"{counted(len(rejected), 'row')} of {where} cannot be read and {verb} left out: {_first(rejected)}."


def check_readable(collection: Collection, path: str | Path) -> None:
    """Refuse a file none of whose rows is a graph, with the reasons of the first ones."""
    if collection.rejected and not len(collection):
        raise InputError(
            f"none of {counted(collection.count, 'row')} of {Path(path).name} can be read: "
            f"{_first(collection.rejected)}; mend the rows, or name the column that holds the molecules."
        )


def _first(rejected: Sequence[Rejected]) -> str:
    """The first rows that cannot be read, the reason of each, and how many more there are."""
    first = "; ".join(f"row {one.row + 1} ({one.text or 'empty'}: {one.reason})" for one in rejected[:LISTED])
    return f"{first} and {len(rejected) - LISTED} more" if len(rejected) > LISTED else first


def _check_digest(path: Path, expected: str, what: str) -> None:
    """What lies at a path is what it was when the settings were made."""
    if expected and path.exists() and digest(path) != expected:
        raise InputError(
            f"{path} has changed since the run was begun; restore {what}, or begin a new run with the same command."
        )


def _attached(collection: Collection, labels: Labels, split: Split) -> tuple[GraphSet, int]:
    """The graphs with label, environment and domain, and the number of environments."""
    env, num_envs = split.envs()
    rows = collection.rows
    fields = {"y": labels.y[rows], "env": env[rows], "domain": split.domain[rows]}
    graphs = collection.graphs
    return GraphSet(graphs.node, graphs.edge, fields, graphs.node_ptr, graphs.edge_ptr), max(num_envs, 1)


def _of_training(features: FeatureSpec, train: GraphSet) -> FeatureSpec:
    """Features with as many codes as training has; those of molecules are fixed."""
    if features == FEATURES:
        return features
    edge = features.edge if "attr" not in train.edge else _seen(features.edge, train.edge["attr"])
    return replace(features, node=_seen(features.node, train.node["x"]), edge=edge)


def _seen(features: Features, codes: Tensor) -> Features:
    """Codes up to the largest that occurs: models give those beyond the vector of the last one."""
    if features.kind != "categorical" or not len(codes):
        return features
    return Features.categorical(*(code + 1 for code in codes.amax(0).tolist()))


def _notes(collection: Collection, left: int) -> str:
    """What of the source is not in the benchmark."""
    verb = "is" if left == 1 else "are"
    unlabelled = f"{counted(left, 'row')} without a label or domain {verb} left out." if left else ""
    return " ".join(part for part in (rejected_sentence(collection.rejected, "the source"), unlabelled) if part)
