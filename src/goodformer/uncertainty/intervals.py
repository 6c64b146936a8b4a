"""Conformal intervals of measured values, wider for graphs that are harder to predict where that pays.

Letters: B graphs, T targets, n validation graphs. All values are standardised: in training standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from goodformer.engine.seeds import derive_seed
from goodformer.uncertainty.conformal import conformal_rank

LEVEL, FOLDS, FEWEST = 0.9, 5, 50
"""Level and folds of the cross-validation that chooses a difficulty, and the fewest graphs it needs."""
NARROWER = 0.97
"""A difficulty is used if intervals are on average at most this share of the width of constant ones."""
EASIEST, HARDEST = 0.3, 5.0
"""Range of the difficulty, in mean absolute errors."""


WIDTHS = {
    "": "All intervals of a target have the same width: no other choice of widths was shown to be narrower on ID "
    "validation.",
    "spread": "Intervals are wider for rows on which the members disagree.",
    "domain": "Intervals are wider for rows with a higher domain score.",
}
"""What widths follow, by the signal that decides it."""


class Difficulty(BaseModel):
    """The expected absolute error of a graph, ``start + slope * u`` for each target, within bounds.

    Attributes:
        by: What u is: the members' ``spread``, the raw ``domain`` score, or nothing, where all graphs are equally hard.
        start, slope: One number per target; none if all graphs are equally hard.
        mean: Mean absolute error of each target on the validation graphs; it bounds the difficulty.
    """

    model_config = ConfigDict(frozen=True)

    by: Literal["", "spread", "domain"] = ""
    start: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] = ()
    slope: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] = ()
    mean: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = ()

    @property
    def sentence(self) -> str:
        """What the width of an interval follows, in one sentence."""
        return WIDTHS[self.by]

    def rescaled(self, factor: float) -> Difficulty:
        """Return the same for a signal u of another scale: the former one is ``factor * u``."""
        return self.model_copy(update={"slope": tuple(one * factor for one in self.slope)})

    def __call__(self, signals: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """Return the difficulty of each graph and target, of the shape of ``like`` (B, T); 1 if it is constant."""
        if not self.by:
            return torch.ones_like(like, dtype=torch.double)
        start, slope, mean = (torch.tensor(part, dtype=torch.double) for part in (self.start, self.slope, self.mean))
        raw = start + slope * signals[self.by].double()[:, None]
        bounded = torch.minimum(torch.maximum(raw, EASIEST * mean), HARDEST * mean)
        return torch.where(raw.isnan(), HARDEST * mean, bounded)  # an infinite signal times a slope of 0


CONSTANT = Difficulty()
"""All graphs are equally hard."""


def fit_difficulty(errors: Tensor, signals: Mapping[str, Tensor]) -> Difficulty:
    """Return the difficulty whose intervals are narrowest on held-out validation graphs, constant if none pays.

    Args:
        errors: Absolute errors (n, T), NaN where the label is missing.
        signals: Candidates for u by name, each (n,).
    """
    if len(errors) < FEWEST or not bool((errors > 0).any(0).all()):
        return CONSTANT
    order = torch.randperm(len(errors), generator=torch.Generator().manual_seed(derive_seed("intervals", len(errors))))
    fold = torch.empty_like(order)
    fold[order] = torch.arange(len(order)) % FOLDS
    plain, best = _width(errors, {}, "", fold), CONSTANT
    least = NARROWER * plain
    for name, signal in signals.items():
        if bool(signal.isfinite().all()) and float(signal.std()) > 0:
            width = _width(errors, signals, name, fold)
            if width < least:
                least, best = width, _line(errors, signals, name)
    return best


def _line(errors: Tensor, signals: Mapping[str, Tensor], name: str) -> Difficulty:
    """Return the difficulty by one signal: a line of least squares per target that does not fall."""
    start, slope, mean = [], [], []
    for column in errors.T:
        known = ~column.isnan()
        e, u = column[known].double(), signals[name][known].double()
        rise = max(float(((u - u.mean()) * e).sum() / ((u - u.mean()).square().sum()).clamp(min=1e-300)), 0.0)
        mean.append(max(float(e.mean()), 1e-12))
        slope.append(rise)
        start.append(float(e.mean()) - rise * float(u.mean()))
    return Difficulty(by=name, start=tuple(start), slope=tuple(slope), mean=tuple(mean))  # type: ignore[arg-type]


def _width(errors: Tensor, signals: Mapping[str, Tensor], name: str, fold: Tensor) -> float:
    """Return the mean half width of intervals on graphs that neither the line nor the threshold has seen."""
    total = 0.0
    for number in range(FOLDS):
        held = fold == number
        line = _line(errors[~held], {name: signals[name][~held]}, name) if name else CONSTANT
        hard = line({key: value for key, value in signals.items() if key == name}, errors)  # (n, T)
        ordered, counts = ordered_errors(errors[~held], hard[~held])
        total += float((half_widths(ordered, counts, LEVEL)[None] * hard[held]).mean())
    return total / FOLDS if math.isfinite(total) else math.inf


def ordered_errors(errors: Tensor, hard: Tensor) -> tuple[Tensor, Tensor]:
    """Return the known errors divided by their difficulty, sorted per target (T, 1, n), and their counts (T, 1)."""
    ratio = (errors.double() / hard).nan_to_num(nan=math.inf).sort(0).values.T  # (T, n)
    counts = (~errors.isnan()).sum(0)
    return ratio[:, None, : max(int(counts.max()), 1)].contiguous(), counts[:, None]


def half_widths(ordered: Tensor, counts: Tensor, level: float) -> Tensor:
    """Return the half width of intervals of a level per target (T,), infinite if there are too few errors."""
    ranks = [conformal_rank(int(count), level) for count in counts[:, 0]]
    found = [
        float(row[0, rank - 1]) if rank <= int(count) else math.inf
        for row, rank, count in zip(ordered, ranks, counts[:, 0], strict=True)
    ]
    return torch.tensor(found, dtype=torch.double)


def interval_coverage(intervals: Tensor, y: Tensor) -> dict[str, float | None]:
    """Return the share of known values (B, T) in their intervals (B, T, 2), ``coverage``, and the mean ``width``.

    The width is that of finite intervals, averaged over targets in the units of ``y``. If all are infinite, as without
    enough rows to fit them to, both are None.
    """
    known = ~y.isnan()
    low, high = intervals.double().unbind(-1)
    width = (high - low)[known]
    finite = width[width.isfinite()]
    if not len(finite):
        return {"coverage": None, "width": None}
    held = (low <= y) & (y <= high)
    return {"coverage": float(held[known].double().mean()), "width": float(finite.mean())}
