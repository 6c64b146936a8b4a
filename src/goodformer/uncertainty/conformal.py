"""Conformal sets: the labels that cannot be ruled out, with a promise for graphs like the validation ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from goodformer.spec import Task
from goodformer.uncertainty.calibration import log_classes


def conformal_rank(count: int, level: float) -> int:
    """The rank k = ceil((n + 1) level) of the threshold among n scores; above n, no score is high enough."""
    return math.ceil((count + 1) * level - 1e-9)


def conformity(task: Task, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """1 - p(label) of the known labels, sorted, for each target and class (T, K, n) with infinity beyond the counts.

    Each class has its own threshold, so that a rare class is covered as often as a common one.
    """
    scores = 1 - log_classes(task, logits).exp()  # (B, T, K)
    labels = y[:, None].double() if task.kind == "multiclass" else y.double()  # (B, T)
    of_class = labels[..., None] == torch.arange(scores.shape[-1])  # (B, T, K), never where the label is missing
    ordered = scores.masked_fill(~of_class, math.inf).sort(0).values.movedim(0, -1)
    counts = of_class.sum(0)
    return ordered[..., : max(int(counts.max()), 1)].contiguous(), counts


def coverage(task: Task, sets: Tensor, y: Tensor) -> dict[str, float | None]:
    """Share of known labels that lie in their sets, and the mean number of labels in a set."""
    labels = y[:, None].double() if task.kind == "multiclass" else y.double()  # (B, T)
    known = ~labels.isnan()
    sets = sets[:, None] if task.kind == "multiclass" else sets  # (B, T, K)
    if not bool(known.any()):
        return {"coverage": None, "size": None}
    held = sets.gather(-1, labels.nan_to_num().long()[..., None])[..., 0]  # (B, T)
    return {"coverage": float(held[known].double().mean()), "size": float(sets.sum(-1)[known].double().mean())}


def thresholds(ordered: Tensor, counts: Tensor, level: float) -> Tensor:
    """The largest score that stays in a set, for each target and class (T, K), from what `conformity` gave."""
    rank = ((counts + 1) * level - 1e-9).ceil().long()
    place = (rank - 1).clamp(0, ordered.shape[-1] - 1)
    found = ordered.gather(-1, place[..., None])[..., 0]
    return found.masked_fill(rank > counts, math.inf)
