"""CAL+ against its formulas, and across steps."""

from __future__ import annotations

import math
from collections import deque

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

from goodformer.methods import METHODS
from goodformer.methods.cal import CALPlus, Prototypes, ignorance, membership
from goodformer.models import MODELS
from goodformer.nn.bank import Bank
from goodformer.nn.gcn import GCN
from goodformer.nn.layout import Layout
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import NETWORKS, batch

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))
TARGETS = Task("binary", 4, "rocauc")


def build(model: str = "gin", task: Task | None = None, **settings: object) -> CALPlus:
    torch.manual_seed(0)
    made = METHODS.build("cal-plus", MODELS.build(model, SPEC, dim=16, dropout_rate=0.0), task or Task(), **settings)
    assert isinstance(made, CALPlus)
    return made


def test_graph_convolution_equals_pyg() -> None:
    torch.manual_seed(0)
    data, ours, oracle = batch(), GCN(6, 9), GCNConv(6, 9)
    oracle.lin.weight, oracle.bias = ours.linear.weight, ours.linear.bias
    h, weight = torch.randn(data.num_nodes, 6), torch.rand(data.num_edges)
    torch.testing.assert_close(ours(h, Layout(data), weight), oracle(h, data.edge_index, weight))


def test_the_bank_is_first_in_first_out_across_steps_and_reloads() -> None:
    bank, oracle = Bank(7, 2), deque(maxlen=7)
    for step in range(12):
        rows = torch.arange(step * 10, step * 10 + 2 * (1 + step % 5)).view(-1, 2).float()
        bank.push(rows)
        oracle.extend(map(tuple, rows.tolist()))
        assert {tuple(row) for row in bank.draw(99).tolist()} == set(oracle)
        assert len(bank.draw(3)) == min(3, len(oracle))
        if step == 5:
            state, bank = bank.state_dict(), Bank(7, 2)
            bank.load_state_dict(state)


def test_draws_are_different_rows_and_a_large_batch_keeps_its_end() -> None:
    bank = Bank(5, 1)
    bank.push(torch.arange(8.0)[:, None])
    assert sorted(bank.draw(5).flatten().tolist()) == [3, 4, 5, 6, 7]
    assert len({tuple(bank.draw(2).flatten().tolist()) for _ in range(50)}) > 5
    assert Bank(5, 1).draw(3).shape == (0, 1)


@pytest.mark.parametrize("task", [Task("multiclass", 5), TARGETS])
def test_ignorance_is_the_divergence_from_uniform(task: Task) -> None:
    logits = torch.randn(6, task.outputs)
    if task.kind == "multiclass":
        expected = kl_divergence(Categorical(torch.ones(5)), Categorical(logits=logits)).mean()
    else:
        expected = kl_divergence(Bernoulli(torch.tensor(0.5)), Bernoulli(logits=logits)).mean()
    torch.testing.assert_close(ignorance(task, logits), expected)
    assert ignorance(task, torch.zeros(6, task.outputs)).abs() < 1e-6


def test_shares_and_branches_follow_the_equations() -> None:
    method, data = build().eval(), batch()
    found, layout = method.attend(data), Layout(data)
    h = method.model(data)
    node, pair = method.node_attention(h).softmax(1), []
    for u, v in data.edge_index.T.tolist():
        pair.append(method.edge_attention(torch.cat((h[u], h[v]))).softmax(0))
    pair = torch.stack(pair)
    torch.testing.assert_close(found.node, node[:, 0])
    torch.testing.assert_close(found.edge, pair[:, 0])
    branch, oracle = method.variant_branch, GCNConv(16, 16)
    oracle.lin.weight, oracle.bias = branch.layer.linear.weight, branch.layer.linear.bias
    states = oracle(branch.norm(node[:, 1:] * h), data.edge_index, pair[:, 1]).relu()
    expected = torch.stack([states[data.batch == g].sum(0) for g in range(data.num_graphs)])
    torch.testing.assert_close(branch(h, 1 - found.node, 1 - found.edge, layout), expected, atol=1e-4, rtol=1e-3)
    prediction = method.predict(data)
    x_c = method.invariant_branch(h, found.node, found.edge, layout)
    torch.testing.assert_close(prediction.logits, method.invariant_classifier(x_c))
    assert torch.equal(prediction.edge_scores, found.edge)


@pytest.mark.parametrize("task", [Task(), TARGETS])
def test_mixtures_equal_an_explicit_double_loop(task: Task) -> None:
    method = build(task=task, bank_size=9).eval()
    method.bank.push(torch.randn(9, 16))
    x_c, y = torch.randn(4, 16), torch.randint(3, (4,))
    if task.kind == "binary":
        y = torch.tensor([[0, 1, 1, float("nan")]] * 4)
    torch.manual_seed(5)
    got = method._mixture(x_c, y)
    torch.manual_seed(5)
    drawn, total, count = method.bank.draw(4), torch.tensor(0.0), 0
    for i in range(4):
        for j in range(4):
            logits = method.mixture_classifier((x_c[i] + drawn[j])[None])[0]
            if task.kind == "multiclass":
                total, count = total + F.cross_entropy(logits, y[i]), count + 1
            else:
                total, count = total + F.binary_cross_entropy_with_logits(logits[:3], y[i, :3]), count + 1
    torch.testing.assert_close(got, total / count)


