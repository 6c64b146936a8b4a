"""GIL's penalty against gradients of one environment at a time, its second derivative against differences."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer.methods import METHODS
from goodformer.methods.gil import GIL, contrasts, gradient_variance
from goodformer.models import MODELS
from goodformer.nn.clustering import k_means, nearest
from goodformer.nn.layout import Layout
from goodformer.spec import Task
from tests.methods.environments import SPEC, TASKS, labels, one_environment
from tests.nn.graphs import NETWORKS, batch

SIZES = (7, 1, 12, 5, 9, 20, 6, 8)


def build(task: Task = TASKS["multiclass"], model: str = "gin", **settings: object) -> GIL:
    torch.manual_seed(0)
    inner = MODELS.build(model, SPEC, dim=16, **({"encoder_layers": 0} if model == "goodformer" else {}))
    made = METHODS.build("gil", inner, task, **settings)
    assert isinstance(made, GIL)
    return made


def environments(method: GIL, data: Batch) -> Tensor:
    """The clusters of the variant subgraphs as `loss` finds them right after the seed is set."""
    layout = Layout(data)
    keep = method._keep(method._score(data, layout), layout)
    torch.manual_seed(5)
    rest = method._variant(data, layout, ~keep, (~keep).float())
    return nearest(rest, k_means(rest, method.clusters))


def learners(method: GIL) -> list[nn.Parameter]:
    return [*method.model.parameters(), *method.classifier.parameters()]


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_objective_is_made_of_gradients_of_one_environment_at_a_time(task: Task) -> None:
    method, data = build(task, penalty_weight=0.1).eval(), batch(SIZES)
    data.y = labels(task, len(SIZES))
    env = environments(method, data)
    risks, gradients = [], []
    for e in env.unique():
        risk = one_environment(task, method(data)[env == e], data.y[env == e])  # a pass for each environment
        found = torch.autograd.grad(risk, learners(method), allow_unused=True)
        gradients.append(torch.cat([g.flatten() for g in found if g is not None]))
        risks.append(risk)
    assert len(risks) == 3
    mean = sum(gradients) / len(gradients)
    penalty = sum((gradient - mean).square().sum() for gradient in gradients) / len(gradients)
    torch.manual_seed(5)
    terms = method.loss(data, epoch=1)
    torch.testing.assert_close(terms["risk"], sum(risks) / len(risks), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(terms["penalty"], 0.1 * penalty, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("model", ["gin", "gin-vn", "gps", "goodformer"])
def test_the_penalty_is_differentiated_right(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its derivative in a random direction equals a difference quotient, attention's second derivative included."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # inputs are brought to float; here to double
    method, data = build(model=model, penalty_weight=1.0).double().eval(), batch(SIZES)
    for name in ("x", "edge_attr", "laplacian_8", "eigenvalues_8", "cycle_walks_6"):
        data[name] = data[name].double()
    weights = learners(method)

    def penalty() -> Tensor:
        torch.manual_seed(5)
        return method.loss(data, epoch=1)["penalty"]

    direction = [torch.randn_like(weight) for weight in weights]
    gradient = torch.autograd.grad(penalty(), weights, allow_unused=True)
    slope = sum((g * d).sum() for g, d in zip(gradient, direction, strict=True) if g is not None)
    ends = []
    for step in (1e-8, -2e-8):  # to one side, then to the other; so small that no ReLU turns
        for weight, d in zip(weights, direction, strict=True):
            weight.data.add_(d, alpha=step)
        ends.append(float(penalty().detach()))
    assert float(slope.detach()) == pytest.approx((ends[0] - ends[1]) / 2e-8, rel=1e-4)
    assert abs(float(slope.detach())) > 1e-3


def test_equal_environments_cost_nothing() -> None:
    w = nn.Parameter(torch.tensor([1.0, 2.0]))
    risk = w.square().sum()
    assert gradient_variance(torch.stack((risk, risk + 1)), [w]) == 0
    assert gradient_variance(risk[None], [w]) == 0
    opposed = gradient_variance(torch.stack((risk, -risk)), [w])  # gradients 2w and -2w, mean 0
    torch.testing.assert_close(opposed, (4 * w.square()).sum())
    (second,) = torch.autograd.grad(opposed, w)
    torch.testing.assert_close(second, 8 * w.detach())


@pytest.mark.parametrize("count", [2, 3, 7])
def test_contrasts_are_orthonormal_and_have_no_mean(count: int) -> None:
    rows = torch.stack([contrasts(row) for row in torch.eye(count, dtype=torch.double)], 1)  # (K - 1, K)
    torch.testing.assert_close(rows @ rows.T, torch.eye(count - 1, dtype=torch.double))
    torch.testing.assert_close(rows.sum(1), torch.zeros(count - 1, dtype=torch.double))


def test_the_share_is_each_graphs_own_and_edges_are_whole() -> None:
    method, data = build(share=0.5), batch(SIZES)
    layout = Layout(data)
    score = method._score(data, layout)
    keep = method._keep(score, layout)
    pairs = {(int(u), int(v)): e for e, (u, v) in enumerate(zip(layout.src, layout.dst, strict=True))}
    assert all(keep[e] == keep[pairs[v, u]] and score[e] == score[pairs[v, u]] for (u, v), e in pairs.items())
    for g in range(len(SIZES)):
        inside = layout.graph[layout.src] == g
        count = int(inside.sum()) // 2
        assert int(keep[inside].sum()) == 2 * -(-count // 2)
        dropped = inside & ~keep
        if dropped.any():
            assert score[inside & keep].min() >= score[dropped].max() - 1e-3


def test_the_generator_learns_and_a_prediction_sees_whole_edges_only() -> None:
    method, data = build(), batch(SIZES)
    method.loss(data, 0)["risk"].backward()
    size = {name: float(p.grad.abs().max()) for name, p in method.generator.named_parameters()}
    assert max(size.values()) > 1e-4
    method.eval()
    keep = method._keep(method._score(data, Layout(data)), Layout(data))
    fewer = data.clone()
    fewer.edge_index, fewer.edge_attr = data.edge_index[:, keep], data.edge_attr[keep]
    full, cut = method.model(data, keep.float()), method.model(fewer)
    torch.testing.assert_close(full, cut, atol=1e-5, rtol=1e-4)


def test_environments_do_not_hang_on_dropout_or_leave_a_trace() -> None:
    method, data = build(), batch(SIZES)
    layout = Layout(data)
    keep = method.eval()._keep(method._score(data, layout), layout)
    before = copy.deepcopy(method.train().state_dict())
    first, second = (method._variant(data, layout, ~keep, (~keep).float()) for _ in range(2))
    assert torch.equal(first, second)
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())
    assert method.model.training
    assert all(module.training for module in method.model.modules())


def test_the_first_epochs_know_no_environments() -> None:
    method, data = build(warmup_epochs=2).eval(), batch(SIZES)
    assert set(method.loss(data, 1)) == {"risk"}
    torch.testing.assert_close(method.loss(data, 1)["risk"], one_environment(TASKS["multiclass"], method(data), data.y))
    assert set(method.loss(data, 2)) == {"risk", "penalty"}


def test_as_published_nothing_but_the_predictor_learns() -> None:
    method, data = build(variant="as_published", share=0.3), batch(SIZES)
    terms = method.loss(data, 0)
    assert set(terms) == {"risk", "penalty"}
    sum(terms.values()).backward()
    trained = {name.split(".")[0] for name, p in method.named_parameters() if p.grad is not None and p.grad.any()}
    assert trained == {"model", "classifier"}
    assert not any(p.requires_grad for part in (method.generator, method.variant_model) for p in part.parameters())
    layout = Layout(data)
    score = method._score(data, layout)
    keep = method._keep(score, layout)
    assert int(keep.sum()) == -(-3 * len(score) // 10)
    assert score[keep].min() >= score[~keep].max() - 1e-2  # over the whole batch
    graph = layout.graph[layout.src]
    shares = torch.stack([keep[graph == g].float().mean() for g in graph.unique()])
    assert shares.max() - shares.min() > 0.2
    method.eval()
    assert method(data).isfinite().all()


@pytest.mark.parametrize("model", NETWORKS)
def test_on_every_model(model: str) -> None:
    torch.manual_seed(0)
    method = METHODS.build("gil", MODELS.build(model, SPEC, dim=16), TASKS["multiclass"])
    data = batch(SIZES)
    terms = method.loss(data, 1)
    sum(terms.values()).backward()
    assert all(term.isfinite() for term in terms.values())
    assert terms["penalty"] > 0
    assert any(p.grad is not None and p.grad.any() for p in method.generator.parameters())
    assert method.eval().predict(data).logits.isfinite().all()
