"""A user's own file as a benchmark: graphs, labels and a split that holds out whole domains."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from goodformer.data import molecule
from goodformer.data.benchmark import Benchmark
from goodformer.data.digest import FILE, digest
from goodformer.data.graphs import GIVEN, GraphSet
from goodformer.data.molecule import FEATURES, Rejected
from goodformer.data.readers.collection import Collection, Columns, joined, known_column, pick, same_column
from goodformer.data.readers.labels import Labels, TaskChoice, read_labels
from goodformer.data.readers.rows import named, read_collection, reading_notes
from goodformer.data.readers.values import counted
from goodformer.data.splits.given import unused_note
from goodformer.data.splits.parts import check_training_classes, places_of
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import check_not_target, make_split, split_note
from goodformer.data.splits.twins import same_graphs
from goodformer.errors import InputError
from goodformer.settings import Computed
from goodformer.spec import SPLITS, Features, FeatureSpec

VERSION = 5
"""Increased when the same file yields different graphs or splits."""
LISTED = 5
"""Number of rejected rows that notes list."""
MANY_CODES = 20
"""Largest number of codes of a feature that are taken for categories without a word."""
NAMED = 3
"""Number of duplicates with conflicting labels that a note lists."""


def table(
    *,
    path: Annotated[
        str, Field(description="The file: csv, tsv, smi, xlsx, parquet, sdf, jsonl, or a folder in TU format.")
    ],
    smiles: Annotated[str, Field(description="Column with SMILES, if the file is a table.")] = "smiles",
    target: Annotated[
        str | tuple[str, ...],
        Field(description="Column of the label, or several columns of binary or measured targets."),
    ],
    split: Annotated[
        str, Field(description="auto, scaffold, size, cluster, random, column:NAME or file:PATH.")
    ] = "auto",
    seed: Annotated[int, Field(ge=0, description="Seed of the split.")] = 0,
    sha256: Annotated[
        str,
        Computed("goodformer.data.digest:file_digest"),
        Field(description="SHA-256 of the file; computed unless given, and must match."),
    ] = "",
    split_sha256: Annotated[
        str,
        Computed("goodformer.data.digest:split_digest"),
        Field(description="SHA-256 of the split file; computed unless given, and must match."),
    ] = "",
    val: Annotated[str, Field(description="File of OOD validation rows, with the columns of the first file.")] = "",
    test: Annotated[str, Field(description="File of OOD test rows, with the columns of the first file.")] = "",
    val_sha256: Annotated[
        str,
        Computed("goodformer.data.digest:val_digest"),
        Field(description="SHA-256 of the file of OOD validation rows; computed unless given, and must match."),
    ] = "",
    test_sha256: Annotated[
        str,
        Computed("goodformer.data.digest:test_digest"),
        Field(description="SHA-256 of the file of OOD test rows; computed unless given, and must match."),
    ] = "",
    standardise: Annotated[
        Literal["none", "parent", "tautomer"],
        Field(description="Molecules: as they are, their largest neutral fragment, or its canonical tautomer."),
    ] = "none",
    task: Annotated[
        TaskChoice, Field(description="Whether targets are classes or measured values; auto decides by their values.")
    ] = "auto",
) -> Benchmark:
    """Your own file: molecules or graphs with labels, split so that whole domains are held out.

    The digest of the file is a setting that is filled in when settings are checked. A run therefore belongs to the
    content that the file had when the run started: changed content is a different run, and an old run does not accept a
    changed file.

    Splits: domains in the order of ``split``, the first for training, the last for OOD test; ``auto`` uses scaffolds
        for molecules and sizes for other graphs. Parts that are given, by words such as train and test in the column of
        ``column:NAME`` or by the files ``val`` and ``test``, are kept.
    Input: molecules (columns of `goodformer.data.molecule.FEATURES`), or graphs with the features in the file.
    Label: two values make a binary target, more make classes, numbers with decimals or many different numbers make a
        measured target; several columns make several binary or measured targets.
    Task: binary targets, ROC-AUC; measured targets, RMSE; otherwise classes, accuracy.
    Domain: the attribute that ``split`` names.
    Source: your file.
    Licence: that of your file.
    Statistics: `goodformer split` prints them together with the distance between training and test.
    """
    _check_digest(Path(path), sha256, "the file")
    if split.startswith(FILE):
        _check_digest(Path(split.removeprefix(FILE)), split_sha256, "the split")
    for more, expected in ((val, val_sha256), (test, test_sha256)):
        if more:
            _check_digest(Path(more), expected, "the file")
    return load_table(path, smiles, target, split, seed, val, test, standardise, task).benchmark()


@dataclass(frozen=True)
class FileRows:
    """The rows of a file, or of several files one after the other.

    Attributes:
        files: The files by part: the first under ``train``, further ones under ``val`` and ``test``.
        counts: Number of rows of each file.
        collection: Graphs of the rows.
        columns: Columns of the rows.
    """

    files: Mapping[str, Path]
    counts: tuple[int, ...]
    collection: Collection
    columns: Columns

    @property
    def given(self) -> Tensor | None:
        """Part of each row (R,) if there are several files."""
        parts = torch.tensor([SPLITS.index(part) for part in self.files])
        return None if len(parts) == 1 else parts.repeat_interleave(torch.tensor(self.counts))

    def split(self, how: str, y: Tensor | None, seed: int) -> tuple[Split, str]:
        """Split the rows, see `make_split`; also return a note on how a column or files were used."""
        made = make_split(how, self.collection, self.columns, y, seed, given=self.given)
        if len(self.files) > 1:
            names = ((part, path.name) for part, path in self.files.items())
            made = replace(made, files=tuple((*one, rows) for one, rows in zip(names, self.counts, strict=True)))
        return made, split_note(how, self.collection, self.columns, made, y, self.given)

    def rejected(self) -> dict[str, list[Rejected]]:
        """Return, by part, the rows of each file that cannot be read, counted from 0 in the file."""
        ends = list(accumulate(self.counts))
        found: dict[str, list[Rejected]] = {part: [] for part in self.files}
        for one in self.collection.rejected:
            which = bisect_right(ends, one.row)
            found[list(self.files)[which]].append(replace(one, row=one.row - ends[which] + self.counts[which]))
        return found

    def problems(self) -> list[dict[str, Any]]:
        """Return the rows that cannot be read, counted from 1 in each file; with the file if there are several."""
        return [
            {
                **({"file": self.files[part].name} if len(self.files) > 1 else {}),
                **{"row": one.row + 1, "text": one.text, "reason": one.reason},
            }
            for part, rejected in self.rejected().items()
            for one in rejected
        ]

    @contextmanager
    def naming_unreadable(self) -> Iterator[None]:
        """Add to errors of the block how many rows cannot be read, because they may be the reason."""
        try:
            yield
        except InputError as error:
            if not (problems := self.problems()):
                raise
            first = f"row {problems[0]['row']}: {problems[0]['reason']}"
            raise InputError(f"{error} {counted(len(problems), 'row')} cannot be read, first {first}.") from None

    def place(self, row: int) -> int | str:
        """Return the number of a row from 1, with its file if there are several."""
        ends = list(accumulate(self.counts))
        which = bisect_right(ends, row)
        number = row - ends[which] + self.counts[which] + 1
        return number if len(self.files) == 1 else f"{number} of {list(self.files.values())[which].name}"

    def rejected_sentence(self) -> str:
        """Return which rows of which file were rejected and why; empty if there are none."""
        each = (rejected_sentence(some, self.files[part].name) for part, some in self.rejected().items())
        return " ".join(filter(None, each))


def read_rows(
    path: str | Path,
    smiles: str = "smiles",
    needed: Sequence[str] = (),
    val: str | Path | None = None,
    test: str | Path | None = None,
    standardise: str = "none",
) -> FileRows:
    """Read a file, and further files whose rows are OOD validation and OOD test.

    Args:
        path: The file.
        smiles: Column of the SMILES.
        needed: Columns that every file must have.
        val: File of OOD validation rows, if any.
        test: File of OOD test rows, if any.
        standardise: How molecules are standardised.
    """
    files = {part: Path(one) for part, one in (("train", path), ("val", val), ("test", test)) if one}
    parts: list[Collection] = []
    columns: Columns = {}
    start = 0
    for part, file in files.items():
        collection, read = read_collection(file, smiles, standardise)
        check_readable(collection, file)
        for name in needed:
            known_column(name, read, str(file) if name in read else named(file))
        given, first = same_column(smiles, read), same_column(smiles, columns)
        if given and first:  # in training it may have another case
            read[first] = read.pop(given)
        names = read if part == "train" else columns
        for name in names:  # a column that only training has is empty elsewhere
            columns.setdefault(name, []).extend(read.get(name, [None] * collection.count))
        rejected = tuple(replace(one, row=one.row + start) for one in collection.rejected)
        parts.append(replace(collection, rows=collection.rows + start, rejected=rejected))
        start += collection.count
    return FileRows(files, tuple(one.count for one in parts), joined(parts), columns)


@dataclass(frozen=True)
class LabelledFile:
    """The content of a file: graphs, labels and split.

    Attributes:
        rows: The rows.
        smiles: Column of the SMILES.
        labels: Labels of the same rows.
        split: Split of the same rows.
        remarks: How labels and domains were read, one sentence each.
        standardise: How molecules were standardised.
    """

    rows: FileRows
    smiles: str
    labels: Labels
    split: Split
    remarks: tuple[str, ...] = ()
    standardise: str = "none"

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks, and what the rows themselves give cause to say; one sentence each."""
        notes = (conflict_note(self.conflicts), repeat_note(self), fragment_note(self))
        return (*self.remarks, *filter(None, notes))

    @property
    def path(self) -> Path:
        """The file, or that of the training rows."""
        return self.rows.files["train"]

    @property
    def collection(self) -> Collection:
        """Graphs of the rows."""
        return self.rows.collection

    @cached_property
    def twins(self) -> npt.NDArray[np.int64]:
        """A number for each graph (G,), the same for equal molecules or identical graphs."""
        return np.unique(same_graphs(self.collection), return_inverse=True)[1]

    @cached_property
    def conflicts(self) -> list[dict[str, Any]]:
        """Equal molecules (or identical graphs) whose labels differ: rows counted from 1, target and labels.

        Measured values differ if they are more than one standard deviation of their column apart.
        """
        collection, y = self.collection, self.labels.y[self.collection.rows]
        values = (y[:, None] if y.dim() == 1 else y).numpy().astype(np.float64)  # (G, T)
        measured = self.labels.task.measured
        if not measured:
            values[values < 0] = np.nan
        apart = np.nanstd(values, 0) if measured and len(values) else np.zeros(values.shape[1])  # (T,)
        number = self.twins
        low = np.full((number.max(initial=-1) + 1, values.shape[1]), np.inf)
        high = -low
        np.fmin.at(low, number, values)
        np.fmax.at(high, number, values)
        found = []
        for group, target in np.argwhere((low + apart < high) & np.isfinite(low)).tolist():
            places = np.flatnonzero((number == group) & ~np.isnan(values[:, target])).tolist()
            name, classes = list(self.labels.classes.items())[target]
            found.append(
                {
                    "rows": [self.rows.place(int(collection.rows[place])) for place in places],
                    "smiles": None if collection.smiles is None else collection.smiles[places[0]],
                    "target": name,
                    "labels": [
                        f"{values[place, target]:.4g}" if measured else classes[int(values[place, target])]
                        for place in places
                    ],
                }
            )
        return found

    def benchmark(self) -> Benchmark:
        """Return the file as a benchmark."""
        parts = json.dumps([self.split.part.tolist(), self.split.domain.tolist()])
        recipe = {"table": VERSION, "sha256": digest(self.path), "smiles": self.smiles, "target": self.labels.targets}
        recipe |= {f"{part}_sha256": digest(path) for part, path in self.rows.files.items() if part != "train"}
        recipe |= {"rdkit": molecule.RDKIT, "molecule": molecule.VERSION}
        recipe |= {} if self.standardise == "none" else {"standardise": self.standardise}
        recipe |= {"split": hashlib.sha256(parts.encode()).hexdigest()}
        said = self.rows.rejected_sentence() if len(self.rows.files) > 1 else None
        with self.rows.naming_unreadable():
            return assemble(self.collection, self.labels, self.split, self.path.stem, self.split.by, recipe, said)


