"""VREx against numpy, and the risks of environments against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from goodformer.methods.base import losses
from goodformer.methods.environments import environment_means
from goodformer.models import MODELS
from goodformer.spec import Task
from tests.methods.environments import NAN, TASKS, build, labels, one_environment
from tests.nn.graphs import batch


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_risks_of_environments_are_means_over_their_labels(task: Task) -> None:
    logits, y = torch.randn(12, task.outputs), labels(task, 12)
    env = torch.tensor([5, 0, 0, 2, 5, 5, 2, 0, 0, 5, 2, 2])
    got = environment_means(task, losses(task, logits, y), y, env)
    expected = [one_environment(task, logits[env == e], y[env == e]) for e in (0, 2, 5)]
    torch.testing.assert_close(got, torch.stack(expected))


def test_an_environment_without_a_label_is_not_there() -> None:
    y = torch.tensor([[1.0, NAN], [NAN, NAN], [0.0, 1.0]])
    got = environment_means(TASKS["targets"], torch.ones(3), y, torch.tensor([0, 1, 2]))
    assert got.shape == (2,)
    assert environment_means(TASKS["targets"], torch.zeros(3), y * NAN, torch.arange(3)).shape == (0,)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_vrex_is_numpy_variance_of_the_risks(task: Task) -> None:
    method, data = build("vrex", task, variance_weight=7.0).eval(), batch()
    data.y, data.env = labels(task, 6), torch.tensor([0, 1, 1, 0, 2, 1])
    logits = method(data).detach()
    risks = [float(one_environment(task, logits[data.env == e], data.y[data.env == e])) for e in range(3)]
    terms = {name: term.detach() for name, term in method.loss(data, 0).items()}
    assert float(terms["variance"]) == pytest.approx(7 * np.var(risks, ddof=1), rel=1e-4)
    assert float(terms["risk"]) == pytest.approx(float(one_environment(task, logits, data.y)), rel=1e-5)


def test_one_environment_is_enough_to_go_on() -> None:
    method, data = build("vrex", TASKS["multiclass"]), batch()
    data.env = torch.zeros(6, dtype=torch.long)
    terms = method.loss(data, 0)
    assert terms["risk"].isfinite()
    assert terms["variance"] == 0


@pytest.mark.parametrize("model", list(MODELS))
def test_on_every_model(model: str) -> None:
    method, data = build("vrex", TASKS["multiclass"], model), batch()
    data.env = torch.arange(6) % 3
    terms = method.loss(data, 0)
    sum(terms.values()).backward()
    assert all(term.isfinite() for term in terms.values())
    assert method.classifier.weight.grad.abs().sum() > 0
