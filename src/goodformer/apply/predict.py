"""A table of answers beside a table of molecules or graphs, however long it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from goodformer.apply.trained import Trained, fresh_names
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.rows import Block, RowWriter, check_apart, read_blocks, separator_note
from goodformer.fitted import FittedModel, Predictions
from goodformer.registry import InputError

BLOCK = 1024
"""Rows read, predicted and written at a time."""
LISTED = 20
"""Unreadable rows a report names."""
PROBLEM = "problem"
LINE = re.compile(r"\bline \d+\b")
"""What the reason names where a line of JSON is a graph, but none that the model reads."""
Columns = dict[str, list[Any]]
Watch = Callable[[int], None]
"""Told how many rows are done."""


def predict_file(
    model: Trained,
    path: str | Path,
    out: str | Path,
    level: float | None = None,
    smiles: str | None = None,
    size: int = BLOCK,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Predict every row of a file and write it, with its answers, into another.

    The order of rows and all their columns are kept. A row that cannot be read has empty answers and says why in the
    column ``problem``. Rows pass through in blocks, so a file may be larger than memory, and nothing is at ``out``
    before the last of them is written.

    Args:
        model: What predicts.
        path: Rows to predict, see `goodformer.data.readers.rows.read_blocks`.
        out: Where to write them; the suffix says how (csv, tsv, parquet, json, jsonl).
        level: Share of conformal sets that should hold the truth, 0.9 for example; no sets where not given.
        smiles: Column of the SMILES; that of the training file where not given.
        size: Rows of a block; changes no answer.
        watch: Told how many rows are done.

    Returns:
        Counts of rows, of unreadable ones with the first reasons, and of those outside the domain; under ``failure``
        one sentence where no row at all could be read.
    """
    _check_out(Path(path), Path(out))
    with Answers(model, out, level) as answers:
        for block in model_blocks(model, path, smiles, size):
            answers.write(block, said_of(model, block.collection))
            if watch:
                watch(answers.rows)
        if not answers.rows:
            raise InputError(f"{path} holds no row; give at least one to predict.")
    notes = notes_on(path, smiles_column(model, smiles), model.predictor)
    report = answers.report()
    return {**report, "failure": _failure(model, Path(path), report), "notes": notes, "out": str(out)}


def _failure(model: Trained, path: Path, report: dict[str, Any]) -> str | None:
    """Why there is not a single answer; None where there is one."""
    if report["unreadable"] < report["rows"]:
        return None
    first = str(report["problems"][0]["reason"]).rstrip(".")
    if path.suffix.lower() == ".jsonl" and model.predictor.file.features == FEATURES and LINE.search(first):
        return f"no row could be read: {path} holds graphs, and this is a model of molecules; give it SMILES or an SDF."
    return f"no row could be read: {first}."


def _check_out(path: Path, out: Path) -> None:
    """Refuse to write answers over the rows they are about, or to what is no file."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file for the answers, for example {out / 'answers.csv'}.")
    check_apart(path, out, "answers")


class Answers:
    """A table of rows with their answers, written block by block, and what there is to say of it.

    Args:
        model: What predicts.
        path: The table; the first block tells its columns.
        level: That of conformal sets; none where not given.

    Attributes:
        rows: How many are written.
    """

    def __init__(self, model: Trained, path: str | Path, level: float | None = None) -> None:
        self.model, self.path, self.level = model, path, level
        self.rows, self.unusual = 0, 0
        self.problems: list[dict[str, Any]] = []
        self._files = ExitStack()
        self._writer: RowWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._files.__exit__(*error)

    def write(self, block: Block, said: Predictions | None) -> None:
        """Add the rows of a block."""
        answers = answer_block(self.model, block, said, self.level)
        names = fresh_names(list(answers), block.columns)
        if self._writer is None:
            self._writer = self._files.enter_context(RowWriter(self.path, [*block.columns, *names]))
        self._writer.write({**block.columns, **dict(zip(names, answers.values(), strict=True))})
        self.rows += block.collection.count
        self.unusual += sum(value is True for value in answers.get("outside", []))
        self.problems += problems_of(block.collection)

    def report(self) -> dict[str, Any]:
        """Counts of rows, of unreadable ones, and of those outside the domain; None where nobody can tell."""
        sureness = self.model.predictor.sureness
        return {
            "rows": self.rows,
            "unreadable": len(self.problems),
            "problems": self.problems[:LISTED],
            "outside": None if sureness is None else self.unusual,
        }


def model_blocks(model: Trained, path: str | Path, smiles: str | None, size: int) -> Iterator[Block]:
    """The rows of a file as the model reads them."""
    return read_blocks(path, smiles_column(model, smiles), size, model.predictor.file.features)


def smiles_column(model: Trained, given: str | None) -> str:
    """The column of the SMILES: the one given, or that of the training file."""
    return given or model.meaning.smiles or "smiles"


def notes_on(path: str | Path, smiles: str, predictor: FittedModel) -> list[str]:
    """What a user should know of how a file was read and of how sure answers can be, a sentence each."""
    read = separator_note(path, smiles)
    return [*([read] if read else []), *(predictor.sureness.notes if predictor.sureness else ())]


def said_of(model: Trained, collection: Collection) -> Predictions | None:
    """What is predicted of a collection's graphs; None where none of its rows can be read."""
    return model.predictor.predict(collection.graphs) if len(collection.graphs) else None


