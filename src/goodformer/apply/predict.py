"""Predict every row of a user's file, block by block."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from goodformer.apply.part import Part
from goodformer.data.digest import digest
from goodformer.data.molecule import RDKIT, VERSION
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.rows import Block, RowWriter, check_apart, read_blocks, reading_notes
from goodformer.data.readers.source import form_of
from goodformer.errors import InputError
from goodformer.fitted import FittedModel, Predictions

BLOCK = 1024
"""Rows that are read, predicted and written at a time."""
LISTED = 20
"""Unreadable rows that a report lists."""
PROBLEM, STANDARDISED = "problem", "standardised"
LINE = re.compile(r"\bline \d+\b")
"""Occurs in the reason if a line of JSON is a graph but does not fit the model."""
OLD_READER = (
    "the model was fitted before chirality was read as R and S; fit it again if its molecules have stereo centres."
)
Columns = dict[str, list[Any]]
Watch = Callable[[int], None]
"""Called with the number of finished rows."""


def predict_file(
    model: FittedModel,
    path: str | Path,
    out: str | Path,
    level: float | None = None,
    smiles: str | None = None,
    size: int = BLOCK,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Predict every row of a file and write the rows with their predictions into another file.

    Rows keep their order and all their columns. A row that cannot be read has empty predictions and the reason in the
    column ``problem``. Rows pass through in blocks, so a file may be larger than memory. ``out`` appears when all rows
    are written; until then they are in ``out`` with ``.part`` added, which the same call continues after a stop.

    Args:
        model: A fitted model.
        path: Rows to predict, see `goodformer.data.readers.rows.read_blocks`.
        out: Where to write them; the extension sets the format (csv, tsv, parquet, json, jsonl).
        level: Level of conformal sets, for example 0.9; no sets by default.
        smiles: Column of the SMILES; by default that of the training file.
        size: Rows per block; it does not change the predictions.
        watch: Called with the number of finished rows.

    Returns:
        Counts of rows, of unreadable rows with the first reasons, and of rows outside the domain; ``continued``, the
        rows of an earlier call; ``rows_per_second``; ``failure`` holds one sentence if no row could be read.
    """
    if Path(out).is_dir():
        raise InputError(f"{out} is a folder; name a file for the answers, for example {Path(out) / 'answers.csv'}.")
    check_apart(path, out, "answers")
    start = time.perf_counter()
    with Part(out, _same(model, path, level, smiles, size)) as part, Answers(model, out, level, part) as answers:
        continued = answers.rows
        if watch and continued:
            watch(continued)
        for block in model_blocks(model, path, smiles, size, continued):
            found = block.collection.graphs
            answers.write(block, model.predict(found) if len(found) else None)
            if watch:
                watch(answers.rows)
        if not answers.rows:
            raise InputError(f"{path} has no rows; give at least one to predict.")
    report, failure = answers.report(), None
    seconds = time.perf_counter() - start
    report |= {"continued": continued, "rows_per_second": round((answers.rows - continued) / max(seconds, 1e-9), 1)}
    if report["unreadable"] == report["rows"]:
        reason = str(report["problems"][0]["reason"]).rstrip(".")
        if form_of(path) == ".jsonl" and model.molecular and LINE.search(reason):
            reason = f"{path} contains graphs, but the model was trained on molecules; give SMILES or an SDF file"
        failure = f"no row could be read: {reason}."
    return {**report, "failure": failure, "notes": notes_on(model, path, smiles), "out": str(out)}


def _same(model: FittedModel, path: str | Path, level: float | None, smiles: str | None, size: int) -> dict[str, Any]:
    """Return what decides the answers: a call with the same continues a stopped one."""
    place = Path(path)
    facts = place.stat() if place.exists() else None
    file = [digest(place)] if place.is_dir() else [facts and facts.st_size, facts and facts.st_mtime_ns]
    return {
        "molecules": [VERSION, RDKIT],
        "weights": model.file.sha256 or secrets.token_hex(),  # a model that is not saved is not known again
        "reading": [smiles or model.smiles, model.standardise, model.reader],
        "classes": model.classes,
        "input": [str(place.resolve()), *file],
        "level": level,
        "block": size,
    }


class Answers:
    """A table of rows with their predictions, written block by block.

    Args:
        model: A fitted model.
        path: The file to write; the first block decides its columns.
        level: Level of conformal sets; no sets by default.
        part: Where rows are written until all are there; by default a file that an interrupted call does not leave.

    Attributes:
        rows: Rows written so far.
    """

    def __init__(
        self, model: FittedModel, path: str | Path, level: float | None = None, part: Part | None = None
    ) -> None:
        self.model, self.path, self.level, self.part = model, path, level, part
        earlier = {} if part is None else part.notes
        self.rows, self.outside = 0 if part is None else part.rows, int(earlier.get("outside", 0))
        self.unreadable = int(earlier.get("unreadable", 0))
        self.problems: list[dict[str, Any]] = list(earlier.get("problems", ()))
        self._files = ExitStack()
        self._writer: RowWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._files.__exit__(*error)

    def write(self, block: Block, answer: Predictions | None) -> None:
        """Add the rows of a block; ``answer`` is None if none of them can be read."""
        collection = block.collection
        columns = block_answers(self.model, block, answer, self.level)
        self.outside += sum(value is True for value in columns.get("outside", []))
        names = fresh_names(list(columns), block.columns)
        table = {**block.columns, **dict(zip(names, columns.values(), strict=True))}
        self.rows += collection.count
        self.unreadable += len(collection.rejected)
        self.problems = [*self.problems, *problems_of(collection)][:LISTED]
        if self.part is not None:
            notes = {"outside": self.outside, "unreadable": self.unreadable, "problems": self.problems}
            self.part.write(table, notes)
            return
        if self._writer is None:
            self._writer = self._files.enter_context(RowWriter(self.path, list(table)))
        self._writer.write(table)

    def report(self) -> dict[str, Any]:
        """Return counts of rows, of unreadable rows, and of rows outside the domain (None without uncertainty)."""
        return {
            "rows": self.rows,
            "unreadable": self.unreadable,
            "problems": self.problems,
            "outside": None if self.model.uncertainty is None else self.outside,
        }


