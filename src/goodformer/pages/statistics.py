"""Calibration curves, errors by distance, and how far two samples differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BINS = 8


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
