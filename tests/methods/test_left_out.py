"""Choice of a setting on left-out environments: its folds, its samples and its scores."""

from __future__ import annotations

import numpy as np
import pytest

from goodformer.methods import left_out
from goodformer.methods.left_out import best_value, evenly, folds
from goodformer.spec import Task


def test_folds_hold_whole_environments_of_similar_total_size() -> None:
    env = np.repeat(np.arange(7), [40, 5, 30, 10, 12, 20, 3])
    fold = folds(env)
    assert all(len(np.unique(fold[env == one])) == 1 for one in range(7))
    assert sorted(np.bincount(fold)) == [15, 15, 20, 30, 40]
    assert np.bincount(folds(np.zeros(31))).tolist() == [7, 6, 6, 6, 6]  # one environment: graph by graph


def test_a_sample_has_as_many_of_each_class_as_possible() -> None:
    y = np.array([0, 0, 0, 0, 1, 0, 0, 1, 0, 0])
    assert y[evenly(np.arange(10), y)].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert sorted(evenly(np.array([7, 3, 4]), y)) == [3, 4, 7]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_the_value_with_the_best_scores_wins(kind: str) -> None:
    """Rows are the labels; a value of 2 returns them unchanged, and others spoil them more the farther they are."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3 if kind == "multiclass" else 2, 300).astype(float)
    task = {
        "binary": Task("binary", 1, "rocauc"),
        "multiclass": Task("multiclass", 3),
        "regression": Task("regression", 1, "rmse", centre=(0.0,), scale=(1.0,)),
    }[kind]
    noise = random.normal(size=300)

    def fit(value: int, rows: np.ndarray, labels: np.ndarray, env: np.ndarray, more: float) -> object:
        assert more == 1
        spoiled = abs(value - 2)
        return lambda held: np.round(held[:, 0] + spoiled * held[:, 1])

    rows, env = np.stack((y, noise), 1), np.arange(300) % 7
    assert best_value((1, 2, 3), fit, rows, [y], env, task, 0, 1) == 2
    assert best_value((3, 4, 2), fit, rows, [y], env, task, 0, 3) == 2
    assert best_value((3, 4, 2), fit, rows, [np.zeros(300)], env, task, 0, 4) == 4  # no score
    assert best_value((5,), fit, rows, [y], env, task, 0, 4) == 5  # nothing to choose


def test_whole_environments_are_left_out_of_a_sample_of_the_fullest_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fit has seen says which environments and targets it was given."""
    monkeypatch.setattr(left_out, "SAMPLE", 100)
    random = np.random.default_rng(0)
    env = np.repeat(np.arange(10), 30)
    targets = [random.integers(0, 2, 300).astype(float) for _ in range(4)]
    targets[1][20:] = np.nan  # the emptiest one is not looked at
    rows = np.stack((env, np.arange(300), *targets), 1)
    seen: set[int] = set()

    def fit(value: int, some: np.ndarray, labels: np.ndarray, groups: np.ndarray, more: float) -> object:
        assert more == 3
        assert np.array_equal(groups, some[:, 0])
        seen.update(place for place in range(4) if np.array_equal(some[:, 2 + place], labels))

        def score(held: np.ndarray) -> np.ndarray:
            assert not set(held[:, 0]) & set(some[:, 0])
            return held[:, 1]

        return score

    assert best_value((1, 2), fit, rows, targets, env, Task("binary", 4, "rocauc"), 0, 2) == 1
    assert seen == {0, 2, 3}
