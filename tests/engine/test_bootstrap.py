"""Metrics under any counts of rows, and their intervals."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score, root_mean_squared_error

from goodformer.engine import bootstrap
from goodformer.engine.evaluate import _target_metrics
from goodformer.spec import Task

RANDOM = np.random.default_rng(0)


def test_roc_auc_is_that_of_sklearn_under_any_counts() -> None:
    y = RANDOM.integers(0, 2, 80).astype(float)
    score = np.round(RANDOM.normal(size=80) + y, 1)  # with ties
    counts = RANDOM.integers(0, 4, (120, 80))
    found = bootstrap.roc_auc(y, score, counts)
    expected = [roc_auc_score(y, score, sample_weight=some) for some in counts]
    assert found == pytest.approx(expected)


def test_rows_without_a_label_do_not_count() -> None:
    y, score = np.array([0, 1, np.nan, 1, 0]), np.array([0.1, 0.9, 5.0, 0.8, 0.2])
    assert bootstrap.roc_auc(y, score, np.ones((1, 5)))[0] == 1.0
    assert np.isnan(bootstrap.roc_auc(y[2:4], score[2:4], np.ones((1, 2)))[0])
    assert bootstrap.weighted_mean(np.array([1.0, np.nan, 0.0]), np.array([[3, 9, 1]]))[0] == 0.75


def test_metrics_of_measured_values_are_those_of_sklearn() -> None:
    y, said = RANDOM.normal(size=60), RANDOM.normal(size=60)
    y[5] = np.nan
    counts = RANDOM.integers(0, 3, (1, 60))
    found = {name: values[0] for name, values in bootstrap.number_metrics(y, said, counts).items()}
    known = ~np.isnan(y)
    both = (y[known], said[known])
    weight = counts[0, known]
    assert found["rmse"] == pytest.approx(root_mean_squared_error(*both, sample_weight=weight))
    assert found["mae"] == pytest.approx(mean_absolute_error(*both, sample_weight=weight))
    assert found["r2"] == pytest.approx(r2_score(*both, sample_weight=weight))


def test_the_interval_of_a_mean_is_about_the_normal_one() -> None:
    values = RANDOM.normal(size=(400, 1))
    found = bootstrap.interval(bootstrap.weighted_mean(values[:, 0], bootstrap.resamples(values)))
    half = 1.96 * values.std() / 20
    assert found["value"] == pytest.approx(values.mean(), abs=1e-6)
    assert found["low"] == pytest.approx(values.mean() - half, abs=0.3 * half)
    assert found["high"] == pytest.approx(values.mean() + half, abs=0.3 * half)


def test_resamples_keep_the_number_of_each_class() -> None:
    y = np.array([0.0] * 7 + [1.0] * 3)[:, None]
    counts = bootstrap.resamples(y)
    assert (counts[0] == 1).all()
    assert (counts[:, :7].sum(1) == 7).all()
    assert (counts[:, 7:].sum(1) == 3).all()


def test_few_rows_have_a_value_but_no_interval() -> None:
    task = Task("binary", 1, "rocauc")
    for rows in (bootstrap.FEWEST - 1, bootstrap.FEWEST):
        labels, said = np.arange(rows)[:, None] % 2.0, RANDOM.normal(size=(rows, 1))
        entry = bootstrap.metrics(task, ["y"], labels, said, others={"forest": -said})[0]
        other = entry["others"]["forest"]
        assert (entry["rows"], entry["value"] is None) == (rows, False)
        for one in (entry, other, other["difference"]):
            assert (one["low"] is None) == (one["high"] is None) == (rows < bootstrap.FEWEST)


def test_metrics_are_computed_some_resamples_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of all resamples together would take 8 MB."""
    y, counts = RANDOM.normal(size=2000), RANDOM.integers(0, 4, (501, 2000)).astype(np.uint8)
    y[3] = np.nan
    said = np.nan_to_num(y) + RANDOM.normal(size=2000)
    whole = bootstrap.number_metrics(y, said, counts)
    monkeypatch.setattr(bootstrap, "CELLS", 10_000)
    tracemalloc.start()
    found = bootstrap.number_metrics(y, said, counts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * counts.nbytes
    for name, values in found.items():
        np.testing.assert_allclose(values, whole[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.1, 1e6 + 0.1])
def test_equal_values_have_no_variance_to_explain(value: float) -> None:
    y = np.full(7, value)
    found = bootstrap.number_metrics(y, y + 0.5, bootstrap.resamples(y))
    assert np.isnan(found["r2"]).all()
    assert found["rmse"] == pytest.approx(0.5)
    assert _target_metrics(y + 0.5, y)["r2"] is None


def test_variance_far_from_zero_is_not_rounded_away() -> None:
    random = np.random.default_rng(0)
    y = 1e6 + random.normal(0, 0.01, 50)
    said = y + random.normal(0, 0.005, 50)
    found = bootstrap.number_metrics(y, said, np.ones((1, 50)))["r2"]
    assert found[0] == pytest.approx(r2_score(y, said), abs=1e-6)
    assert _target_metrics(said, y)["r2"] == pytest.approx(r2_score(y, said), abs=1e-6)