def block_answers(model: FittedModel, block: Block, answer: Predictions | None, level: float | None = None) -> Columns:
    """Return the answer columns for all rows of a block, with None in rows that cannot be read.

    Args:
        model: A fitted model.
        block: The rows.
        answer: Predictions for the graphs of the block; None if it has none.
        level: Level of conformal sets; no sets by default.
    """
    collection = block.collection
    places = [int(row) - block.first for row in collection.rows]
    columns: Columns = {}
    for name, values in answer_columns(model, answer, level).items():
        columns[name] = [None] * collection.count
        for place, value in zip(places, values, strict=True):
            columns[name][place] = value
    if model.standardise != "none":
        columns[STANDARDISED] = [None] * collection.count
        for place, text in zip(places, collection.smiles or (), strict=True):
            columns[STANDARDISED][place] = text
    columns[PROBLEM] = [None] * collection.count
    for rejected in collection.rejected:
        columns[PROBLEM][rejected.row - block.first] = rejected.reason
    return columns


def answer_columns(model: FittedModel, answer: Predictions | None, level: float | None = None) -> Columns:
    """Return class, probabilities, domain score, spread and conformal set, one value per graph; None has no graphs."""
    several = model.task.kind == "binary" and model.task.outputs > 1
    if answer is None:
        none = torch.zeros(0, model.task.outputs)
        codes = none.argmax(-1) if model.task.kind == "multiclass" else none.long()
        answer = Predictions(none, none, codes, None, spread=none[:, 0] if model.members > 1 else None)
        if model.uncertainty:
            answer = replace(answer, calibrated=none, domain_score=none[:, 0], outside=none[:, 0].bool())
    shares, columns = answer.best_probabilities, {}  # (B, C)
    if several:
        for place, (target, names) in enumerate(model.classes.items()):
            columns[f"{target}_predicted"] = [names[code] for code in answer.classes[:, place].tolist()]
            columns[f"{target}_p_{names[1]}"] = _rounded(shares[:, place])
    else:
        (names,) = model.classes.values()
        shares = torch.cat((1 - shares, shares), 1) if model.task.kind == "binary" else shares
        columns["predicted"] = [names[code] for code in answer.classes.flatten().tolist()]
        columns |= {f"p_{name}": _rounded(shares[:, place]) for place, name in enumerate(names)}
    if answer.domain_score is not None and answer.outside is not None:
        columns["domain_score"] = _rounded(answer.domain_score)
        columns["outside"] = answer.outside.tolist()
    if answer.spread is not None:
        columns["spread"] = _rounded(answer.spread)
    if level is None:
        return columns
    if model.uncertainty is None:
        raise InputError("this model has no conformal sets; fit it with goodformer fit, or leave --sets out.")
    if several:
        raise InputError("conformal sets need a model with one target; this one has several. Leave --sets out.")
    inside = model.uncertainty.sets(answer.logits, level)  # (B, C), or (B, 1, 2) for a binary target
    rows = inside.reshape(len(answer), len(names)).tolist()
    columns["set"] = ["|".join(name for name, held in zip(names, row, strict=True) if held) for row in rows]
    return columns


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.double().tolist()]


def model_blocks(model: FittedModel, path: str | Path, smiles: str | None, size: int, skip: int = 0) -> Iterator[Block]:
    """Return the rows of a file as the model reads them, after the first ``skip`` ones."""
    return read_blocks(path, smiles or model.smiles or "smiles", size, model.features, model.standardise, skip)


def notes_on(model: FittedModel, path: str | Path, smiles: str | None = None) -> list[str]:
    """Return sentences on how a file was read and on limits of the model's uncertainty."""
    read = reading_notes(path, smiles or model.smiles or "smiles")
    old = model.molecular and model.uncertainty is not None and model.reader < 2
    return [*read, *([OLD_READER] if old else []), *(model.uncertainty.notes if model.uncertainty else ())]


def problems_of(collection: Collection) -> list[dict[str, Any]]:
    """Return the rows that cannot be read, counted from 1."""
    return [{"row": one.row + 1, "text": one.text, "reason": one.reason} for one in collection.rejected]


def fresh_names(wanted: Sequence[str], taken: Sequence[str] | dict[str, Any]) -> list[str]:
    """Return names for new columns; all get a prefix, repeatedly, while one of them is taken by an input column."""
    names = list(wanted)
    while set(taken) & set(names):
        names = [f"goodformer_{name}" for name in names]
    return names
