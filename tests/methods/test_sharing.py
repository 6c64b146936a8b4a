"""Labels that share the mean of their training environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from goodformer.engine.evaluate import rocauc
from goodformer.errors import InputError
from goodformer.methods.counts import SHARES, CountMethod, class_weights, shared
from goodformer.methods.forest import Forest
from goodformer.methods.gaussian import GaussianProcess
from goodformer.methods.linear import Linear
from goodformer.models.fingerprint import Fingerprint
from goodformer.spec import Features, FeatureSpec, Task

SPEC = FeatureSpec(node=Features("categorical", (5,)))
BINARY = Task("binary", 1, "rocauc")
METHODS = [Linear, Forest, GaussianProcess]


def assays(seed: int, environments: int = 40, each: int = 15) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """Return counts (G, 64), labels and environments: kind and share of positives belong to the environment.

    Within an environment labels are noise, which a method that believes single labels learns.
    """
    random = np.random.default_rng(seed)
    kind = random.integers(0, 4, environments)
    env = np.repeat(np.arange(environments), each)
    y = random.random(len(env)) < (0.05 + 0.3 * kind)[env]
    counts = random.poisson(1.0, (len(env), 64))
    counts[np.arange(len(env)), kind[env]] += random.integers(0, 3, len(env))
    return csr_matrix(counts.astype(np.float32)), y.astype(float)[:, None], env


def fitted(kind: type[Any], sharing: float | None, data: tuple[Any, np.ndarray, np.ndarray], **settings: Any) -> Any:
    method = kind(Fingerprint(SPEC, table=64), BINARY, sharing=sharing, **settings)
    method.learn(*data, seed=0, threads=1)
    return method


def outcome(method: CountMethod, data: tuple[Any, np.ndarray, np.ndarray]) -> float:
    value = rocauc(method.logits(torch.from_numpy(data[0].toarray())).numpy(), data[1])
    assert value is not None
    return value


def test_a_share_of_each_label_is_the_mean_of_its_environment() -> None:
    y, env = np.array([1.0, 0, 1, 1, 0]), np.array([3, 3, 7, 7, 7])
    first, second = (1 + 0.6) / 3, (2 + 0.6) / 4  # the overall mean counts like one further label
    assert shared(y, env, 0.5) == pytest.approx((y + np.array([first, first, second, second, second])) / 2)
    assert np.array_equal(shared(y, env, 0.0), y)


def test_balanced_classes_weigh_the_same_in_total() -> None:
    y = np.array([1.0, 0, 0, 0])
    negative, positive = class_weights(y, y, balanced=True)
    assert negative.sum() == positive.sum() == pytest.approx(2)
    assert np.stack(class_weights(y, 0.5 * y, balanced=False)).sum(0) == pytest.approx(np.ones(4))


@pytest.mark.parametrize("balanced", [False, True])
def test_the_linear_model_minimises_the_loss_of_shared_labels(balanced: bool) -> None:
    counts, y, env = assays(0, 6, 20)
    method = fitted(Linear, 0.5, (counts, y, env), strength=0.1, balanced=balanced)
    inputs, soft, p = np.log1p(counts.toarray()), shared(y[:, 0], env, 0.5), float(y.mean())
    for_one, for_zero = (0.5 / p, 0.5 / (1 - p)) if balanced else (1.0, 1.0)
    prior = np.log(p / (1 - p)) if balanced else 0.0  # balanced weights shift the bias by the class shares

    def loss(w: np.ndarray) -> float:
        z = inputs @ w[:-1] + w[-1] - prior
        each = for_one * soft * np.logaddexp(0, -z) + for_zero * (1 - soft) * np.logaddexp(0, z)
        return float(0.1 * each.sum() + 0.5 * w[:-1] @ w[:-1])

    best = minimize(loss, np.zeros(65), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}).x
    assert method.weight[0].tolist() == pytest.approx(best[:-1].tolist(), abs=2e-3)
    assert float(method.bias[0]) == pytest.approx(best[-1], abs=5e-3)


@pytest.mark.parametrize("kind", METHODS)
def test_new_environments_are_predicted_better_where_labels_belong_to_environments(kind: type[Any]) -> None:
    settings: dict[str, Any] = {Forest: {"trees": 60}, Linear: {"strength": 1.0}}.get(kind, {})
    plain, chosen, given = [], [], []
    for seed in range(3):
        known, new = assays(seed), assays(100 + seed)
        plain.append(outcome(fitted(kind, 0.0, known, **settings), new))
        chosen.append(outcome(fitted(kind, None, known, **settings), new))
        given.append(outcome(fitted(kind, 0.9, known, **settings), new))
    assert np.mean(given) > np.mean(plain) + 0.005
    assert np.mean(chosen) > np.mean(plain) + 0.003


@pytest.mark.parametrize("kind", METHODS)
def test_nothing_is_shared_where_there_are_too_few_environments(kind: type[Any]) -> None:
    counts, y, env = assays(0, 4, 30)
    settings = {"trees": 20} if kind is Forest else {}
    some = torch.from_numpy(counts.toarray())
    chosen, plain = (fitted(kind, sharing, (counts, y, env), **settings).logits(some) for sharing in (None, 0.0))
    assert torch.equal(chosen, plain)


@pytest.mark.parametrize("kind", [Linear, Forest])  # the kernel of a Gaussian process is that of single labels
def test_measured_targets_are_shared(kind: type[Any]) -> None:
    task = Task("regression", 1, "rmse", centre=(0.0,), scale=(1.0,))
    counts, _, env = assays(0, 6, 20)
    y = np.random.default_rng(0).normal(size=(120, 1))
    settings = {"trees": 20} if kind is Forest else {"strength": 1.0}
    some, found = torch.from_numpy(counts.toarray()), []
    for sharing, labels in ((0.9, y), (0.0, shared(y[:, 0], env, 0.9)[:, None]), (0.0, y)):
        method = kind(Fingerprint(SPEC, table=64), task, sharing=sharing, **settings)
        method.learn(counts, labels, env, seed=0, threads=1)
        found.append(method.logits(some))
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert not torch.allclose(found[0], found[2], atol=1e-2)


@pytest.mark.parametrize("kind", METHODS)
def test_classes_share_nothing(kind: type[Any]) -> None:
    counts, _, env = assays(0, 6, 20)
    y, task = np.arange(120) % 3, Task("multiclass", 3)
    with pytest.raises(InputError, match="sharing"):
        kind(Fingerprint(SPEC, table=64), task, sharing=0.5)
    settings = {"trees": 20} if kind is Forest else {}
    found = []
    for sharing in (None, 0.0):
        method = kind(Fingerprint(SPEC, table=64), task, sharing=sharing, **settings)
        method.learn(counts, y, env, seed=0, threads=1)
        found.append(method.logits(torch.from_numpy(counts.toarray())))
    assert torch.equal(*found)


def test_every_target_needs_labels_from_several_environments() -> None:
    env, some = np.arange(60) % 6, np.zeros(60)
    few = np.where(env < 4, some, np.nan)
    method = Linear(Fingerprint(SPEC, table=64), Task("binary", 2, "rocauc"), sharing=None)
    assert method.shares([some, some], env) == SHARES
    assert method.shares([some, few], env) == (0.0,)


@pytest.mark.parametrize("kind", METHODS)
def test_a_target_with_one_class_is_learnt_beside_a_shared_one(kind: type[Any]) -> None:
    counts, y, env = assays(0, 6, 20)
    settings = {"trees": 10} if kind is Forest else {}
    method = kind(Fingerprint(SPEC, table=64), Task("binary", 2, "rocauc"), sharing=0.5, **settings)
    method.learn(counts, np.concatenate((y, np.ones_like(y)), 1), env, seed=0, threads=1)
    logits = method.logits(torch.from_numpy(counts.toarray()))
    assert bool((logits[:, 1] > 1).all())
    assert float(logits[:, 0].std()) > 0.01
