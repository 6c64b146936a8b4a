"""Selection of the reported epoch, and early stopping.

Both are pure functions of the epochs' records, so a resumed run decides like an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from goodformer.errors import check_name
from goodformer.spec import SPLIT_NAMES

RULES: dict[str, str | None] = {"ood_val": "val", "id_val": "id_val", "last": None}
"""The split whose metric selects the epoch under each rule; ``last`` uses none."""

SUMMARY_NAMES = {"id_val": "id_val", "id_test": "id_test", "ood_val": "val", "ood_test": "test"}
"""The names of splits in summaries, and the keys of these splits."""


def describe_selection(rule: str, splits: Mapping[str, Mapping[str, Any]], metric: str) -> str:
    """Return in words how an epoch was selected, given the metrics of its splits.

    The loss decides where the metric is undefined, for example ROC-AUC with a single class.
    """
    split = RULES[rule]
    if split is None:
        return "the last epoch"
    return f"{'lowest loss' if splits[split].get(metric) is None else 'best'} on {SPLIT_NAMES[split]}"


def select_epoch(epochs: Sequence[dict[str, Any]], rule: str, metric: str) -> int:
    """Return the index of the selected epoch: best metric first, then lowest loss, then the earliest.

    A missing metric never wins. The loss breaks ties: ROC-AUC is 1 as soon as the order is right, long before the
    probabilities are good.

    Args:
        epochs: Records of the epochs so far, at least one.
        rule: ``ood_val``, ``id_val`` or ``last``.
        metric: The name under which a split's record holds its score.
    """
    check_name("selection rule", rule, RULES)
    split = RULES[rule]
    if split is None:
        return len(epochs) - 1

    def value(epoch: dict[str, Any], name: str, missing: float) -> float:
        found = epoch.get(split, {}).get(name)
        return missing if found is None or math.isnan(found) else float(found)

    scores = [(value(epoch, metric, -math.inf), -value(epoch, "loss", math.inf)) for epoch in epochs]
    return scores.index(max(scores))


def should_stop(epochs: Sequence[dict[str, Any]], rule: str, metric: str, patience: int | None) -> bool:
    """Return whether the selected epoch is at least ``patience`` epochs old."""
    if patience is None or not epochs:
        return False
    return len(epochs) - 1 - select_epoch(epochs, rule, metric) >= patience