def classes(task: Task, y: Tensor) -> dict[tuple[int, int], list[int]]:
    """The members of each class of each target."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, row in enumerate(y.tolist()):
        labels = [row] if task.kind == "multiclass" else row
        for target, label in enumerate(labels):
            if not math.isnan(label):
                found.setdefault((target, int(label)), []).append(i)
    return found


@pytest.mark.parametrize("task", [Task("multiclass", 4), TARGETS])
def test_prototypes_follow_their_classes_across_steps(task: Task) -> None:
    torch.manual_seed(0)
    layer, oracle = Prototypes(task, 5, 0.8).train(), {}
    for _ in range(6):
        x, y = torch.randn(7, 5), torch.randint(3, (7,))  # class 3 never comes
        if task.kind == "binary":
            y = torch.randint(2, (7, 4)).float()
            y[torch.rand(7, 4) < 0.3] = float("nan")
        got = layer(x, y)
        for key, members in classes(task, y).items():
            old = oracle.get(key)
            before = torch.zeros(5) if old is None else old
            likeness = torch.stack([F.cosine_similarity(before, x[i], dim=0) for i in members])
            mean = (torch.softmax(likeness / 5, 0)[:, None] * x[members]).sum(0)
            oracle[key] = mean if old is None else 0.8 * old + 0.2 * mean
        terms = []
        for (target, label), members in classes(task, y).items():
            known = sorted(k for t, k in oracle if t == target)
            for i in members:
                cosines = torch.stack([F.cosine_similarity(oracle[target, k], x[i], dim=0) for k in known])
                terms.append(-cosines.log_softmax(0)[known.index(label)])
        torch.testing.assert_close(got, torch.stack(terms).mean(), atol=1e-5, rtol=1e-4)
    for (target, label), vector in oracle.items():
        torch.testing.assert_close(layer.vectors[target, label], vector)
    if task.kind == "multiclass":
        assert layer.vectors[0, 3].isnan().all()


def test_published_prototypes_are_class_means_of_the_batch_alone_and_their_loss_is_bounded() -> None:
    layer = Prototypes(Task(), 5, 0.9, persist=False).train()
    for _ in range(3):
        x, y = torch.randn(9, 5), torch.tensor([0, 1, 2] * 3)
        layer(x, y, twice=True)
        torch.testing.assert_close(layer.vectors[0], torch.stack([x[k::3].mean(0) for k in range(3)]))
    # At an angle of 120 degrees three prototypes are as far apart as they can be.
    angle = torch.tensor([0.0, 2.0944, 4.1888])
    layer = Prototypes(Task(), 2, 0.9, persist=False).train()
    apart = torch.stack((angle.cos(), angle.sin()), 1)
    once, twice = layer(apart, torch.arange(3)), layer(apart, torch.arange(3), twice=True)
    cosines = torch.tensor([[1.0, -0.5, -0.5]])
    torch.testing.assert_close(once, -cosines.log_softmax(1)[0, 0], atol=1e-4, rtol=0)
    torch.testing.assert_close(twice, -cosines.softmax(1).log_softmax(1)[0, 0], atol=1e-4, rtol=0)
    assert twice > 0.7 > once


def test_membership_passes_over_missing_labels() -> None:
    y = torch.tensor([[0.0, 1.0], [float("nan"), 0.0]])
    assert membership(Task("binary", 2), y).int().tolist() == [[[1, 0], [0, 1]], [[0, 0], [1, 0]]]
    assert membership(Task(), torch.tensor([2])).int().tolist() == [[[0, 0, 1]]]


def test_steps_fill_the_bank_with_variant_vectors_and_evaluation_does_not() -> None:
    method, data = build(bank_size=100), batch()
    method.eval()
    terms = method.loss(data, 0)
    assert all(term.isfinite() for term in terms.values())
    assert int(method.bank.seen) == 0
    assert method.prototypes.vectors.isnan().all()
    for step in range(3):
        method.train().loss(data, 0)
        assert int(method.bank.seen) == 6 * (step + 1)
    found = method.attend(data)
    x_s = method.variant_branch(found.h, 1 - found.node, 1 - found.edge, Layout(data))
    torch.testing.assert_close(method.bank.rows[12:18], x_s.detach(), atol=1e-4, rtol=1e-3)
    assert not method.bank.rows[18:].any()
    assert not method.bank.draw(5).requires_grad


@pytest.mark.parametrize(("variant", "reached"), [("as_designed", True), ("as_published", False)])
def test_what_the_divergence_trains(variant: str, reached: bool) -> None:
    method = build(variant=variant)
    method.train().loss(batch(), 0)["ignorance"].backward()
    for module in (method.edge_attention, method.node_attention, method.variant_branch, method.model):
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters()) == reached
    assert all(p.grad is not None for p in method.variant_classifier.parameters())


@pytest.mark.parametrize("model", NETWORKS)
def test_invariant_risk_alone_trains_the_attention_on_every_model(model: str) -> None:
    method = build(model)
    method.train().loss(batch((9, 14, 6), p=0.4), 0)["invariant"].backward()
    for module in (method.edge_attention, method.node_attention):
        assert all(p.grad.abs().sum() > 0 for p in module.parameters())
