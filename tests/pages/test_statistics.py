from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, ks_2samp

from goodformer.pages import statistics
from goodformer.pages.answers import Answers, tiles, verdict
from goodformer.pages.page import percent

RANDOM = np.random.default_rng(0)


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