def load_table(
    path: str | Path,
    smiles: str = "smiles",
    target: str | Sequence[str] = (),
    split: str = "auto",
    seed: int = 0,
    val: str | Path | None = None,
    test: str | Path | None = None,
    standardise: str = "none",
    task: TaskChoice = "auto",
) -> LabelledFile:
    """Read a file, or several, with labels, and split the rows; see `table` for the arguments."""
    targets = (target,) if isinstance(target, str) else target
    check_not_target(split, targets)
    rows = read_rows(path, smiles, targets, val, test, standardise)
    with rows.naming_unreadable():
        labels = read_labels(pick(rows.columns, targets, str(path)), task)
        made, note = rows.split(split, labels.strata, seed)
    read = [one for part, file in rows.files.items() if part != "train" for one in reading_notes(file, smiles)]
    codes = code_note(rows.collection) if rows.collection.molecules is None else ""
    unused = unused_note(rows.columns, targets, split) if len(rows.files) == 1 else ""
    remarks = tuple(filter(None, (*read, codes, *labels.notes, note, unused)))
    return LabelledFile(rows, smiles, labels, made, remarks, standardise)


def assemble(
    collection: Collection,
    labels: Labels,
    split: Split,
    name: str,
    domain: str,
    recipe: Mapping[str, Any],
    rejected: str | None = None,
) -> Benchmark:
    """Return graphs, labels and split as a benchmark; rows without graph, label or split are left out.

    Args:
        collection: Graphs of R rows.
        labels: Labels of the same rows.
        split: Split of the same rows.
        name: Name of the benchmark.
        domain: The attribute that shifts.
        recipe: Everything that decides the graphs. Encodings are cached under it; not if it is empty.
        rejected: Sentence on rejected rows; by default the first rows of the collection.
    """
    if not collection.count == len(labels.y) == len(split):
        counts = f"{collection.count} rows, {len(labels.y)} labels and {len(split)} split entries"
        raise InputError(f"there are {counts}; give equally many of each.")
    (env, num_envs), rows, own = split.envs(), collection.rows, collection.graphs
    fields = {"y": labels.y[rows], "env": env[rows], "domain": split.domain[rows]}
    node = {attribute: value for attribute, value in own.node.items() if attribute != GIVEN}
    graphs = GraphSet(node, own.edge, fields, own.node_ptr, own.edge_ptr)
    splits = {one: graphs.subset(found) for one, found in places_of(split, collection, labels.y).items()}
    check_training_classes(splits["train"].graph["y"], labels)
    left = len(collection) - sum(map(len, splits.values()))
    rejected = rejected_sentence(collection.rejected, "the source") if rejected is None else rejected
    unlabelled = f"{counted(left, 'row')} without a label or domain left out." if left else ""
    return Benchmark(
        name=name,
        domain=domain,
        shift="none" if split.by == "random" else "covariate",
        splits=splits,
        task=labels.task,
        features=_of_training(collection.features, splits["train"]),
        num_envs=max(num_envs, 1),
        notes=" ".join(filter(None, (rejected, unlabelled))),
        recipe=dict(recipe),
        domain_names=split.names,
        split_names=split.part_names,
    )


