from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, ks_2samp
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score, root_mean_squared_error

from goodformer.pages import statistics
from goodformer.pages.answers import Answers, tiles, verdict
from goodformer.pages.page import percent

RANDOM = np.random.default_rng(0)


def test_roc_auc_is_that_of_sklearn_under_any_counts() -> None:
    y = RANDOM.integers(0, 2, 80).astype(float)
    score = np.round(RANDOM.normal(size=80) + y, 1)  # with ties
    counts = RANDOM.integers(0, 4, (120, 80))
    found = statistics.roc_auc(y, score, counts)
    expected = [roc_auc_score(y, score, sample_weight=some) for some in counts]
    assert found == pytest.approx(expected)


def test_rows_without_a_label_do_not_count() -> None:
    y, score = np.array([0, 1, np.nan, 1, 0]), np.array([0.1, 0.9, 5.0, 0.8, 0.2])
    assert statistics.roc_auc(y, score, np.ones((1, 5)))[0] == 1.0
    assert np.isnan(statistics.roc_auc(y[2:4], score[2:4], np.ones((1, 2)))[0])
    assert statistics.weighted_mean(np.array([1.0, np.nan, 0.0]), np.array([[3, 9, 1]]))[0] == 0.75


def test_metrics_of_measured_values_are_those_of_sklearn() -> None:
    y, said = RANDOM.normal(size=60), RANDOM.normal(size=60)
    y[5] = np.nan
    counts = RANDOM.integers(0, 3, (1, 60))
    found = {name: values[0] for name, values in statistics.number_metrics(y, said, counts).items()}
    known = ~np.isnan(y)
    both = (y[known], said[known])
    weight = counts[0, known]
    assert found["rmse"] == pytest.approx(root_mean_squared_error(*both, sample_weight=weight))
    assert found["mae"] == pytest.approx(mean_absolute_error(*both, sample_weight=weight))
    assert found["r2"] == pytest.approx(r2_score(*both, sample_weight=weight))


def test_the_interval_of_a_mean_is_about_the_normal_one() -> None:
    values = RANDOM.normal(size=(400, 1))
    found = statistics.interval(statistics.weighted_mean(values[:, 0], statistics.resamples(values)))
    half = 1.96 * values.std() / 20
    assert found["value"] == pytest.approx(values.mean(), abs=1e-6)
    assert found["low"] == pytest.approx(values.mean() - half, abs=0.3 * half)
    assert found["high"] == pytest.approx(values.mean() + half, abs=0.3 * half)


def test_resamples_keep_the_number_of_each_class() -> None:
    y = np.array([0.0] * 7 + [1.0] * 3)[:, None]
    counts = statistics.resamples(y)
    assert (counts[0] == 1).all()
    assert (counts[:, :7].sum(1) == 7).all()
    assert (counts[:, 7:].sum(1) == 3).all()


@pytest.mark.parametrize(("hits", "count"), [(0, 12), (3, 40), (9, 9)])
def test_wilson_is_that_of_scipy(hits: int, count: int) -> None:
    known = binomtest(hits, count).proportion_ci(0.95, "wilson")
    assert statistics.wilson(hits, count) == pytest.approx((known.low, known.high), abs=1e-4)


def test_drift_is_ordered_by_the_distance_of_scipy() -> None:
    before = {"same": RANDOM.normal(size=300).tolist(), "moved": RANDOM.normal(size=300).tolist(), "gone": [1.0]}
    now = {"same": RANDOM.normal(size=200).tolist(), "moved": RANDOM.normal(2, size=200).tolist()}
    found = statistics.drift(before, now)
    assert [row["name"] for row in found] == ["moved", "same"]
    assert [row["drifts"] for row in found] == [True, False]
    for row in found:
        assert row["ks"] == pytest.approx(ks_2samp(before[row["name"]], now[row["name"]]).statistic)


def test_calibration_of_honest_probabilities_lies_on_the_diagonal() -> None:
    p = RANDOM.uniform(size=20_000)
    bins = statistics.calibration(p.tolist(), (RANDOM.uniform(size=20_000) < p).astype(float).tolist())
    assert len(bins) == statistics.BINS
    assert sum(one["rows"] for one in bins) == 20_000
    assert all(one["low"] <= one["share"] <= one["high"] for one in bins)
    assert all(abs(one["p"] - one["share"]) < 0.02 for one in bins)
    shifted = statistics.calibration(p.tolist(), [1.0] * 20_000)
    assert {one["share"] for one in shifted} == {1.0}


def test_errors_are_averaged_by_distance() -> None:
    found = statistics.error_by([0.1] * 20 + [0.9] * 20, [1.0] * 20 + [0.0] * 20, bins=2)
    assert [(one["middle"], one["error"], one["rows"]) for one in found] == [(0.1, 1.0, 20), (0.9, 0.0, 20)]
    assert statistics.error_by([], []) == []


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "0%"), (1 / 297, "<1%"), (0.006, "1%"), (0.5, "50%"), (0.994, "99%"), (296 / 297, ">99%"), (1.0, "100%")],
)
def test_a_share_is_none_or_all_only_if_it_is(share: float, shown: str) -> None:
    assert percent(share) == shown


def test_one_row_of_many_outside_the_domain_is_not_none() -> None:
    rows = 297
    found = Answers({}, rows, [], [[1.0] * rows], [{}], [None], None, None, None, None, None, None, {})
    known = {"parts": {"id_test": {"outside": [True] + [False] * 999}}, "similarity": "distance"}
    assert verdict(found, 1 / rows, [], known)["text"].startswith("<1% of 297 rows")
    assert "ID test: <1%" in verdict(found, 1 / rows, [], known)["text"]
    assert tiles(found, 1 / rows, [], (np.zeros((0, 1)), None), known)[1]["value"] == "<1%"
