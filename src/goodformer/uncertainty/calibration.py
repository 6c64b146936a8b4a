"""Probabilities that mean what they say: one temperature for all logits, and what probabilities are worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional as F

from goodformer.methods.base import class_scores, mean_loss
from goodformer.spec import Task

BINS, FEWEST = 15, 20
COLDEST, HOTTEST = 0.001, 20.0
"""Calibration temperatures tried; the hottest is for logits that tell nothing."""
USELESS = f"the logits tell nothing of the validation labels; they are divided by {HOTTEST:g}, the most that is tried."
FLAWLESS = "all validation graphs are predicted right, so probabilities are as sure as their number allows."


def fit_temperature(task: Task, logits: Tensor, y: Tensor) -> float:
    """The t > 0 that makes the mean loss of ``logits / t`` smallest; 1 where no other is better.

    The loss is convex in 1/t, so the search over log(1/t) has one valley. Missing labels (NaN) are passed over. Where
    smaller is always better, as where every label is the likeliest one, the loss is that of labels believed as far as
    n of them allow (Platt: a share 1 / (n + 2) of each goes to the other classes), and the answer at most 1. Where
    larger is always better, the logits tell nothing of the labels and the answer is `HOTTEST`.
    """
    z, labels = logits.double(), y.double() if y.is_floating_point() else y

    def risk(log_b: float) -> float:
        return float(mean_loss(task, z * math.exp(log_b), labels))

    low, high = -math.log(HOTTEST), -math.log(COLDEST)
    best = high if _all_right(task, z, labels) else _valley(risk, low, high)
    if best > high - 1e-2:
        doubt = 1 / (int((~labels.isnan()).sum()) + 2)
        return math.exp(-max(_valley(lambda log_b: _doubted(task, z * math.exp(log_b), labels, doubt), low, high), 0.0))
    return math.exp(-best) if risk(best) < risk(0.0) else 1.0


def _valley(risk: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is smallest; an end that the search comes near is reached."""
    found = float(
        minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 1e-9, "maxiter": 200}).x
    )
    return low if found < low + 1e-3 else found


def _doubted(task: Task, logits: Tensor, y: Tensor, doubt: float) -> float:
    """Mean loss where a share of every label belongs to the other classes, in equal parts."""
    right = mean_loss(task, logits, y)
    if task.kind == "multiclass":
        logs = logits.log_softmax(-1)
        wrong = -(logs.sum(-1) - logs.gather(-1, y[:, None])[:, 0]).mean() / (task.outputs - 1)
    else:
        wrong = mean_loss(task, logits, 1 - y)
    return float((1 - doubt) * right + doubt * wrong)


def _all_right(task: Task, logits: Tensor, y: Tensor) -> bool:
    """Whether every known label is the likeliest one."""
    if task.kind == "multiclass":
        return bool((logits.argmax(-1) == y).all())
    return bool((((logits > 0) == (y > 0.5)) | y.isnan()).all())


def nll(task: Task, logits: Tensor, y: Tensor) -> float:
    """Mean negative log likelihood of the labels that are there."""
    return float(mean_loss(task, logits.double(), y.double() if y.is_floating_point() else y))


def brier(task: Task, logits: Tensor, y: Tensor) -> float:
    """Mean squared distance of probabilities and labels: summed over classes, or of each binary target."""
    p = class_scores(task, logits.double())
    if task.kind == "multiclass":
        return float((p - F.one_hot(y, task.outputs)).square().sum(-1).mean())
    return float((p - y)[~y.isnan()].square().mean())


def ece(task: Task, logits: Tensor, y: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: mean gap of what was claimed and what came true, over bins of equal mass.

    Claimed is the probability of the likeliest class, or of class 1 of each binary target whose label is known.
    """
    claimed, true = _claims(task, logits.double(), y)
    order = claimed.argsort(stable=True)
    parts = zip(claimed[order].tensor_split(bins), true[order].tensor_split(bins), strict=True)
    return sum(abs(float(c.sum() - t.sum())) for c, t in parts) / max(len(claimed), 1)


def _claims(task: Task, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities claimed and whether they came true, one entry a known label."""
    p = class_scores(task, logits)
    if task.kind == "multiclass":
        claimed, said = p.max(-1)
        return claimed, (said == y).double()
    known = ~y.isnan()
    return p[known], y[known].double()


def calibrate(task: Task, logits: Tensor, y: Tensor) -> tuple[float, tuple[str, ...]]:
    """The calibration temperature, and in a sentence why it is 1, or the hottest, where the graphs do not tell."""
    known = y[~y.isnan()]
    reason = ""
    if len(known) < FEWEST:
        reason = f"{len(known)} labels are too few to calibrate probabilities"
    elif len(known.unique()) < 2:
        reason = "labels of one class alone cannot calibrate probabilities"
    elif not bool(logits.isfinite().all()):
        reason = "predictions that are not numbers cannot be calibrated"
    if reason:
        return 1.0, (f"{reason}, which are left as they are.",)
    t = fit_temperature(task, logits, y)
    if _all_right(task, logits, y):
        return t, (FLAWLESS,)
    return t, (USELESS,) if t >= HOTTEST * (1 - 1e-9) else ()


def figures(task: Task, logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """What probabilities are worth: ``nll``, ``ece`` and ``brier``, None where no label is known."""
    measures: Iterable[Callable[[Task, Tensor, Tensor], float]] = (nll, ece, brier)
    known = not bool(y.isnan().all())
    return {measure.__name__: measure(task, logits, y) if known else None for measure in measures}


def log_classes(task: Task, logits: Tensor) -> Tensor:
    """Log probabilities (B, T, K): of K classes (T = 1), or of 0 and 1 for T binary targets."""
    if task.kind == "multiclass":
        return logits.log_softmax(-1)[:, None]
    return torch.stack((F.logsigmoid(-logits), F.logsigmoid(logits)), -1)
