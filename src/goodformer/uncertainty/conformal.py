"""Conformal sets: labels that cannot be excluded, with guaranteed coverage on graphs like the validation graphs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from goodformer.spec import Task
from goodformer.uncertainty.calibration import log_classes


def conformal_rank(count: int, level: float) -> int:
    """Return the rank k = ceil((n + 1) level) of the threshold among n scores; k > n means there is no threshold."""
    return math.ceil((count + 1) * level - 1e-9)


def conformity(task: Task, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 - p(label) of the known labels, sorted per target and class (T, K, n), and their counts (T, K).

    Rows are filled up with infinity. Each class has its own threshold, so a rare class has the same coverage as a
    common one.
    """
    scores = 1 - log_classes(task, logits).exp()  # (B, T, K)
    labels = y[:, None].double() if task.kind == "multiclass" else y.double()  # (B, T)
    of_class = labels[..., None] == torch.arange(scores.shape[-1])  # (B, T, K), false where the label is missing
    ordered = scores.masked_fill(~of_class, math.inf).sort(0).values.movedim(0, -1)
    counts = of_class.sum(0)
    return ordered[..., : max(int(counts.max()), 1)].contiguous(), counts


def thresholds(ordered: Tensor, counts: Tensor, level: float) -> Tensor:
    """Return the largest score that stays in a set, per target and class (T, K), from the results of `conformity`."""
    rank = ((counts + 1) * level - 1e-9).ceil().long()
    place = (rank - 1).clamp(0, ordered.shape[-1] - 1)
    found = ordered.gather(-1, place[..., None])[..., 0]
    return found.masked_fill(rank > counts, math.inf)


def coverage(task: Task, sets: Tensor, y: Tensor) -> dict[str, float | None]:
    """Return the share of known labels inside their sets (``coverage``) and the mean set size (``size``)."""
    labels = y[:, None].double() if task.kind == "multiclass" else y.double()  # (B, T)
    known = ~labels.isnan()
    sets = sets[:, None] if task.kind == "multiclass" else sets  # (B, T, K)
    if not bool(known.any()):
        return {"coverage": None, "size": None}
    held = sets.gather(-1, labels.nan_to_num().long()[..., None])[..., 0]  # (B, T)
    return {"coverage": float(held[known].double().mean()), "size": float(sets.sum(-1)[known].double().mean())}
