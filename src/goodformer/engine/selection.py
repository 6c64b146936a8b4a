"""Selection of the reported epoch, and early stopping.

Both are pure functions of the epochs' records, so a resumed run decides like an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from goodformer.errors import check_name
from goodformer.spec import PERFECT, SPLIT_NAMES, worth

RULES: dict[str, str | None] = {"ood_val": "val", "id_val": "id_val", "last": None}
"""The split whose metric selects the epoch under each rule; ``last`` uses none."""

SUMMARY_NAMES = {"id_val": "id_val", "id_test": "id_test", "ood_val": "val", "ood_test": "test"}
"""The names of splits in summaries, and the keys of these splits."""

SMALL_LOSS = 0.05
"""A loss in nats below which a perfect metric needs no further training: right classes have 95 % on average."""


def describe_selection(
    rule: str, splits: Mapping[str, Mapping[str, Any]], metric: str, names: Mapping[str, str] = SPLIT_NAMES
) -> str:
    """Return in words how an epoch was selected, given the metrics of its splits and their names.

    The loss decides where the metric is undefined, for example ROC-AUC with a single class.
    """
    split = RULES[rule]
    if split is None:
        return "the last epoch"
    return f"{'lowest loss' if splits[split].get(metric) is None else 'best'} on {names[split]}"


def select_epoch(epochs: Sequence[dict[str, Any]], rule: str, metric: str) -> int:
    """Return the index of the selected epoch: best metric first, then lowest loss, then the earliest.

    A missing metric never wins. The loss breaks ties: ROC-AUC is 1 as soon as the order is right, long before the
    probabilities are good.

    Args:
        epochs: Records of the epochs so far, at least one.
        rule: ``ood_val``, ``id_val`` or ``last``.
        metric: The name under which a split's record holds its score.
    """
    scores = _scores(epochs, rule, metric)
    return scores.index(max(scores))


def _scores(epochs: Sequence[dict[str, Any]], rule: str, metric: str) -> list[tuple[float, float]]:
    """Return the worth of each epoch's metric and of its loss; under the rule ``last``, every epoch is better."""
    check_name("selection rule", rule, RULES)
    split = RULES[rule]
    if split is None:
        return [(number, 0.0) for number in range(len(epochs))]

    def value(epoch: dict[str, Any], name: str, sign: float) -> float:
        found = epoch.get(split, {}).get(name)
        return -math.inf if found is None or math.isnan(found) else sign * float(found)

    return [(value(epoch, metric, worth(metric, 1.0)), value(epoch, "loss", -1.0)) for epoch in epochs]


def should_stop(
    epochs: Sequence[dict[str, Any]], rule: str, metric: str, patience: int | None, perfect: int | None = None
) -> bool:
    """Return whether further epochs are unlikely to be selected.

    Either the selected epoch is at least ``patience`` epochs old. Or the metric was perfect in the last ``perfect``
    epochs and the loss of the selected one is below `SMALL_LOSS`, so that neither can improve much.
    """
    if not epochs:
        return False
    selected, split = select_epoch(epochs, rule, metric), RULES[rule]
    if patience is not None and len(epochs) - 1 - selected >= patience:
        return True
    if perfect is None or split is None or len(epochs) < perfect:
        return False
    loss = epochs[selected].get(split, {}).get("loss")
    recent = [epoch.get(split, {}).get(metric) for epoch in epochs[-perfect:]]
    best = worth(metric, PERFECT.get(metric, 1.0))
    perfected = all(score is not None and worth(metric, score) >= best for score in recent)
    return loss is not None and loss < SMALL_LOSS and perfected


def plateau_cuts(epochs: Sequence[dict[str, Any]], rule: str, metric: str, patience: int) -> int:
    """Return how often ``patience`` epochs have passed without a better one; a cut starts the count again."""
    cuts, waited, best = 0, 0, None
    for score in _scores(epochs, rule, metric):
        better = best is None or score > best
        waited, best = (0, score) if better else (waited + 1, best)
        if waited >= patience:
            cuts, waited = cuts + 1, 0
    return cuts
