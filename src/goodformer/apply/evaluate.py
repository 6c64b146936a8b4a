"""How good a fitted model is on a file of rows whose labels are known by now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from goodformer.apply.predict import BLOCK, LISTED, model_blocks, notes_on, problems_of
from goodformer.data.readers.collection import known_column
from goodformer.data.readers.labels import labelled, read_known
from goodformer.data.readers.rows import Block
from goodformer.data.readers.values import counted
from goodformer.engine.bootstrap import FEWEST, metrics
from goodformer.errors import InputError
from goodformer.fitted import FittedModel, Predictions
from goodformer.uncertainty.calibration import measures

ALL, INSIDE, OUTSIDE = "all rows", "inside the domain", "outside the domain"


def evaluate_file(
    model: FittedModel,
    path: str | Path,
    smiles: str | None = None,
    size: int = BLOCK,
    watch: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Predict the rows of a file and compare the predictions with the file's own labels.

    Args:
        model: A fitted model.
        path: Rows with the columns that the model predicts; rows without a label do not count.
        smiles: Column of the SMILES; by default that of the training file.
        size: Rows per block; it does not change the metrics.
        watch: Called with the number of finished rows.

    Returns:
        Counts of rows; ``training_rows``, how many labelled rows equal a training row, None if that is not known; and
        for all rows and those inside and outside the domain: their number, the metrics with 95 % bootstrap intervals,
        and the coverage of conformal sets or intervals.
    """
    answers: list[Predictions] = []
    columns: dict[str, list[Any]] = {name: [] for name in model.classes}
    problems: list[dict[str, Any]] = []
    seen: list[Tensor | None] = []
    rows = 0
    for block in model_blocks(model, path, smiles, size):
        if len(block.collection.graphs):
            for name, entries in _entries(model, block, path).items():
                columns[name] += entries
            answers.append(model.predict(block.collection.graphs, scores=False))
            seen.append(model.in_training(block.collection))
        rows += block.collection.count
        problems += problems_of(block.collection)
        if watch:
            watch(rows)
    if not answers:
        raise InputError(f"{path} has no row that can be read; give rows with labels.")
    y, answer = read_known(columns, model.classes), Predictions.concat(answers)
    known = labelled(y)
    if not bool(known.any()):
        raise InputError(f"{path} has no label in {', '.join(model.classes)}; use goodformer predict, or fill them in.")
    flags = [one for one in seen if one is not None]
    trained = int((torch.cat(flags) & known).sum()) if len(flags) == len(seen) else None
    chosen = {ALL: known}
    if answer.outside is not None:
        chosen |= {INSIDE: known & ~answer.outside, OUTSIDE: known & answer.outside}
    return {
        "file": str(path),
        "rows": rows,
        "unreadable": len(problems),
        "problems": problems[:LISTED],
        "labelled": int(known.sum()),
        "training_rows": trained,
        "metric": model.task.metric,
        "parts": {name: _part(model, answer, y, which) for name, which in chosen.items()},
        "notes": [*notes_on(model, path, smiles), *_trained_note(model, trained or 0, int(known.sum()))],
    }


def _entries(model: FittedModel, block: Block, path: str | Path) -> dict[str, list[Any]]:
    """Return the entries of the readable rows of a block in the column of each target."""
    otherwise = "; the model predicts this column: name the labels so, or use goodformer predict"
    for name in model.classes:
        if name not in block.columns:
            known_column(name, block.columns, str(path), otherwise=otherwise)
    places = [int(row) - block.first for row in block.collection.rows]
    return {name: [block.columns[name][at] for at in places] for name in model.classes}


def _trained_note(model: FittedModel, trained: int, labelled: int) -> list[str]:
    """Return a sentence if rows equal training rows: a model answers them better than new ones."""
    if not trained or model.training is None:
        return []
    what = "molecules" if model.molecular else "graphs"
    least = "at least " if len(model.training) < model.training.total else ""  # a sample of them is stored
    return [
        f"the model was trained on {least}{trained:,} of {counted(labelled, 'labelled row')} (equal {what}): "
        "metrics on them are too good; evaluate rows that the model has not seen."
    ]


def _part(model: FittedModel, answer: Predictions, y: Tensor, which: Tensor) -> dict[str, Any]:
    """Return the metrics of some rows; none for few rows."""
    places = which.nonzero().flatten().tolist()
    if len(places) < FEWEST:
        return {"rows": len(places), "metrics": [], "calibration": {}, "coverage": []}
    some, labels, known = answer.subset(places), y[places], model.uncertainty
    return {
        "rows": len(places),
        "metrics": metrics(model.task, list(model.classes), labels.numpy(), some.judged, some.classes.numpy()),
        "calibration": {} if model.task.measured else _calibration(model, some, labels),
        "coverage": [] if known is None else known.coverages(some.logits, some.hardness, labels),
    }


def _calibration(model: FittedModel, answer: Predictions, y: Tensor) -> dict[str, float | None]:
    """Return log loss, expected calibration error and Brier score of the probabilities."""
    scaled = answer.logits if model.uncertainty is None else model.uncertainty.scaling(answer.logits)
    return measures(model.task, scaled, y[:, 0].long() if model.task.kind == "multiclass" else y)
