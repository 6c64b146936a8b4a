"""Paired differences between two rows of a comparison, with bootstrap intervals over test graphs.

Two rows are compared on the same test graphs. A difference is averaged over training seeds, each seed of one row paired
with the same seed of the other. The interval shows how far it depends on which graphs happen to be in the test set: the
trained models stay the same, and graphs are drawn again with replacement, the same draw for all seeds and rows. For
ROC-AUC, graphs are drawn within each class. Differences of RMSE are in its units; negative ones are improvements. Test
sets that share graphs, such as several splits of one data set, share their draws, too: the draw is of graphs, not of
places in a split.

Letters: G graphs of a test set, C outputs, R resamples, U different graphs of several test sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goodformer.engine import predictions
from goodformer.engine.bootstrap import BLOCK, draw, hits
from goodformer.engine.predictions import Kept
from goodformer.engine.store import PREDICTED, PREDICTIONS
from goodformer.report.records import Record
from goodformer.report.table import ABSENT, Cell
from goodformer.spec import percent

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

LEVEL, RESAMPLES, SEED = 0.95, 2_000, 20_260
NOT_KEPT, OTHER_GRAPHS = "not kept", "other test graphs"
"""Why there is no difference: a row has no predictions, or they are of other graphs."""
CELLS = 4_000_000
"""Pairs of graphs that are compared at a time."""


@dataclass(frozen=True)
class Pair:
    """Predictions of two rows for the same test graphs.

    Attributes:
        metric: ``accuracy``, ``rocauc`` or ``rmse``.
        y: Classes (G,), or binary or measured targets (G, T) with NaN for missing labels.
        graphs: A key of each graph (G,); equal keys are the same graph.
        group: Data sets of one group may share graphs.
        seeds: Training seeds that both rows have.
        first: Logits of the one row for each of these seeds, each (G, C).
        second: Logits of the other.
    """

    metric: str
    y: Array
    graphs: Array
    group: str
    seeds: tuple[int, ...]
    first: tuple[Array, ...]
    second: tuple[Array, ...]


@dataclass(frozen=True)
class Difference:
    """A mean difference of a metric, first row minus second, and its interval.

    Attributes:
        mean: The difference, averaged over seeds, splits and data sets.
        low, high: Ends of the interval.
        samples: The difference in each resample (R,).
        seeds: Training seeds that entered.
        graphs: Number of different test graphs.
        unit: Factor by which a difference is shown: 100 for shares.
    """

    mean: float
    low: float
    high: float
    samples: Floats
    seeds: tuple[int, ...]
    graphs: int
    unit: float = 100.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in percentage points or in the units of RMSE."""
        ends = {"mean": self.unit * self.mean, "low": self.unit * self.low, "high": self.unit * self.high}
        return {**ends, "level": LEVEL, "graphs": self.graphs, "seeds": list(self.seeds)}


# Statistics -----------------------------------------------------------------------------------------------------------


