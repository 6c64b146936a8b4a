"""Metrics with bootstrap intervals over rows: rows are drawn again with replacement.

Letters: G rows, R resamples, T targets, C outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from goodformer.spec import METRIC_NAMES, Task

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

NAMES = {**METRIC_NAMES, "rmse": "RMSE", "mae": "MAE", "r2": "R²"}
"""Metrics and their names."""
IN_UNITS = ("rmse", "mae")
"""Metrics in the unit of a measured target; smaller is better."""
RESAMPLES, LEVEL = 500, 0.95
FEWEST = 10
"""Rows below which a metric has no interval: it would suggest a precision that so few rows cannot have."""
BLOCK, CELLS = 250, 10_000_000
"""Resamples that are drawn at a time, and weights of rows in them that are computed with at a time."""


def metrics(
    task: Task,
    targets: Sequence[str],
    labels: Array,
    said: Array,
    classes: Array | None = None,
    others: Mapping[str, Array] | None = None,
) -> list[dict[str, Any]]:
    """Return one entry per metric and target, the reported metric first: the model, baselines, differences.

    With several targets, the first entry of each metric is the mean over them; errors of measured values are then in
    training standard deviations.

    Args:
        task: What is predicted.
        targets: Names of the targets.
        labels: The labels (G, T), NaN where missing.
        said: Logits of the model (G, C), or measured values in their own units.
        classes: Its classes (G,) or (G, T), by default those of the logits; calibration may have changed them.
        others: The same as ``said`` of each baseline.
    """
    counts = resamples(labels)
    samples: dict[str, dict[str, list[Array]]] = {}
    for side, scores in {"": said, **(others or {})}.items():
        right = None if task.measured else hits(task.kind, scores, labels, None if side else classes)
        for place, y in enumerate(labels.T):
            if right is None:
                found = number_metrics(y, scores[:, place], counts)
            else:
                found = {"accuracy": weighted_mean(right[:, place], counts)}
                if task.kind == "binary":
                    found["rocauc"] = roc_auc(y, scores[:, place], counts)
            for metric, values in found.items():
                samples.setdefault(metric, {}).setdefault(side, []).append(values)
    rows, known = [], ~np.isnan(labels)
    for metric in sorted(samples, key=lambda name: name != task.metric):
        units = task.scale if metric in IN_UNITS and task.scale else (1.0,) * len(targets)
        for target, place in [
            *([("", -1)] if len(targets) > 1 else []),
            *zip(targets, range(len(targets)), strict=True),
        ]:
            each = {
                side: _mean([one / unit for one, unit in zip(some, units, strict=True)]) if place < 0 else some[place]
                for side, some in samples[metric].items()
            }
            count = int((known.any(1) if place < 0 else known[:, place]).sum())
            rows.append(
                {
                    "metric": metric,
                    "name": NAMES.get(metric, metric),
                    "target": target,
                    "rows": count,
                    **interval(each[""], count),
                    "others": {
                        side: {**interval(some, count), "difference": interval(each[""] - some, count)}
                        for side, some in each.items()
                        if side
                    },
                }
            )
    return rows


def hits(kind: str, logits: Array, y: Array, classes: Array | None = None) -> Array:
    """Return 1 for a right and 0 for a wrong prediction (G, T); NaN without a label.

    Args:
        kind: Kind of the task.
        logits: Logits (G, C).
        y: Labels (G, T).
        classes: The predicted classes, by default those of the logits.
    """
    if classes is None:
        classes = logits.argmax(1) if kind == "multiclass" else logits > 0
    return np.where(np.isnan(y), np.nan, classes.reshape(len(y), -1) == y)


def _mean(samples: Sequence[Array]) -> Array:
    """Return the mean over targets, without those that a resample does not define."""
    table = np.stack(samples)
    known = np.isfinite(table)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, table, 0).sum(0) / known.sum(0))


def draw(strata: Array, resamples: int, random: np.random.Generator) -> Array:
    """Return how often each unit is drawn in each resample, with replacement and within each stratum (R, U)."""
    counts = np.zeros((resamples, len(strata)), dtype=np.uint8)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        for block in range(0, resamples, BLOCK):
            size = min(BLOCK, resamples - block)
            drawn = random.integers(0, len(members), (size, len(members))) + np.arange(size)[:, None] * len(members)
            count = np.bincount(drawn.ravel(), minlength=size * len(members)).reshape(size, -1)
            counts[block : block + size, members] = np.minimum(count, 255)
    return counts


def resamples(y: Array, seed: int = 0) -> Array:
    """Return how often each row counts: once each (first line), then in each resample (R + 1, G).

    Rows are drawn with replacement, within each class if there is one target of few classes.
    """
    single = y.ndim == 1 or y.shape[1] == 1
    codes = np.nan_to_num(y.reshape(len(y), -1)[:, 0], nan=-1)
    few = single and len(np.unique(codes)) <= 10
    strata = codes.astype(np.int64) if few else np.zeros(len(y), np.int64)
    counts = draw(strata, RESAMPLES, np.random.default_rng(seed))
    return np.concatenate([np.ones((1, len(y)), counts.dtype), counts])


def interval(samples: Floats, rows: int = FEWEST) -> dict[str, float | None]:
    """Return the value of all rows and the ends of its interval, unknown for few rows.

    Args:
        samples: The metric of all rows, then of each resample (R + 1,).
        rows: Number of rows.
    """
    known = samples[1:][np.isfinite(samples[1:]) & (rows >= FEWEST)]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(known, [tail, 1 - tail]) if len(known) else (math.nan, math.nan)
    return {"value": plain(samples[0]), "low": plain(low), "high": plain(high)}


def roc_auc(y: Array, score: Array, counts: Array) -> Floats:
    """Return ROC-AUC under each set of counts (R,); NaN where a class is missing. Rows without a label do not count."""
    known = ~np.isnan(y)
    y, score, counts = y[known], score[known].astype(np.float64), counts[:, known]
    found = np.full(len(counts), np.nan)
    if not len(y):
        return found
    order = score.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf) > 0)  # equal scores share a place
    positive = (y[order] > 0.5).astype(np.float64)
    for block, weights in _weights(counts, order):
        up = np.add.reduceat(weights * positive, starts, axis=1)
        down = np.add.reduceat(weights * (1 - positive), starts, axis=1)
        below = down.cumsum(1) - down / 2
        with np.errstate(invalid="ignore"):
            found[block] = (up * below).sum(1) / (up.sum(1) * down.sum(1))
    return found


def weighted_mean(values: Array, counts: Array) -> Floats:
    """Return the mean of the known values under each set of counts (R,)."""
    known, found = np.flatnonzero(~np.isnan(values)), np.empty(len(counts))
    with np.errstate(invalid="ignore"):
        for block, weights in _weights(counts, known):
            found[block] = weights @ values[known] / weights.sum(1)
    return found


def _weights(counts: Array, rows: Array) -> Iterator[tuple[slice, Floats]]:
    """Yield the weights of some rows, at most about `CELLS` at a time, with the resamples that they belong to."""
    step = max(1, CELLS // max(len(rows), 1))
    for start in range(0, len(counts), step):
        block = slice(start, start + step)
        yield block, counts[block, rows].astype(np.float64)


def number_metrics(y: Array, said: Array, counts: Array) -> dict[str, Floats]:
    """Return RMSE, MAE and R² of predicted values under each set of counts (R,)."""
    known = ~np.isnan(y)
    y, error, counts = y[known], (said - y)[known], counts[:, known]
    square = weighted_mean(error**2, counts)
    middle = y - y.mean() if len(y) else y  # so that the spread of values far from zero is not rounded away
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = weighted_mean(middle**2, counts) - weighted_mean(middle, counts) ** 2
        explained = np.where(spread > least_spread(y), 1 - square / spread, np.nan)
        return {"rmse": np.sqrt(square), "mae": weighted_mean(np.abs(error), counts), "r2": explained}


def least_spread(y: Array) -> float:
    """Return a variance below which values differ by rounding only, so that no share of it can be explained."""
    return float((1e-12 * np.abs(y).max(initial=0.0)) ** 2)


def plain(value: float) -> float | None:
    """Return a number for JSON, None if it is not finite."""
    return round(float(value), 6) if math.isfinite(value) else None
