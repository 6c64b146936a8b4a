"""The Gaussian process: its posterior mean, the choice of its kernel, missing labels and more graphs than it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.stats import multivariate_normal, spearmanr
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score

from goodformer.errors import InputError
from goodformer.methods.gaussian import SPREAD, START, GaussianProcess, likeliest
from goodformer.models.fingerprint import Fingerprint
from goodformer.nn.kernel import combined
from goodformer.spec import Features, FeatureSpec, Task

SPEC = FeatureSpec(node=Features("categorical", (5,)))
MEASURED = Task("regression", 1, "rmse", centre=(0.0,), scale=(1.0,))
TABLE, GRAPHS = 40, 150


def data(noise: float = 0.1, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Counts (G, F) and a measured value that some of them explain."""
    random = np.random.default_rng(seed)
    counts = random.poisson(0.7, (GRAPHS, TABLE)).astype(np.float32)
    y = np.log1p(counts[:, :6]) @ np.array([1.0, -1.0, 0.7, 0.5, -0.5, 1.2])
    return csr_matrix(counts), (y - y.mean()) / y.std() + noise * random.normal(size=GRAPHS)


def fitted(counts: Any, y: np.ndarray, task: Task = MEASURED, **settings: Any) -> GaussianProcess:
    method = GaussianProcess(Fingerprint(SPEC, table=TABLE), task, **settings)
    method.learn(counts, y if y.ndim > 1 or task.kind == "multiclass" else y[:, None], np.zeros(len(y)), 0, 1)
    return method


def predicted(method: GaussianProcess, counts: Any) -> np.ndarray:
    return method.logits(torch.from_numpy(counts.toarray())).double().numpy()


def test_the_prediction_is_that_of_kernel_ridge_regression() -> None:
    counts, y = data()
    method = fitted(counts[:100], y[:100])
    known, new = (torch.from_numpy(counts[some].toarray()) for some in (slice(0, 100), slice(100, None)))
    kernel, held = method.kernel, method.kernel.holding(known)
    _, noise = likeliest([one.double() for one in held.parts(known)], torch.from_numpy(y[:100, None] - y[:100].mean()))
    ridge = KernelRidge(alpha=noise, kernel="precomputed").fit(held.between(known), y[:100] - y[:100].mean())
    expected = ridge.predict(held.between(new)) + y[:100].mean()
    np.testing.assert_allclose(predicted(method, counts[100:])[:, 0], expected, atol=2e-3)
    assert len(kernel.rows) == 100


def test_the_kernel_maximises_the_likelihood() -> None:
    """Other parameters make the labels less likely, by SciPy's normal distribution, up to the weak belief in START."""
    counts, y = data(0.3)
    rows = torch.from_numpy(counts.toarray())
    parts = fitted(counts, y).kernel.holding(rows).parts(rows)
    centred = y - y.mean()
    shape, noise = likeliest(parts, torch.from_numpy(centred[:, None]))

    def badness(theta: np.ndarray) -> float:
        covariance = combined(*parts, torch.from_numpy(theta[:4])).numpy() + theta[4] * np.eye(GRAPHS)
        belief = np.square(np.log(theta) - np.log(START)).sum() / (2 * SPREAD**2)
        return belief - float(multivariate_normal(np.zeros(GRAPHS), covariance).logpdf(centred / centred.std()))

    best = np.array([*shape.tolist(), noise])
    for place in range(5):
        for factor in (0.7, 1.4):
            other = best.copy()
            other[place] *= factor
            assert badness(other) > badness(best)


def test_noise_is_found_in_the_labels() -> None:
    found = []
    for size in (0.05, 1.0):
        counts, y = data(size)
        rows = torch.from_numpy(counts.toarray())
        held = fitted(counts, y).kernel.holding(rows)
        found.append(likeliest(list(held.parts(rows)), torch.from_numpy(y[:, None] - y.mean()))[1])
    assert found[0] < 0.3 * found[1]


def test_new_graphs_are_predicted_with_fewer_rows_than_graphs() -> None:
    """The weights of kept graphs minimise the squared errors of all graphs."""
    counts, y = data()
    new, truth = data(seed=1)
    whole, some, few = (fitted(counts, y, rows=rows) for rows in (GRAPHS, GRAPHS - 1, 50))
    close = predicted(whole, new)[:, 0]
    assert len(some.kernel.rows) == GRAPHS - 1
    assert len(few.kernel.rows) == 50
    assert np.corrcoef(close, predicted(some, new)[:, 0])[0, 1] > 0.999
    every = torch.from_numpy(counts.toarray())
    kernel = few.kernel
    cross, inner = kernel.between(every), kernel.between(kernel.rows.float())
    labels = torch.from_numpy(y - y.mean())[:, None]
    parts = kernel.holding(every).parts(every)
    noise = likeliest(parts, labels)[1]
    expected = torch.linalg.solve(cross.T @ cross + noise * inner, cross.T @ labels)
    torch.testing.assert_close(cross @ kernel.alpha, cross @ expected, atol=1e-3, rtol=1e-3)
    assert spearmanr(truth, close).statistic > spearmanr(truth, predicted(few, new)[:, 0]).statistic > 0.5


def test_every_target_learns_from_its_known_labels() -> None:
    counts, y = data()
    task = Task("regression", 2, "rmse", centre=(0.0, 0.0), scale=(1.0, 1.0))
    both = np.stack((y, -y), 1)
    both[::2, 1] = np.nan
    method = fitted(counts, both, task)
    assert bool((method.kernel.alpha[:, 0] != 0).all())
    assert int((method.kernel.alpha[:, 1] != 0).sum()) == GRAPHS // 2
    new, truth = data(seed=1)
    for place, sign in enumerate((1, -1)):
        assert spearmanr(sign * truth, predicted(method, new)[:, place]).statistic > 0.7


def test_log_odds_are_as_sure_as_left_out_graphs_allow() -> None:
    """Labels that counts explain make large log-odds, labels without a reason small ones around the class shares."""
    counts, y = data()
    new, truth = data(seed=1)
    task = Task("binary", 1, "rocauc")
    sure = predicted(fitted(counts, (y > 0).astype(float), task), new)
    assert roc_auc_score(truth > 0, sure[:, 0]) > 0.85
    luck = (np.random.default_rng(0).random(GRAPHS) < 0.2).astype(float)
    unsure = predicted(fitted(counts, luck, task), new)
    assert np.abs(unsure - np.log(luck.mean() / (1 - luck.mean()))).mean() < 0.5 < np.abs(sure).mean()


def test_labels_that_are_missing_do_not_change_how_sure_it_is() -> None:
    counts, y = data()
    sure = (y > 0).astype(float)
    both = np.stack((sure, sure), 1)
    both[np.random.default_rng(0).random(GRAPHS) < 0.5, 1] = np.nan
    known = np.flatnonzero(~np.isnan(both[:, 1]))
    method = fitted(counts, both, Task("binary", 2, "rocauc"))
    alone = fitted(counts[known], sure[known], Task("binary", 1, "rocauc"))
    new, _ = data(seed=1)
    ratio = predicted(method, new)[:, 1].std() / predicted(alone, new)[:, 0].std()
    assert 0.6 < ratio < 1.6


def test_before_it_is_fitted_it_refuses_to_predict() -> None:
    method = GaussianProcess(Fingerprint(SPEC, table=TABLE), MEASURED)
    with pytest.raises(InputError, match="fit it first"):
        method.logits(torch.zeros(1, TABLE))
