"""Temperature scaling with a shift where the labels call for one, and measures of calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from goodformer.methods.base import link, mean_loss
from goodformer.spec import Task

BINS, FEWEST, FEWEST_EACH = 15, 20, 5
COLDEST, HOTTEST = 0.001, 20.0
"""Range of calibration temperatures; the highest is for logits that do not predict the labels."""
SIGNIFICANT = 0.99
"""Level of the test that decides whether a shift is used."""
MOST_SHIFT, WEAK = 15.0, 1e-3
"""Largest shift, and the weight of the squared shifts, which makes the minimum unique."""


@dataclass(frozen=True)
class Scaling:
    """Calibrated logits are ``logits / temperature + shift``.

    Attributes:
        temperature: Larger than 0.
        shift: One number per output, or none.
    """

    temperature: float = 1.0
    shift: tuple[float, ...] = ()

    def __call__(self, logits: Tensor) -> Tensor:
        """Return calibrated logits, (B, C), in double precision."""
        scaled = logits.double() / self.temperature
        return scaled + scaled.new_tensor(self.shift) if self.shift else scaled


def calibrate(task: Task, logits: Tensor, y: Tensor) -> tuple[Scaling, tuple[str, ...]]:
    """Return the scaling of the logits, and a note where the validation graphs do not determine it."""
    known = y[~y.isnan()]
    reason = ""
    if len(known) < FEWEST:
        reason = f"fewer than {FEWEST} validation labels ({len(known)})"
    elif len(known.unique()) < 2:
        reason = "all validation labels are of one class"
    elif not bool(logits.isfinite().all()):
        reason = "some predictions are not finite"
    if reason:
        return Scaling(), (f"probabilities are not calibrated: {reason}.",)
    t = fit_temperature(task, logits, y)
    if _all_right(task, logits, y):
        return Scaling(t), ("no validation errors: confidence is capped by the sample size.",)
    if shifted := fit_shift(task, logits, y):
        return shifted, ()
    if t >= HOTTEST * (1 - 1e-9):
        note = f"predictions are uninformative on ID validation: the temperature is {HOTTEST:g}, its maximum."
        return Scaling(t), (note,)
    return Scaling(t), ()


def fit_shift(task: Task, logits: Tensor, y: Tensor) -> Scaling | None:
    """Return temperature and shifts that minimise the mean loss, as Platt scaling does; None if no shift is needed.

    Balanced training makes rare classes too probable, which no temperature can correct. A shift costs one parameter
    per target, or per class but one, so it is used only where a likelihood-ratio test at `SIGNIFICANT` prefers it to
    the temperature alone. A target with fewer than `FEWEST_EACH` labels of one of its classes has none.
    """
    from scipy.optimize import minimize  # needed to fit only, and takes a second
    from scipy.stats import chi2

    z, labels = logits.double(), y.double() if y.is_floating_point() else y
    known = int((~labels.isnan()).sum())
    if task.kind == "multiclass":
        free = labels.bincount(minlength=task.outputs) >= FEWEST_EACH  # (C,)
        free &= bool(free.sum() > 1)
    else:
        free = ((labels == 0).sum(0) >= FEWEST_EACH) & ((labels == 1).sum(0) >= FEWEST_EACH)
    bounds = (-math.log(HOTTEST), -math.log(COLDEST))

    def best(free: Tensor) -> tuple[float, NDArray[np.float64]]:
        """Return the sum of losses and the parameters: log(1/t), then a shift for every free output."""

        def risk(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            p = torch.tensor(parameters, requires_grad=True)
            shift = z.new_zeros(task.outputs).masked_scatter(free, p[1:])
            loss = known * mean_loss(task, z * p[0].exp() + shift, labels) + WEAK * p[1:].square().sum()
            (slope,) = torch.autograd.grad(loss, p)
            return float(loss.detach()), slope.numpy()

        start = np.zeros(1 + int(free.sum()))
        limits = [bounds, *[(-MOST_SHIFT, MOST_SHIFT)] * int(free.sum())]
        found = minimize(risk, start, jac=True, method="L-BFGS-B", bounds=limits)
        return float(found.fun), found.x

    plain, _ = best(torch.zeros_like(free))
    if task.kind == "multiclass":
        groups = [free] if bool(free.any()) else []
    else:
        groups = [free & (torch.arange(len(free)) == target) for target in free.nonzero().flatten().tolist()]
    kept = torch.zeros_like(free)
    for group in groups:
        freedom = int(group.sum()) - (task.kind == "multiclass")
        if 2 * (plain - best(group)[0]) > chi2.ppf(SIGNIFICANT, freedom):
            kept |= group
    if not bool(kept.any()):
        return None
    parameters = torch.from_numpy(best(kept)[1])
    shift = z.new_zeros(task.outputs).masked_scatter(kept, parameters[1:])
    return Scaling(math.exp(-float(parameters[0])), tuple(shift.tolist()))


def fit_temperature(task: Task, logits: Tensor, y: Tensor) -> float:
    """Return the t > 0 that minimises the mean loss of ``logits / t``; 1 where no other value is better.

    The loss is convex in 1/t, so a bounded search over log(1/t) finds the minimum. Missing labels (NaN) are skipped.
    If the loss keeps falling as t decreases, for example because every prediction is right, labels are smoothed as
    Platt does: a share 1 / (n + 2) goes to the other classes, so the mean confidence is about (n + 1) / (n + 2). If it
    keeps falling as t increases, the logits do not predict the labels and t is `HOTTEST`.
    """
    z, labels = logits.double(), y.double() if y.is_floating_point() else y

    def risk(log_b: float) -> float:
        return float(mean_loss(task, z * math.exp(log_b), labels))

    def smoothed_risk(log_b: float) -> float:
        share, scaled = 1 / (int((~labels.isnan()).sum()) + 2), z * math.exp(log_b)
        if task.kind == "multiclass":
            logs = scaled.log_softmax(-1)
            wrong = -(logs.sum(-1) - logs.gather(-1, labels[:, None])[:, 0]).mean() / (task.outputs - 1)
        else:
            wrong = mean_loss(task, scaled, 1 - labels)
        return float((1 - share) * mean_loss(task, scaled, labels) + share * wrong)

    low, high = -math.log(HOTTEST), -math.log(COLDEST)
    best = high if _all_right(task, z, labels) else _minimum(risk, low, high)
    if best > high - 1e-2:
        return math.exp(-_minimum(smoothed_risk, low, high))
    return math.exp(-best) if risk(best) < risk(0.0) else 1.0


def _minimum(risk: Callable[[float], float], low: float, high: float) -> float:
    """Return where a convex function is smallest; a result close to the lower bound becomes that bound."""
    from scipy.optimize import minimize_scalar

    options = {"xatol": 1e-9, "maxiter": 200}
    found = float(minimize_scalar(risk, bounds=(low, high), method="bounded", options=options).x)
    return low if found < low + 1e-3 else found


def _all_right(task: Task, logits: Tensor, y: Tensor) -> bool:
    """Return whether every known label is predicted correctly."""
    if task.kind == "multiclass":
        return bool((logits.argmax(-1) == y).all())
    return bool((((logits > 0) == (y > 0.5)) | y.isnan()).all())


def measures(task: Task, logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """Return ``nll``, ``ece`` and ``brier``; None where no label is known."""
    known = not bool(y.isnan().all())
    return {measure.__name__: measure(task, logits, y) if known else None for measure in (nll, ece, brier)}


def nll(task: Task, logits: Tensor, y: Tensor) -> float:
    """Return the mean negative log-likelihood of the known labels."""
    return float(mean_loss(task, logits.double(), y.double() if y.is_floating_point() else y))


def ece(task: Task, logits: Tensor, y: Tensor, bins: int = BINS) -> float:
    """Return the expected calibration error over bins of equal mass.

    The confidence is the largest class probability, or the probability of class 1 of each binary target whose label
    is known.
    """
    p = link(task, logits.double())
    if task.kind == "multiclass":
        confidence, predicted = p.max(-1)
        correct = (predicted == y).double()
    else:
        known = ~y.isnan()
        confidence, correct = p[known], y[known].double()
    return calibration_error(confidence, correct, bins)


def calibration_error(p: Tensor, happened: Tensor, bins: int = BINS) -> float:
    """Return the mean gap between probabilities (B,) and what happened (B,), in bins of equal mass."""
    order = p.argsort(stable=True)
    parts = zip(p[order].tensor_split(bins), happened[order].tensor_split(bins), strict=True)
    return sum(abs(float(c.sum() - t.sum())) for c, t in parts) / max(len(p), 1)


def brier(task: Task, logits: Tensor, y: Tensor) -> float:
    """Return the mean squared error of probabilities: summed over classes, or of each binary target."""
    p = link(task, logits.double())
    if task.kind == "multiclass":
        return float((p - F.one_hot(y, task.outputs)).square().sum(-1).mean())
    return float((p - y)[~y.isnan()].square().mean())


def log_classes(task: Task, logits: Tensor) -> Tensor:
    """Return log-probabilities (B, T, K): of K classes (T = 1), or of 0 and 1 for T binary targets."""
    if task.kind == "multiclass":
        return logits.log_softmax(-1)[:, None]
    return torch.stack((F.logsigmoid(-logits), F.logsigmoid(logits)), -1)