def code_note(collection: Collection) -> str:
    """Return a sentence if integer features of graphs have so many values that they may be measurements."""
    for name, features in (("x", collection.features.node), ("edge_attr", collection.features.edge)):
        sizes = features.sizes if features.kind == "categorical" else ()
        for column, size in enumerate(sizes):
            if size > MANY_CODES:
                return (
                    f"column {column} of {name} holds integers up to {size - 1}, which are read as categories; "
                    f"if they are measurements, write them with a decimal point ({size - 1}.0)."
                )
    return ""


def conflict_note(conflicts: Sequence[Mapping[str, Any]]) -> str:
    """Return how many molecules have rows with different labels, with the first few; empty if there are none."""
    if not conflicts:
        return ""
    listed = "; ".join(
        f"rows {', '.join(map(str, one['rows'][:LISTED]))}{', ...' * (len(one['rows']) > LISTED)} ({one['target']} = "
        f"{' and '.join(dict.fromkeys(one['labels']))})"
        for one in conflicts[:NAMED]
    )
    rest = f" and {len(conflicts) - NAMED} more" if len(conflicts) > NAMED else ""
    what = counted(len(conflicts), "duplicate")
    return f"{what} with conflicting labels: {listed}{rest}; correct the labels, or leave these rows out."


def repeat_note(table: LabelledFile) -> str:
    """Return how many rows repeat a molecule or graph of another row; empty if none does."""
    repeated = len(table.twins) - len(np.unique(table.twins))
    if not repeated:
        return ""
    what = "graph" if table.collection.molecules is None else "molecule"
    verb = "repeats" if repeated == 1 else "repeat"
    return f"{counted(repeated, 'row')} {verb} the {what} of another row; metrics and calibration count rows."