def differences(
    parts: Sequence[Sequence[Pair]], resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[Difference, list[Difference]]:
    """Return the mean difference over data sets, and the difference on each, averaged over its splits.

    Args:
        parts: For each data set the predictions for the test graphs of each of its splits.
        resamples: Number of bootstrap resamples.
        seed: Seed of the draws.
    """
    pairs = [pair for part in parts for pair in part]
    found, samples, graphs = np.empty(len(pairs)), np.empty((len(pairs), resamples)), 0
    for group in dict.fromkeys(pair.group for pair in pairs):
        places = [place for place, pair in enumerate(pairs) if pair.group == group]
        keys, units = np.unique(np.concatenate([pairs[place].graphs for place in places]), return_inverse=True)
        own = np.split(units, np.cumsum([len(pairs[place].y) for place in places])[:-1])  # (G,) each
        strata = np.zeros(len(keys), dtype=np.int64)
        for place, rows in zip(places, own, strict=True):
            strata[rows] = _strata(pairs[place])
        counts = draw(strata, resamples, np.random.default_rng([seed, *group.encode()]))  # (R, U)
        for place, rows in zip(places, own, strict=True):
            found[place] = contrast(pairs[place], np.ones((1, len(rows)), np.float32))[0]
            for block in range(0, resamples, BLOCK):
                weights = counts[block : block + BLOCK, rows].astype(np.float32)
                samples[place, block : block + BLOCK] = contrast(pairs[place], weights)
        graphs += len(keys)
    ends = np.cumsum([len(part) for part in parts])
    each = [
        _of_part(part, found[end - len(part) : end], samples[end - len(part) : end])
        for part, end in zip(parts, ends, strict=True)
    ]
    seeds = set.intersection(*(set(one.seeds) for one in each))
    mean = interval(
        float(np.mean([one.mean for one in each])),
        np.mean([one.samples for one in each], 0),
        tuple(sorted(seeds)),
        graphs,
        percent(pairs[0].metric),
    )
    return mean, each


def _of_part(part: Sequence[Pair], found: Floats, samples: Floats) -> Difference:
    """Return the mean difference over the splits of one data set."""
    seeds = set.intersection(*(set(pair.seeds) for pair in part))
    graphs = len(np.unique(np.concatenate([pair.graphs for pair in part])))
    return interval(float(found.mean()), samples.mean(0), tuple(sorted(seeds)), graphs, percent(part[0].metric))


def interval(mean: float, samples: Floats, seeds: tuple[int, ...], graphs: int, unit: float = 100.0) -> Difference:
    """Return a difference with the percentile interval of its resamples."""
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(samples, [tail, 1 - tail]) if np.isfinite(samples).any() else (np.nan, np.nan)
    return Difference(mean, float(low), float(high), samples, seeds, graphs, unit)


def _strata(pair: Pair) -> Array:
    """Return the stratum of each graph: its class for ROC-AUC with one target, else 0 for all."""
    single = pair.metric == "rocauc" and pair.y.ndim == 2 and pair.y.shape[1] == 1
    return np.nan_to_num(pair.y[:, 0], nan=-1).astype(np.int64) if single else np.zeros(len(pair.y), np.int64)


def contrast(pair: Pair, weights: npt.NDArray[np.float32]) -> Floats:
    """Return the difference of the metric with each set of weights of the graphs (R, G), averaged over seeds (R,)."""
    if pair.metric == "accuracy":
        kind, y = "multiclass" if pair.y.ndim == 1 else "binary", pair.y.reshape(len(pair.y), -1)  # (G, T)
        known = (~np.isnan(y)).sum(1)  # (G,)
        gains = [
            np.nansum(hits(kind, a, y) - hits(kind, b, y), 1) for a, b in zip(pair.first, pair.second, strict=True)
        ]
        return np.asarray((weights @ np.mean(gains, 0)) / (weights @ known), dtype=np.float64)
    if pair.metric == "rmse":
        gains = [
            _rmse(a, pair.y, weights) - _rmse(b, pair.y, weights) for a, b in zip(pair.first, pair.second, strict=True)
        ]
        return np.asarray(np.mean(gains, 0), dtype=np.float64)
    targets = pair.y if pair.y.ndim == 2 else (pair.y[:, None] == np.arange(pair.first[0].shape[1])).astype(float)
    own, other = ([_columns(logits, pair.y) for logits in side] for side in (pair.first, pair.second))
    values = []
    for column, target in enumerate(targets.T):
        positive, negative = np.flatnonzero(target == 1), np.flatnonzero(target == 0)
        if not len(positive) or not len(negative):
            continue
        sides = [[logits[:, column] for logits in side] for side in (own, other)]
        gained = _rank_gain(sides[0], sides[1], positive, negative, weights)
        with np.errstate(invalid="ignore"):  # a resample without one of the classes
            values.append(gained / (weights[:, positive].sum(1) * weights[:, negative].sum(1)))
    return np.mean(values, 0) if values else np.full(len(weights), np.nan)


def _rmse(values: Array, y: Array, weights: npt.NDArray[np.float32]) -> Floats:
    """Return the RMSE of values (G, T) with each set of weights (R, G), averaged over targets with labels (R,)."""
    known = ~np.isnan(y)  # (G, T)
    squares = np.where(known, np.square(values.astype(np.float64) - np.nan_to_num(y)), 0.0)
    labels, total = weights.astype(np.float64) @ known, weights.astype(np.float64) @ squares  # (R, T)
    roots = np.sqrt(np.divide(total, labels, out=np.full_like(total, np.nan), where=labels > 0))
    there = known.any(0)
    return np.asarray(roots[:, there].mean(1) if there.any() else np.full(len(weights), np.nan))


def _columns(logits: Array, y: Array) -> Array:
    """Return the scores that are ranked: logits of binary targets, log-probabilities of classes."""
    if y.ndim == 2:
        return logits
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


def _rank_gain(
    first: Sequence[Array], second: Sequence[Array], positive: Array, negative: Array, weights: npt.NDArray[np.float32]
) -> Floats:
    """Return the weighted number of pairs that the first row orders rightly more often than the second (R,).

    A pair of a positive and a negative counts 1 if the positive has the higher score and 1/2 if both are equal. The
    mean over seeds of the difference of two such counts is one matrix, whatever the number of seeds, and a resample
    weighs its rows and columns.
    """
    total = np.zeros(len(weights))
    step = max(1, CELLS // len(negative))
    for start in range(0, len(positive), step):
        some = positive[start : start + step]
        gain = np.zeros((len(some), len(negative)), np.float32)
        for sign, side in ((0.5, first), (-0.5, second)):
            for scores in side:
                high, low = scores[some][:, None], scores[negative][None]
                gain += np.float32(sign / len(side)) * ((high > low).astype(np.float32) + (high >= low))
        total += ((weights[:, some] @ gain) * weights[:, negative]).sum(1, dtype=np.float64)
    return total


# Records --------------------------------------------------------------------------------------------------------------


class PredictionStore:
    """Finds the predictions of records: in the folders of runs, and beside files of records.

    Args:
        root: Folder of runs.
        sources: Files and folders of records.
    """

    def __init__(self, root: Path, sources: Sequence[Path] = ()) -> None:
        self.root = root
        self.folders = [(source if source.is_dir() else source.parent) / PREDICTIONS for source in sources]
        self._read: dict[str, dict[str, Kept] | None] = {}

    def kept(self, record: Record, folder: str) -> dict[str, Kept] | None:
        """Return the predictions of a run by split; None if they were not kept.

        Args:
            record: The record of the run.
            folder: Name of its folder below ``root``.
        """
        entry = record.get("predictions")
        if not entry:
            return None
        if record["id"] not in self._read:
            paths = [self.root / folder / PREDICTED, *(place / f"{record['id']}.npz" for place in self.folders)]
            path = next((path for path in paths if path.is_file()), None)
            self._read[record["id"]] = None if path is None else predictions.read(path, entry["sha256"])
        return self._read[record["id"]]


@dataclass(frozen=True)
class RowPredictions:
    """The predictions of one row for one test set.

    Attributes:
        metric: The metric of the task.
        group: The name of the data set.
        runs: For each seed the fingerprint of the test graphs and the predictions.
    """

    metric: str
    group: str
    runs: Mapping[int, tuple[str, Kept]]


def pair_up(first: RowPredictions, second: RowPredictions) -> Pair | str:
    """Return the predictions that two rows have for the same test graphs, or why there are none."""
    seeds = [seed for seed in first.runs if seed in second.runs]
    if not seeds:
        return NOT_KEPT
    graphs = {held.runs[seed][0] for held in (first, second) for seed in seeds}
    if len(graphs) > 1 or first.metric != second.metric:
        return OTHER_GRAPHS
    one = first.runs[seeds[0]][1]
    sides = (tuple(held.runs[seed][1].logits for seed in seeds) for held in (first, second))
    return Pair(first.metric, one.y, one.graphs, first.group, tuple(seeds), *sides)


def cell(found: Mapping[str, Any] | str | None, wanted: int) -> Cell:
    """Return the cell of a difference: ``+1.23 [-0.40, +2.86]`` in points or units of RMSE, or why there is none.

    Args:
        found: What `Difference.to_dict` returned, a reason, or None for the row that all others are compared with.
        wanted: The number of seeds that the table has.
    """
    if found is None or isinstance(found, str):
        return Cell(found or ABSENT)
    some = len(found["seeds"])
    remark = f" ({some} of {wanted} seeds)" if some < wanted else ""
    return Cell(f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]{remark}", found["mean"])
