"""Metrics with bootstrap intervals over rows, calibration curves, and how far two samples differ.

Letters: G rows, R resamples, T targets, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from goodformer.report.paired import draw
from goodformer.spec import METRIC_NAMES

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

NAMES = {**METRIC_NAMES, "rmse": "RMSE", "mae": "MAE", "r2": "R²"}
"""Metrics and their names."""
IN_UNITS = ("rmse", "mae")
"""Metrics in the unit of a measured target; smaller is better."""
RESAMPLES, LEVEL = 500, 0.95
BLOCK = 100
"""Resamples that are computed at a time."""
BINS = 8


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


def interval(samples: Floats) -> dict[str, float | None]:
    """Return the value of all rows and the ends of its interval; the first sample is that of all rows."""
    known = samples[1:][np.isfinite(samples[1:])]
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
    for block in range(0, len(counts), BLOCK):
        weights = counts[block : block + BLOCK, order].astype(np.float64)
        up = np.add.reduceat(weights * positive, starts, axis=1)
        down = np.add.reduceat(weights * (1 - positive), starts, axis=1)
        below = down.cumsum(1) - down / 2
        with np.errstate(invalid="ignore"):
            found[block : block + BLOCK] = (up * below).sum(1) / (up.sum(1) * down.sum(1))
    return found


def weighted_mean(values: Array, counts: Array) -> Floats:
    """Return the mean of the known values under each set of counts (R,)."""
    known = ~np.isnan(values)
    weights = counts[:, known].astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(weights @ values[known] / weights.sum(1), dtype=np.float64)


def number_metrics(y: Array, said: Array, counts: Array) -> dict[str, Floats]:
    """Return RMSE, MAE and R² of predicted values under each set of counts (R,)."""
    known = ~np.isnan(y)
    y, error, counts = y[known], (said - y)[known], counts[:, known]
    square = weighted_mean(error**2, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = weighted_mean(y**2, counts) - weighted_mean(y, counts) ** 2
        return {"rmse": np.sqrt(square), "mae": weighted_mean(np.abs(error), counts), "r2": 1 - square / spread}


def calibration(p: Sequence[float], happened: Sequence[float]) -> list[dict[str, float]]:
    """Return mean probability, observed share with its interval, and number of rows, in bins of equal size."""
    pairs = sorted(zip(p, happened, strict=True))
    if not pairs:
        return []
    bins = max(min(BINS, len(pairs) // 10), 1)
    found = []
    for some in np.array_split(np.array(pairs, dtype=float), bins):
        low, high = wilson(int(some[:, 1].sum()), len(some))
        middle = {"p": float(some[:, 0].mean()), "share": float(some[:, 1].mean())}
        found.append({**middle, "low": low, "high": high, "rows": len(some)})
    return found


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    share = hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def error_by(distance: Sequence[float], error: Sequence[float], bins: int = 5) -> list[dict[str, float]]:
    """Return the mean error in bins of about equally many rows, ordered by distance.

    Errors of 0 and 1 get Wilson's interval, other numbers the normal interval of their mean.
    """
    pairs = [pair for pair in zip(distance, error, strict=True) if all(map(math.isfinite, pair))]
    table, found = np.array(sorted(pairs), dtype=float).reshape(-1, 2), []
    for some in np.array_split(table, max(min(bins, len(table) // 10), 1)) if len(table) else ():
        values = some[:, 1]
        if set(np.unique(values)) <= {0.0, 1.0}:
            low, high = wilson(int(values.sum()), len(values))
        else:
            half = 1.96 * float(values.std()) / math.sqrt(len(values))
            low, high = float(values.mean()) - half, float(values.mean()) + half
        row = {"from": float(some[0, 0]), "to": float(some[-1, 0]), "middle": float(np.median(some[:, 0]))}
        found.append({**row, "error": float(values.mean()), "low": low, "high": high, "rows": len(some)})
    return found


def drift(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Compare properties of two samples, the most different first.

    ``ks`` is the Kolmogorov-Smirnov distance, 0 for equal and 1 for separate distributions; ``threshold`` is the one
    that equal distributions exceed in 1 % of the cases, divided over all properties (Bonferroni).
    """
    names = [name for name in one if name in other]
    found: list[dict[str, Any]] = []
    for name in names:
        a, b = (np.asarray(side[name], dtype=float) for side in (one, other))
        a, b = np.sort(a[np.isfinite(a)]), np.sort(b[np.isfinite(b)])
        if not len(a) or not len(b):
            continue
        both = np.concatenate([a, b])
        ks = np.abs(np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)).max()
        threshold = math.sqrt(-math.log(0.01 / len(names) / 2) * (len(a) + len(b)) / (2 * len(a) * len(b)))
        row = {"name": name, "ks": float(ks), "threshold": threshold, "drifts": bool(ks > threshold)}
        found.append({**row, "before": float(a.mean()), "now": float(b.mean())})
    return sorted(found, key=lambda row: -row["ks"])


def plain(value: float) -> float | None:
    """Return a number for JSON, None if it is not finite."""
    return round(float(value), 6) if math.isfinite(value) else None
