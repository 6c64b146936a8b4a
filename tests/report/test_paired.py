"""Paired differences against scikit-learn, closed forms and simulations."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from goodformer.engine.evaluate import rocauc
from goodformer.engine.predictions import Kept
from goodformer.report import paired
from goodformer.report.paired import Pair, RowPredictions, contrast, differences, pair_up

Array = npt.NDArray[np.float64]


def scores(y: Array, strength: float, random: np.random.Generator, digits: int = 9) -> Array:
    """Scores that follow a label, as logits (G, 1)."""
    return (strength * y + random.normal(size=y.shape)).round(digits)


def binary(graphs: int = 300, seeds: int = 1, gap: float = 0.5, seed: int = 0, digits: int = 9) -> Pair:
    """Two rows on one test set; the first is better by ``gap``, and both make much the same mistakes."""
    random = np.random.default_rng(seed)
    y = (random.random((graphs, 1)) < 0.3).astype(float)
    shared = random.normal(size=y.shape)
    rows = [
        tuple((shared + scores(y, 1 + gap * better, random, digits)).round(digits) for _ in range(seeds))
        for better in (1, 0)
    ]
    return Pair("rocauc", y, np.arange(graphs), "toy", tuple(range(seeds)), *rows)


def one(pair: Pair, **options: int) -> paired.Difference:
    return differences([[pair]], **options)[0]


@pytest.mark.parametrize("digits", [9, 0])  # without and with ties
def test_the_difference_is_that_of_scikit_learn(digits: int) -> None:
    pair = binary(seeds=3, digits=digits)
    expected = np.mean(
        [roc_auc_score(pair.y, a) - roc_auc_score(pair.y, b) for a, b in zip(pair.first, pair.second, strict=True)]
    )
    assert one(pair, resamples=10).mean == pytest.approx(expected)


def test_a_difference_of_rmse_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(3)
    y = random.normal(size=(60, 2))
    sides = [tuple(y + scale * random.normal(size=y.shape) for _ in range(2)) for scale in (0.5, 1.0)]
    y[::7, 1] = np.nan
    pair = Pair("rmse", y, np.arange(60), "toy", (0, 1), *sides)

    def rmse(values: Array, weight: Array) -> float:
        return float(
            np.mean(
                [
                    root_mean_squared_error(y[known, column], values[known, column], sample_weight=weight[known])
                    for column in range(2)
                    if (known := ~np.isnan(y[:, column])).any()
                ]
            )
        )

    weights = random.integers(0, 4, (4, 60)).astype(np.float32)
    for weight, found in zip(weights, contrast(pair, weights), strict=True):
        each = [rmse(a, weight) - rmse(b, weight) for a, b in zip(*sides, strict=True)]
        assert found == pytest.approx(np.mean(each), abs=1e-6)
    whole = one(pair, resamples=200)
    assert whole.high < 0, "the first row is better, that is, lower"
    assert whole.to_dict()["mean"] == pytest.approx(whole.mean), "in units of RMSE, not in points"


def test_a_resample_is_that_of_scikit_learn() -> None:
    pair, random = binary(seeds=2, digits=1), np.random.default_rng(1)
    weights = random.integers(0, 4, (5, len(pair.y))).astype(np.float32)
    for weight, found in zip(weights, contrast(pair, weights), strict=True):
        each = [
            roc_auc_score(pair.y, a, sample_weight=weight) - roc_auc_score(pair.y, b, sample_weight=weight)
            for a, b in zip(pair.first, pair.second, strict=True)
        ]
        assert found == pytest.approx(np.mean(each), abs=1e-6)


def test_several_targets_with_missing_labels_and_classes_are_those_of_the_engine() -> None:
    random = np.random.default_rng(2)
    y = random.integers(0, 2, (80, 3)).astype(float)
    y[random.random(y.shape) < 0.2] = np.nan
    y[:, 2] = np.where(np.isnan(y[:, 2]), np.nan, 1.0)  # one class only
    several = Pair(
        "rocauc", y, np.arange(80), "toy", (0,), (random.normal(size=y.shape),), (random.normal(size=y.shape),)
    )
    classes = Pair("rocauc", random.integers(0, 3, 80), several.graphs, "toy", (0,), several.first, several.second)
    for pair in (several, classes):
        expected = (rocauc(pair.first[0], pair.y) or 0) - (rocauc(pair.second[0], pair.y) or 0)
        found = one(pair, resamples=200)
        assert found.mean == pytest.approx(expected, abs=1e-6)
        assert found.low < expected < found.high


def test_accuracy_counts_right_predictions() -> None:
    random = np.random.default_rng(3)
    y = random.integers(0, 3, 400)
    right = np.eye(3)[y]
    half = np.where(np.arange(400)[:, None] % 2, right, np.roll(right, 1, 1))
    found = one(Pair("accuracy", y, np.arange(400), "toy", (0,), (right,), (half,)))
    assert found.mean == pytest.approx(0.5)
    # Half of the graphs differ, by 1: a binomial share.
    assert found.high - found.low == pytest.approx(2 * 1.96 * (0.25 / 400) ** 0.5, rel=0.08)
    missing = np.array([[1.0, np.nan], [0.0, 1.0]])
    logits = np.array([[1.0, 1.0], [1.0, 1.0]])
    pair = Pair("accuracy", missing, np.arange(2), "toy", (0,), (logits,), (-logits,))
    assert one(pair, resamples=5).mean == pytest.approx(2 / 3 - 1 / 3)


def delong(pair: Pair) -> float:
    """The standard error of a difference of two ROC-AUCs after DeLong et al. (1988)."""
    up, down = (pair.y[:, 0] == value for value in (1, 0))
    wins = [np.sign(s[up][:, None] - s[down][None]) / 2 for s in (pair.first[0][:, 0], pair.second[0][:, 0])]
    gain = wins[0] - wins[1]
    return float((gain.mean(1).var(ddof=1) / up.sum() + gain.mean(0).var(ddof=1) / down.sum()) ** 0.5)


def test_the_interval_is_as_wide_as_that_of_delong() -> None:
    pair = binary(graphs=600)
    found = one(pair)
    assert found.samples.std() == pytest.approx(delong(pair), rel=0.07)
    assert found.high - found.low == pytest.approx(2 * 1.96 * delong(pair), rel=0.08)
    flat = (np.zeros_like(pair.y),)
    alone = [one(replace(pair, first=row, second=flat)).samples.std() for row in (pair.first, pair.second)]
    assert found.samples.std() < 0.85 * np.hypot(*alone)  # the rows share some of their mistakes


def test_the_interval_covers_the_true_difference() -> None:
    """Normal scores have a known ROC-AUC; 95 % intervals should contain it about 95 times of 100."""
    truth = stats.norm.cdf(1.5 / 2) - stats.norm.cdf(1.0 / 2)  # both parts of a score have variance 1, two scores 4
    hits = []
    for seed in range(150):
        found = one(binary(graphs=250, seed=seed), resamples=300)
        hits.append(found.low <= truth <= found.high)
    assert 0.88 < np.mean(hits) < 0.99


def test_graphs_shared_by_splits_are_drawn_together() -> None:
    """Five times the same test set is no more evidence than one; five different ones are."""
    pair = binary(graphs=300)
    alone, same = one(pair), differences([[pair] * 5])[0]
    assert (same.low, same.high, same.graphs) == pytest.approx((alone.low, alone.high, 300))
    others = [replace(binary(graphs=300, seed=seed), graphs=np.arange(300) + 300 * seed) for seed in range(5)]
    mean, (each,) = differences([others])
    assert mean.graphs == 1500
    assert each.samples.std() == pytest.approx(alone.samples.std() / 5**0.5, rel=0.25)
    apart = [replace(pair, group=f"set {number}") for number in range(4)]
    mean, parts = differences([[one] for one in apart])
    assert mean.samples.std() == pytest.approx(np.mean([part.samples.std() for part in parts]) / 2, rel=0.15)


def test_data_sets_count_once_whatever_the_number_of_their_splits() -> None:
    better, equal = binary(gap=2.0), replace(binary(gap=0.0), group="other")
    mean, (first, second) = differences([[better, better, better], [equal]], resamples=20)
    assert mean.mean == pytest.approx((first.mean + second.mean) / 2)
    assert first.mean == pytest.approx(one(better, resamples=20).mean)


def test_equal_rows_do_not_differ_and_draws_are_repeatable() -> None:
    pair = binary()
    same = one(replace(pair, second=pair.first))
    assert (same.mean, same.low, same.high) == (0, 0, 0)
    assert one(pair).low == one(pair).low


def test_two_thousand_resamples_of_four_thousand_graphs_take_seconds() -> None:
    pair = binary(graphs=4000, seeds=3)
    start = time.process_time()
    one(pair)
    assert time.process_time() - start < 8  # about 1.5 on a free processor


def kept(seed: int, graphs: str = "a") -> tuple[str, Kept]:
    return graphs, Kept(np.full((2, 1), float(seed)), np.array([[0.0], [1.0]]), np.arange(2, dtype=np.uint32))


def test_seeds_and_graphs_must_be_the_same() -> None:
    first = RowPredictions("rocauc", "toy", {seed: kept(seed) for seed in (0, 1, 2)})
    pair = pair_up(first, RowPredictions("rocauc", "toy", {seed: kept(10 + seed) for seed in (2, 1, 5)}))
    assert isinstance(pair, Pair)
    assert pair.seeds == (1, 2)
    assert [logits[0, 0] for logits in (*pair.first, *pair.second)] == [1, 2, 11, 12]
    assert pair_up(first, RowPredictions("rocauc", "toy", {})) == paired.NOT_KEPT
    assert pair_up(first, RowPredictions("rocauc", "toy", {7: kept(7)})) == paired.NOT_KEPT
    assert pair_up(first, RowPredictions("rocauc", "toy", {0: kept(0, "b")})) == paired.OTHER_GRAPHS


def test_a_cell_shows_the_difference_in_points() -> None:
    found = one(binary(seeds=2), resamples=50).to_dict()
    text = paired.cell(found, 2).text
    assert text == f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"
    assert paired.cell(found, 3).text.endswith("(2 of 3 seeds)")
    assert (paired.cell(None, 3).text, paired.cell(paired.NOT_KEPT, 3).text) == ("-", "not kept")
