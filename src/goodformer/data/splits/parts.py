"""Checks of the parts of a split: classes missing from training, parts too small for metrics.

Letters: G graphs, T targets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.data.readers.collection import Collection
from goodformer.data.readers.labels import Labels, labelled
from goodformer.data.splits.split import Split
from goodformer.registry import InputError
from goodformer.spec import SPLIT_NAMES, SPLITS

LEAST = 10
"""Number of rows below which metrics are unreliable."""


def check_taught(y: Tensor, labels: Labels) -> None:
    """Raise an error if the training graphs lack a class.

    Args:
        y: Labels of the training graphs, (G,) or (G, T).
        labels: Names of targets and classes.
    """
    for target, names, codes in _targets(y, labels):
        missing = [name for code, name in enumerate(names) if not bool((codes == code).any())]
        if missing:
            raise InputError(
                f"training has no row with {target} = {missing[0]!r}; choose another split, or add such rows."
            )


def weak_parts(split: Split, collection: Collection, labels: Labels | None = None) -> str:
    """Return a warning about parts that are too small or have a single class; empty if there are none."""
    part = split.part[collection.rows]  # (G,)
    y = None if labels is None else labels.y[collection.rows]
    if y is not None:
        part = torch.where(labelled(y), part, torch.full_like(part, -1))
    found = {name: (part == number).nonzero().flatten() for number, name in enumerate(SPLITS)}
    facts = {name: _weakness(places, y, labels) for name, places in found.items()}
    weak = [f"{SPLIT_NAMES[name]} ({', '.join(words)})" for name, words in facts.items() if words]
    return f"metrics are unreliable on {', '.join(weak)}; add rows, or choose another split." if weak else ""


def _weakness(places: Tensor, y: Tensor | None, labels: Labels | None) -> list[str]:
    """Return why metrics on a part are unreliable: too few rows, or rows of one class only."""
    if len(places) < 2:
        return ["1 row" if len(places) else "no row"]
    words = [f"{len(places)} rows"] if len(places) < LEAST else []
    if y is None or labels is None:
        return words
    several = len(labels.targets) > 1
    for target, names, codes in _targets(y[places], labels):
        present = [name for code, name in enumerate(names) if bool((codes == code).any())]
        if len(present) < 2:
            words.append(f"only {present[0] if present else 'missing labels'}{f' of {target}' if several else ''}")
    return words


def _targets(y: Tensor, labels: Labels) -> list[tuple[str, tuple[str, ...], Tensor]]:
    """Return name, classes and codes (G,) of each target."""
    columns = y[:, None] if y.dim() == 1 else y  # (G, T)
    return [(target, names, columns[:, place]) for place, (target, names) in enumerate(labels.classes.items())]
