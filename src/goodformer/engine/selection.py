"""Which epoch of a run is reported, and when a run may stop early.

Both are pure functions of the epochs' records, so a resumed run decides as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from goodformer.registry import unknown

RULES: dict[str, str | None] = {"ood_val": "val", "id_val": "id_val", "last": None}
"""The split whose metric chooses the epoch under each rule; ``last`` looks at none."""

SUMMARY_NAMES = {"id_val": "id_val", "id_test": "id_test", "ood_val": "val", "ood_test": "test"}
"""The name of a split in summaries and the split it stands for."""


def select_epoch(epochs: Sequence[dict[str, Any]], rule: str, metric: str) -> int:
    """Position of the chosen epoch: the best metric, of equals the lowest loss, then the earlier one.

    A missing metric never wins. Losses decide where a metric cannot: ROC-AUC is 1 as soon as the order is right, long
    before the probabilities are.

    Args:
        epochs: Records of the epochs so far, at least one.
        rule: ``ood_val``, ``id_val`` or ``last``.
        metric: The name under which a split's record holds its score.
    """
    if rule not in RULES:
        raise unknown("selection rule", rule, RULES)
    split = RULES[rule]
    if split is None:
        return len(epochs) - 1
    scores = [(_score(epoch, split, metric), -_loss(epoch, split)) for epoch in epochs]
    return scores.index(max(scores))


def should_stop(epochs: Sequence[dict[str, Any]], rule: str, metric: str, patience: int | None) -> bool:
    """Whether the chosen epoch is ``patience`` or more epochs old."""
    if patience is None or not epochs:
        return False
    return len(epochs) - 1 - select_epoch(epochs, rule, metric) >= patience


def _score(epoch: dict[str, Any], split: str, metric: str) -> float:
    """A split's score, minus infinity where it is missing."""
    value = epoch.get(split, {}).get(metric)
    return -math.inf if value is None or math.isnan(value) else float(value)


def _loss(epoch: dict[str, Any], split: str) -> float:
    """A split's loss, infinite where it is missing."""
    value = epoch.get(split, {}).get("loss")
    return math.inf if value is None or math.isnan(value) else float(value)
