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

from goodformer.data.readers.values import counted
from goodformer.methods.base import link, mean_loss
from goodformer.spec import Task

BINS, FEWEST = 15, 20
COLDEST, HOTTEST = 0.001, 20.0
"""Range of calibration temperatures; the highest is for logits that do not predict the labels."""
MOST_SHIFT, TINY = 15.0, 1e-12
SIGNIFICANT = 0.99
"""Level of the test that decides whether classes are shifted."""
DEVIATIONS = (0.35, 0.5)
"""Standard deviations of the log temperature and of each shift before labels are seen.

Chosen on ID validation, see docs/uncertainty.md.
"""


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


def calibrate(
    task: Task, logits: Tensor, y: Tensor, deviations: tuple[float, float] = DEVIATIONS
) -> tuple[Scaling, tuple[str, ...]]:
    """Return the scaling of the logits, and a note where the validation graphs do not determine it.

    Args:
        task: What is predicted.
        logits: Logits (B, C).
        y: Labels.
        deviations: Of the priors, see `fit_scaling`.
    """
    notes: tuple[str, ...] = ()
    if task.kind == "binary" and y.shape[1] > 1:
        several = torch.tensor([len(one[~one.isnan()].unique()) > 1 for one in y.T])
        if not bool(several.all()):
            few = counted(int((~several).sum()), "target")
            notes = (f"{few} with validation labels of fewer than two classes: calibrated like the other targets.",)
            y = y.masked_fill(~several, math.nan)
    known = y[~y.isnan()]
    reason = ""
    if len(known) < FEWEST:
        reason = f"fewer than {FEWEST} validation labels ({len(known)})"
    elif len(known.unique()) < 2:
        reason = "all validation labels are of one class"
    elif not bool(logits[~y.isnan()].isfinite().all()):
        reason = "some predictions are not finite"
    if reason:
        return Scaling(), (f"probabilities are not calibrated: {reason}.",)
    if _all_right(task, logits, y):
        capped = Scaling(capped_temperature(task, logits, y))
        few = f"all {counted(len(known), 'validation label')} are predicted correctly, which does not prove certainty"
        return capped, (*notes, f"{few}: probabilities are limited accordingly.")
    found = fit_scaling(task, logits, y, deviations)
    if task.kind == "multiclass":  # shifts change which class is the most probable one
        plain = fit_scaling(task, logits, y, (deviations[0], 0.0))
        found = found if _prefers(task, logits, y, found, plain) else plain
    if nll(task, found(logits), y) < nll(task, class_shares(task, y), y):
        return found, notes
    uninformative = "predictions are uninformative on ID validation: the shares of the classes alone are as good."
    shift = deviations[1] if found.shift else 0.0
    return fit_scaling(task, logits, y, (math.inf, shift)), (*notes, uninformative)


def _prefers(task: Task, logits: Tensor, y: Tensor, shifted: Scaling, plain: Scaling) -> bool:
    """Return whether a likelihood-ratio test at `SIGNIFICANT` prefers shifts to the temperature alone."""
    from scipy.stats import chi2

    gain = nll(task, plain(logits), y) - nll(task, shifted(logits), y)
    return bool(2 * len(y) * gain > chi2.ppf(SIGNIFICANT, task.outputs - 1))


def fit_scaling(task: Task, logits: Tensor, y: Tensor, deviations: tuple[float, float] = DEVIATIONS) -> Scaling:
    """Return the most probable temperature and shifts, one per output, under normal priors around 1 and 0.

    Overconfident training calls for a temperature; balanced training makes rare classes too probable, which only a
    shift corrects. Few labels cannot tell much about either, hence the priors. Missing labels (NaN) are skipped.

    Args:
        task: What is predicted.
        logits: Logits (B, C).
        y: Labels.
        deviations: Standard deviations of the log temperature and of each shift before labels are seen; 0 for no
            shifts.
    """
    from scipy.optimize import minimize  # needed to fit only, and takes a second

    z = logits.double().nan_to_num(posinf=0.0, neginf=0.0)  # logits of known labels are finite
    labels = y.double() if y.is_floating_point() else y
    known = int((~labels.isnan()).sum())

    def risk(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the negative log posterior and its slope; the parameters are log(1/t) and the shifts."""
        p = torch.tensor(parameters, requires_grad=True)
        unusual = (p[0] / deviations[0]).square() + (p[1:] / (deviations[1] or 1.0)).square().sum()
        loss = known * mean_loss(task, z * p[0].exp() + p[1:], labels) + unusual / 2
        (slope,) = torch.autograd.grad(loss, p)
        return float(loss.detach()), slope.numpy()

    most = MOST_SHIFT if deviations[1] else 0.0
    limits = [(-math.log(HOTTEST), -math.log(COLDEST)), *[(-most, most)] * task.outputs]
    found = minimize(risk, np.zeros(1 + task.outputs), jac=True, method="L-BFGS-B", bounds=limits).x
    return Scaling(math.exp(-float(found[0])), tuple(found[1:].tolist()) if most else ())


def class_shares(task: Task, y: Tensor) -> Tensor:
    """Return the logits (B, C) of a prediction that knows the shares of the classes alone."""
    if task.kind == "multiclass":
        shares = y.bincount(minlength=task.outputs).double() / len(y)
        return shares.clamp(min=TINY).log().expand(len(y), -1)
    shares = y.double().nanmean(0).nan_to_num(0.5).clamp(TINY, 1 - TINY)
    return shares.logit().expand(len(y), -1)


def capped_temperature(task: Task, logits: Tensor, y: Tensor) -> float:
    """Return the temperature of logits that are right for every label, which alone would call for certainty.

    Labels are smoothed as Platt does: a share 1 / (n + 2) goes to the other classes, so the mean confidence is about
    (n + 1) / (n + 2).
    """
    z, labels = logits.double(), y.double() if y.is_floating_point() else y
    share = 1 / (int((~labels.isnan()).sum()) + 2)

    def risk(log_b: float) -> float:
        scaled = z * math.exp(log_b)
        if task.kind == "multiclass":
            logs = scaled.log_softmax(-1)
            wrong = -(logs.sum(-1) - logs.gather(-1, labels[:, None])[:, 0]).mean() / (task.outputs - 1)
        else:
            wrong = mean_loss(task, scaled, 1 - labels)
        return float((1 - share) * mean_loss(task, scaled, labels) + share * wrong)

    return math.exp(-_minimum(risk, -math.log(HOTTEST), -math.log(COLDEST)))


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
