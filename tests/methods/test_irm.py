"""IRM against its closed form and its definition written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from goodformer.methods.base import link
from goodformer.models import MODELS
from goodformer.spec import Task
from tests.methods.environments import TASKS, build, labels, one_environment
from tests.nn.graphs import batch


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_irm_penalty_is_its_closed_form(task: Task) -> None:
    """dR_e / dw at w = 1 is the mean of f (p - y), p the probabilities that logits f stand for."""
    method, data = build("irm", task, penalty_weight=0.3).eval(), batch()
    data.y, data.env = labels(task, 6), torch.tensor([0, 1, 1, 0, 2, 1])
    logits = method(data).detach()
    target = F.one_hot(data.y, 3).float() if task.kind == "multiclass" else data.y
    slope = (logits * (link(task, logits) - target)).numpy()  # (B, C), NaN where there is no label
    squares = []
    for e in range(3):
        part = slope[data.env.numpy() == e]
        squares.append((part.sum() / len(part) if task.kind == "multiclass" else np.nanmean(part)) ** 2)
    assert float(method.loss(data, 0)["penalty"].detach()) == pytest.approx(0.3 * np.mean(squares), rel=1e-4)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_irm_trains_as_its_definition_does(task: Task) -> None:
    """One dummy scale for each environment, differentiated twice, gives the same gradient in all weights."""
    method, data = build("irm", task, penalty_weight=2.0).eval(), batch()
    data.y, data.env = labels(task, 6), torch.tensor([0, 1, 1, 0, 2, 1])
    logits, penalty = method(data), torch.tensor(0.0)
    for e in range(3):
        w = torch.tensor(1.0, requires_grad=True)
        risk = one_environment(task, w * logits[data.env == e], data.y[data.env == e])
        penalty = penalty + torch.autograd.grad(risk, w, create_graph=True)[0] ** 2 / 3
    expected = torch.autograd.grad(2.0 * penalty, list(method.parameters()))
    got = torch.autograd.grad(method.loss(data, 0)["penalty"], list(method.parameters()))
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-3)


def test_irm_asks_for_what_holds_in_every_environment() -> None:
    """Logits that are right in each environment cost nothing; those right only on average do."""
    task, shares = Task("binary", 1, "rocauc"), (0.9, 0.6)  # how often the spurious feature agrees with the label
    method = build("irm", task, penalty_weight=1.0)
    rows = [
        (float(env), float(y), agrees, spurious)
        for env, share in enumerate(shares)
        for y in (0, 1)
        for agrees, times in ((True, 15), (False, 5))  # the invariant feature: 3 in 4 everywhere
        for spurious, often in ((True, round(10 * share)), (False, 10 - round(10 * share)))
        for _ in range(times * often // 5)
    ]
    data = batch((2,))
    data.env = torch.tensor([int(row[0]) for row in rows])
    data.y = torch.tensor([[row[1]] for row in rows])
    sign = 2 * data.y - 1
    invariant = sign * torch.tensor([[1.0 if row[2] else -1.0] for row in rows])
    spurious = sign * torch.tensor([[1.0 if row[3] else -1.0] for row in rows])
    penalties = {}
    for name, feature, share in (("invariant", invariant, 0.75), ("spurious", spurious, 0.75)):
        logits = feature * float(torch.tensor(share).logit())
        method.forward = lambda _, logits=logits: logits
        penalties[name] = float(method.loss(data, 0)["penalty"].detach())
    assert penalties["invariant"] == pytest.approx(0, abs=1e-8)
    assert penalties["spurious"] > 1e-2


def test_one_environment_is_enough_to_go_on() -> None:
    method, data = build("irm", TASKS["multiclass"]), batch()
    data.env = torch.zeros(6, dtype=torch.long)
    terms = method.loss(data, 0)
    assert all(term.isfinite() for term in terms.values())


@pytest.mark.parametrize("model", list(MODELS))
def test_on_every_model(model: str) -> None:
    method, data = build("irm", TASKS["multiclass"], model), batch()
    data.env = torch.arange(6) % 3
    terms = method.loss(data, 0)
    sum(terms.values()).backward()
    assert all(term.isfinite() for term in terms.values())
    assert method.classifier.weight.grad.abs().sum() > 0
