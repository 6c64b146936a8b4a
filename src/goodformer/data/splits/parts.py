"""The graphs of each part of a split, and checks of them: missing classes, too few rows.

Letters: G graphs, T targets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.data.readers.collection import Collection
from goodformer.data.readers.labels import Labels, check_varies, labelled
from goodformer.data.readers.values import counted
from goodformer.data.splits.split import Split
from goodformer.errors import InputError
from goodformer.spec import SPLITS

LEAST = 10
"""Number of rows below which metrics are unreliable."""


def places_of(split: Split, collection: Collection, y: Tensor | None = None) -> dict[str, Tensor]:
    """Return the places in a collection of the graphs of each part; graphs without any label are in no part.

    Args:
        split: Split of the rows of the source.
        collection: The graphs.
        y: Labels of the rows of the source, if known.
    """
    part = split.part[collection.rows]  # (G,)
    if y is not None:
        part = torch.where(labelled(y[collection.rows]), part, -1)
    return {name: (part == number).nonzero().flatten() for number, name in enumerate(SPLITS)}


def check_training_classes(y: Tensor, labels: Labels) -> None:
    """Raise an error if the training graphs lack a class.

    Args:
        y: Labels of the training graphs, (G,) or (G, T).
        labels: Names of targets and classes.
    """
    for target, names, codes in _targets(y, labels):
        if labels.task.measured:
            check_varies(codes, target)
        missing = [name for code, name in enumerate(names) if not bool((codes == code).any())]
        if missing:
            raise InputError(
                f"training has no row with {target} = {missing[0]!r}; choose another split, or add such rows."
            )


def weak_parts(split: Split, collection: Collection, labels: Labels | None = None) -> str:
    """Return a warning about parts that are too small or have a single class; empty if there are none."""
    y = None if labels is None else labels.y
    weak = []
    for name, places in places_of(split, collection, y).items():
        facts = [f"only {counted(len(places), 'row')}" if len(places) else "no rows"] if len(places) < LEAST else []
        for target, names, codes in _targets(labels.y[collection.rows[places]], labels) if labels else ():
            present = [value for code, value in enumerate(names) if bool((codes == code).any())]
            if labels is not None and labels.task.measured:
                facts += [] if bool((~codes.isnan()).any()) or not len(places) else [f"no value of {target}"]
            elif len(places) > 1 and len(present) < 2:
                facts.append(f"only {target} = {present[0]!r}" if present else f"no label of {target}")
        if facts:
            weak.append(f"{split.part_names[name]} has {' and '.join(facts)}")
    those = "it" if len(weak) == 1 else "them"
    return f"{', '.join(weak)}: metrics on {those} are unreliable; add rows, or choose another split." if weak else ""


def _targets(y: Tensor, labels: Labels) -> list[tuple[str, tuple[str, ...], Tensor]]:
    """Return name, classes and codes (G,) of each target."""
    columns = y[:, None] if y.dim() == 1 else y  # (G, T)
    return [(target, names, columns[:, place]) for place, (target, names) in enumerate(labels.classes.items())]
