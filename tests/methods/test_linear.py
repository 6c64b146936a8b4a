"""Logistic regression on counts: against scikit-learn, class shares, and the choice of the penalty."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Batch

from goodformer.methods.left_out import best_value
from goodformer.methods.linear import STRENGTHS, Linear
from goodformer.models.fingerprint import Fingerprint
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import batch

SPEC = FeatureSpec(Features.continuous(4))


def data(task: Task, sizes: tuple[int, ...] = (7, 9, 12, 5, 8, 20) * 6) -> Batch:
    """Labelled graphs; the mean of the first feature decides."""
    made = batch(sizes)
    mean = torch.zeros(len(sizes)).index_add(0, made.batch, made.x[:, 0]) / made.ptr.diff()
    made.y = (mean > 0.3).float()[:, None] if task.kind == "binary" else (mean > 0.3).long() + (mean > -0.3)
    return made


def fitted(task: Task, given: Batch, **settings: object) -> Linear:
    method = Linear(Fingerprint(SPEC, table=64), task, **settings)
    method.fit([given], seed=0)
    return method.eval()


@pytest.mark.parametrize("task", [Task("binary", 1, "rocauc"), Task("multiclass", 3)], ids=["binary", "classes"])
def test_probabilities_are_those_of_scikit_learn(task: Task) -> None:
    given = data(task)
    method = fitted(task, given, strength=0.3, balanced=False)
    counts = method.model.counts(given).double()
    further = counts[:, 64:]
    rows = torch.cat((counts[:, :64].log1p(), (further - further.mean(0)) / further.std(0, correction=0)), 1).numpy()
    expected = LogisticRegression(C=0.3, max_iter=1000).fit(rows, given.y.flatten().numpy()).predict_proba(rows)
    logits = method(given).double()
    found = torch.cat((1 - logits.sigmoid(), logits.sigmoid()), 1) if task.kind == "binary" else logits.softmax(-1)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_balanced_classes_do_not_change_the_mean_probability() -> None:
    task = Task("binary", 1, "rocauc")
    given = data(task)
    share = float(given.y.mean())
    assert share < 0.4
    plain, balanced = (fitted(task, given, strength=0.03, balanced=one)(given).sigmoid() for one in (False, True))
    assert abs(float(plain.mean()) - share) < 0.02
    assert abs(float(balanced.mean()) - share) < 0.08
    assert not torch.allclose(plain, balanced, atol=1e-3)


def test_the_penalty_suits_unseen_environments() -> None:
    """Column 0 predicts everywhere; one small column per environment predicts there alone and is noise elsewhere."""
    random = np.random.default_rng(0)
    env, y = np.repeat(np.arange(6), 100), random.integers(0, 2, 600)
    inputs = np.concatenate((random.normal(size=(600, 1)) + y[:, None], 0.1 * random.normal(size=(600, 6))), 1)
    inputs[np.arange(600), 1 + env] = 0.3 * (2 * y - 1)
    method = Linear(Fingerprint(SPEC, table=64), Task("binary", 1, "rocauc"))
    choices = [(0.0, strength) for strength in STRENGTHS]
    by_env, at_random = (
        best_value(choices, method._scorer, inputs, [y.astype(float)], groups, method.task, 0, choices[0])[1]
        for groups in (env, np.zeros(600))
    )
    assert by_env < at_random