def answer_block(model: Trained, block: Block, said: Predictions | None, level: float | None = None) -> Columns:
    """Columns of answers for the rows of a block; empty where a row cannot be read."""
    collection = block.collection
    places = [int(row) - block.first for row in collection.rows]
    answers: Columns = empty_answers(model, level) if said is None else answer(model, said, level)
    columns: Columns = {name: _spread(values, places, collection.count) for name, values in answers.items()}
    columns[PROBLEM] = [None] * collection.count
    for rejected in collection.rejected:
        columns[PROBLEM][rejected.row - block.first] = rejected.reason
    return columns


def answer(model: Trained, said: Predictions, level: float | None = None) -> Columns:
    """What the model says of each graph: class, calibrated probabilities, domain score, conformal set."""
    columns = predicted_columns(model, said)
    if said.domain_score is not None and said.outside is not None:
        columns["domain_score"] = _rounded(said.domain_score)
        columns["outside"] = said.outside.tolist()
    if level is not None:
        columns["set"] = _sets(model, said.logits, level)
    return columns


def predicted_columns(model: Trained, said: Predictions) -> Columns:
    """The predicted class and the probability of every class, or of every binary target."""
    shares = said.probabilities if said.calibrated is None else said.calibrated  # (B, C)
    meaning, task = model.meaning, model.predictor.file.task
    if task.kind == "binary" and task.outputs > 1:
        return _many_targets(model, said.classes, shares)
    if task.kind == "binary":
        shares = torch.cat((1 - shares, shares), 1)  # (B, 2)
    (names,) = meaning.classes.values()
    columns: Columns = {"predicted": [names[code] for code in said.classes.flatten().tolist()]}
    columns |= {f"p_{name}": _rounded(shares[:, place]) for place, name in enumerate(names)}
    return columns


def _many_targets(model: Trained, classes: Tensor, shares: Tensor) -> Columns:
    """Class of each of several binary targets, and the probability of the second of its two."""
    columns: Columns = {}
    for place, (target, names) in enumerate(model.meaning.classes.items()):
        columns[f"{target}_predicted"] = [names[code] for code in classes[:, place].tolist()]
        columns[f"{target}_p_{names[1]}"] = _rounded(shares[:, place])
    return columns


def _sets(model: Trained, logits: Tensor, level: float) -> list[str]:
    """The names of the classes in each conformal set, separated by ``|``."""
    sureness, meaning, task = model.predictor.sureness, model.meaning, model.predictor.file.task
    if sureness is None:
        raise InputError("the model knows no conformal sets; fit it by goodformer fit, or leave --sets out.")
    if task.kind == "binary" and task.outputs > 1:
        raise InputError("conformal sets are for one target; this model predicts several, leave --sets out.")
    chosen = sureness.sets(logits, level)  # (B, C), or (B, 1, 2) for a binary target
    rows, (names,) = chosen.reshape(len(logits), -1).tolist(), meaning.classes.values()
    return ["|".join(name for name, inside in zip(names, row, strict=True) if inside) for row in rows]


def empty_answers(model: Trained, level: float | None) -> Columns:
    """The columns of `answer` without a row, for a block of which nothing can be read."""
    meaning, task = model.meaning, model.predictor.file.task
    if task.kind == "binary" and task.outputs > 1:
        pairs = meaning.classes.items()
        names = [f"{target}_{part}" for target, pair in pairs for part in ("predicted", f"p_{pair[1]}")]
    else:
        names = ["predicted", *(f"p_{name}" for pair in meaning.classes.values() for name in pair)]
    names += ["domain_score", "outside"] if model.predictor.sureness is not None else []
    return {name: [] for name in (*names, *(["set"] if level is not None else []))}


def _spread(values: list[Any], places: list[int], count: int) -> list[Any]:
    """Values at their places among ``count`` rows, None elsewhere."""
    column: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        column[place] = value
    return column


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.double().tolist()]


def problems_of(collection: Collection) -> list[dict[str, Any]]:
    """Rows that cannot be read, counted from 1 as people do."""
    return [{"row": one.row + 1, "text": one.text, "reason": one.reason} for one in collection.rejected]
