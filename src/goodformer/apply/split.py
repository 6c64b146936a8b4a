"""A user's own file, split so that whole domains are kept for testing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goodformer.data.benchmarks.table import check_readable, rejected_sentence
from goodformer.data.readers.collection import pick
from goodformer.data.readers.labels import read_labels
from goodformer.data.readers.rows import check_apart, read_collection, separator_note
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.parts import weak_parts
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import check_not_target, make_split, split_note


def split_file(
    path: str | Path,
    smiles: str,
    target: Sequence[str],
    how: str,
    seed: int,
    out: str | Path,
    picture: str | Path | None = None,
) -> dict[str, Any]:
    """Split the rows of a file, save the split, and say how far its parts lie apart.

    Args:
        path: The file.
        smiles: Column that holds SMILES.
        target: Columns of the labels; none where classes do not matter.
        how: See `goodformer.data.splits.splitters.make_split`.
        seed: Decides what is drawn.
        out: Where the split is saved.
        picture: Where it is drawn, if it is wanted.

    Returns:
        The report of `goodformer.data.splits.distance.distance_report` with file names and rejected rows.
    """
    check_apart(path, out, "parts of the split")
    if picture is not None:
        check_apart(path, picture, "bars of the picture")
    check_not_target(how, target)
    collection, columns = read_collection(path, smiles)
    check_readable(collection, path)
    labels = read_labels(pick(columns, target, str(path))) if target else None
    y = None if labels is None else labels.y
    split = make_split(how, collection, columns, y, seed)
    report = {"file": Path(path).name, **distance_report(split, collection, y, seed)}
    report["class_names"] = None if labels is None else dict(labels.classes)
    read = (*(labels.notes if labels else ()), split_note(how, collection, columns))
    notes = (separator_note(path, smiles), *read, weak_parts(split, collection, labels))
    report["notes"] = [note for note in notes if note]
    report["rejected"] = [{"row": one.row + 1, "text": one.text, "reason": one.reason} for one in collection.rejected]
    report["rejected_sentence"] = rejected_sentence(collection.rejected, Path(path).name)
    drawn = None if picture is None else str(_drawn(split, picture))
    split.save(out)
    return {**report, "split": str(out), "picture": drawn}


def _drawn(split: Split, path: str | Path) -> Path:
    """The picture of a split."""
    from goodformer.draw.splits import draw_split  # loads Matplotlib, for pictures alone

    return draw_split(split, path)