def fragment_note(table: LabelledFile) -> str:
    """Return how many molecules have several fragments, such as salts; empty if none has, or if they are removed."""
    salts = sum("." in one for one in table.collection.smiles or ())
    if not salts or table.standardise != "none":
        return ""
    verb = "has" if salts == 1 else "have"
    return (
        f"{counted(salts, 'molecule')} {verb} several fragments, such as salts; --standardise parent keeps the largest "
        "of each, so that a salt and its parent are one molecule."
    )


def rejected_sentence(rejected: Sequence[Rejected], where: str) -> str:
    """Return which rows were rejected and why; empty if there are none."""
    if not rejected:
        return ""
    return f"{counted(len(rejected), 'row')} of {where} rejected: {_first(rejected)}."


def check_readable(collection: Collection, path: str | Path) -> None:
    """Raise an error, with the first reasons, if no row of a file is a graph."""
    if collection.rejected and not len(collection):
        raise InputError(
            f"no valid row in {Path(path).name} ({counted(collection.count, 'row')}): "
            f"{_first(collection.rejected)}; correct the rows, or name the column that contains the molecules."
        )


def _first(rejected: Sequence[Rejected]) -> str:
    """Return the first rejected rows with their reasons, and how many more there are."""
    first = "; ".join(f"row {one.row + 1} ({one.text or 'empty'}: {one.reason})" for one in rejected[:LISTED])
    return f"{first} and {len(rejected) - LISTED} more" if len(rejected) > LISTED else first


def _check_digest(path: Path, expected: str, what: str) -> None:
    """Raise an error if a file changed since the settings were made."""
    if expected and path.exists() and digest(path) != expected:
        raise InputError(
            f"{path} has changed since the run started; restore {what}, or start a new run with the same command."
        )


def _of_training(features: FeatureSpec, train: GraphSet) -> FeatureSpec:
    """Return features with as many codes as training has; those of molecules are fixed."""
    if features == FEATURES:
        return features
    edge = features.edge if "attr" not in train.edge else _seen(features.edge, train.edge["attr"])
    return replace(features, node=_seen(features.node, train.node["x"]), edge=edge)


def _seen(features: Features, codes: Tensor) -> Features:
    """Return codes up to the largest that occurs; models treat larger ones like the last."""
    if features.kind != "categorical" or not len(codes):
        return features
    return Features.categorical(*(code + 1 for code in codes.amax(0).tolist()))
