"""Split a user's file so that whole domains are held out for testing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.data.benchmarks.table import read_rows
from goodformer.data.digest import FILE
from goodformer.data.readers.collection import pick
from goodformer.data.readers.labels import TaskChoice, read_labels
from goodformer.data.readers.rows import reading_notes
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.parts import weak_parts
from goodformer.data.splits.splitters import check_not_target
from goodformer.data.splits.twins import row_keys


def split_file(
    path: str | Path,
    smiles: str,
    target: Sequence[str],
    how: str,
    seed: int,
    out: str | Path,
    picture: str | Path | None = None,
    val: str | Path | None = None,
    test: str | Path | None = None,
    standardise: str = "none",
    task: TaskChoice = "auto",
) -> dict[str, Any]:
    """Split the rows of a file, save the split, and report how far the training and test rows differ.

    Args:
        path: The file.
        smiles: Column of the SMILES.
        target: Columns of the labels; empty if classes do not matter.
        how: See `goodformer.data.splits.splitters.make_split`.
        seed: Seed of random choices.
        out: Where to save the split.
        picture: Where to draw it, if anywhere.
        val: File of OOD validation rows, if any.
        test: File of OOD test rows, if any.
        standardise: How molecules are standardised, see `goodformer.data.molecule.STANDARDS`.
        task: What the targets are; ``auto`` decides by their values.

    Returns:
        The report of `goodformer.data.splits.distance.distance_report` with file names and unreadable rows.
    """
    inputs = [path, *(one for one in (val, test) if one), *([how.removeprefix(FILE)] if how.startswith(FILE) else [])]
    files.check_output(out, "parts of the split", *inputs)
    if picture is not None:
        files.check_output(picture, "pictures", *inputs)
    check_not_target(how, target)
    rows = read_rows(path, smiles, target, val, test, standardise)
    collection = rows.collection
    labels = read_labels(pick(rows.columns, target, str(path)), task) if target else None
    y = None if labels is None else labels.y
    split, note = rows.split(how, None if labels is None else labels.strata, seed)
    notes = (
        *reading_notes(path, smiles),
        *(labels.notes if labels else ()),
        note,
        weak_parts(split, collection, labels),
    )
    report = {
        "file": Path(path).name,
        "files": [list(one) for one in split.files],
        **distance_report(split, collection, y, seed),
        "class_names": None if labels is None else dict(labels.classes),
        "notes": [note for note in notes if note],
        "rejected": rows.problems(),
        "rejected_sentence": rows.rejected_sentence(),
        "split": str(out),
        "picture": None if picture is None else str(picture),
    }
    if picture is not None:
        from goodformer.draw.splits import draw_split  # loads Matplotlib

        draw_split(split, picture)
    replace(split, keys=row_keys(collection)).save(out)
    return report
