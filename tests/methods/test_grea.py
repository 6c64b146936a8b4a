"""GREA against an explicit double loop over graphs and environments."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.methods import METHODS
from goodformer.methods.grea import GREA
from goodformer.models import MODELS
from goodformer.spec import Task
from tests.methods.environments import SPEC, TASKS, labels, one_environment
from tests.nn.graphs import batch


def build(task: Task = TASKS["multiclass"], model: str = "gin", **settings: object) -> GREA:
    torch.manual_seed(0)
    made = METHODS.build("grea", MODELS.build(model, SPEC, dim=16), task, **settings)
    assert isinstance(made, GREA)
    return made


def parts(method: GREA, data: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """r and e (B, D) and the mean shares (B,), graph by graph, node by node."""
    m = torch.sigmoid(method.gate(method.separator(data)))[:, 0]
    h = method.model(data)
    invariant, variant, shares = [], [], []
    for g in range(data.num_graphs):
        nodes = [v for v in range(data.num_nodes) if data.batch[v] == g]
        invariant.append(sum(m[v] * h[v] for v in nodes))
        variant.append(sum((1 - m[v]) * h[v] for v in nodes))
        shares.append(sum(m[v] for v in nodes) / len(nodes))
    return torch.stack(invariant), torch.stack(variant), torch.stack(shares)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_objective_is_an_explicit_double_loop(task: Task) -> None:
    method, data = build(task, share=0.3, replacement_weight=2.0, share_weight=3.0).eval(), batch()
    data.y = labels(task, 6)
    r, e, shares = parts(method, data)
    mixed, y = [], []
    for i in range(6):
        for j in range(6):
            mixed.append(method.predictor((r[i] + e[j])[None])[0])
            y.append(data.y[i])
    expected = {
        "removal": one_environment(task, method.predictor(r), data.y),
        "replacement": 2 * one_environment(task, torch.stack(mixed), torch.stack(y)),
        "share": 3 * sum(abs(share - 0.3) for share in shares) / 6,
    }
    got = method.loss(data, epoch=0)
    assert got.keys() == expected.keys()
    for name, term in got.items():
        torch.testing.assert_close(term, expected[name], atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(method(data), method.predictor(r), atol=1e-5, rtol=1e-4)


def test_the_two_sides_take_turns() -> None:
    method, data = build(), batch()
    separator = {id(p) for part in (method.separator, method.gate) for p in part.parameters()}
    everyone = {id(p) for p in method.parameters()}
    for epoch in range(9):
        chosen = {id(p) for p in method.trainable(epoch)}
        assert chosen == (separator if epoch in (0, 4, 8) else everyone - separator)
        assert ("share" in method.loss(data, epoch)) == (epoch in (0, 4, 8))


def test_environments_tell_nothing_where_all_is_invariant() -> None:
    """With shares of 1 every environment is empty, and replacing it changes nothing."""
    method, data = build().eval(), batch()
    torch.nn.init.constant_(method.gate[-1].bias, 100.0)
    terms = method.loss(data, 1)
    torch.testing.assert_close(terms["replacement"], terms["removal"])


def test_running_averages_are_those_of_the_invariant_part() -> None:
    method, data = build(head_dropout=0.0), batch()
    other = copy.deepcopy(method)
    torch.manual_seed(1)
    method.loss(data, 1)
    torch.manual_seed(1)
    other.predict(data)
    for (name, a), b in zip(method.predictor.named_buffers(), other.predictor.buffers(), strict=True):
        assert torch.equal(a, b), name
    assert int(method.predictor[1].num_batches_tracked) == 1


def test_an_edge_scores_the_mean_share_of_its_ends() -> None:
    method, data = build().eval(), batch()
    m = torch.sigmoid(method.gate(method.separator(data)))[:, 0].tolist()
    expected = [(m[u] + m[v]) / 2 for u, v in data.edge_index.T.tolist()]
    assert method.edge_scores(data).tolist() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(method.predict(data).edge_scores, method.edge_scores(data))


@pytest.mark.parametrize("model", list(MODELS))
def test_on_every_model(model: str) -> None:
    method, data = build(model=model), batch()
    terms = method.loss(data, 0)
    sum(terms.values()).backward()
    assert all(term.isfinite() for term in terms.values())
    assert all(p.grad is not None and p.grad.any() for p in method.gate.parameters())
    assert method.eval().predict(data).logits.isfinite().all()
