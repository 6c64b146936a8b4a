"""Choice of a setting by cross-validation that leaves out whole training environments.

A model that suits graphs from environments that training does not contain is more regular than the one that suits
further graphs of the same environments. Letters: G graphs, F columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from goodformer.spec import Task

Array = NDArray[Any]

Value = TypeVar("Value")
Fit = Callable[[Value, Any, Array, Array, float], Callable[[Any], Array]]
"""Fits to rows (G, F), labels (G,) and environments (G,) with a value of the setting; returns what scores rows. The
last argument is how many times as many graphs the final fit will have."""

FOLDS, SAMPLE, COLUMNS = 5, 5000, 3
"""Folds of the cross-validation, and the most graphs and targets that it looks at."""


def best_value(
    values: Sequence[Value],
    fit: Fit[Value],
    rows: Any,
    targets: Sequence[Array],
    env: Array,
    task: Task,
    seed: int,
    otherwise: Value,
) -> Value:
    """Return the value with the best mean score on left-out environments, the first one of equals.

    The score is ROC-AUC for binary targets, accuracy for classes and minus the squared error for measured values. For
    fewer environments than folds, graphs are left out at random. A sample of many graphs has as many of each class as
    possible.

    Args:
        values: The values to choose from.
        fit: Fits with one of them; scores are decision values, predicted classes or predicted values.
        rows: Inputs of all training graphs, an array or a sparse matrix (G, F).
        targets: Labels (G,) of each target, NaN for missing ones.
        env: Environment of each graph (G,).
        task: What is predicted.
        seed: Seed of the sample.
        otherwise: The value if no score is defined.
    """
    if len(values) == 1:
        return values[0]
    from sklearn.metrics import roc_auc_score

    random, total = np.random.default_rng(seed % 2**32), np.zeros(len(values))
    order = np.argsort([np.isnan(target).sum() for target in targets], kind="stable")
    for target in (targets[place] for place in order[:COLUMNS]):
        known = np.flatnonzero(~np.isnan(target))
        mixed = random.permutation(known)
        some = (mixed if task.measured else evenly(mixed, target))[:SAMPLE]
        inputs, y, groups = rows[some], target[some], env[some]
        fold = folds(groups)
        for held in (fold == number for number in range(FOLDS)):
            if len(np.unique(y[~held])) < 2 or len(np.unique(y[held])) < 2:
                continue
            for place, value in enumerate(values):
                scores = fit(value, inputs[~held], y[~held], groups[~held], len(known) / len(some))(inputs[held])
                if task.measured:
                    total[place] -= np.square(scores - y[held]).sum()
                elif task.kind == "binary":
                    total[place] += roc_auc_score(y[held], scores)
                else:
                    total[place] += np.mean(scores == y[held])
    return values[int(total.argmax())] if total.any() else otherwise


def evenly(places: Array, y: Array) -> Array:
    """Return places in an order in which classes take turns, until a class is used up."""
    codes = y[places]
    by_class = np.argsort(codes, kind="stable")
    _, start, size = np.unique(codes[by_class], return_index=True, return_counts=True)
    turn = np.empty(len(places), dtype=int)
    turn[by_class] = np.arange(len(places)) - np.repeat(start, size)
    return places[np.argsort(turn, kind="stable")]


def folds(env: Array) -> Array:
    """Return the fold of each graph (G,): whole environments, spread so that folds have similar sizes."""
    _, group, size = np.unique(env, return_inverse=True, return_counts=True)
    if len(size) < FOLDS:
        return np.arange(len(env)) % FOLDS
    fold, filled = np.zeros(len(size), dtype=int), np.zeros(FOLDS, dtype=int)
    for place in np.argsort(-size, kind="stable"):
        fold[place] = filled.argmin()
        filled[fold[place]] += size[place]
    return fold[group]
