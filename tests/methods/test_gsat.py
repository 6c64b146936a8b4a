"""GSAT against its formulas."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, kl_divergence
from torch.nn import functional as F

from goodformer.methods import METHODS
from goodformer.methods.gsat import GSAT, information
from goodformer.models import MODELS
from goodformer.nn.layout import Layout
from goodformer.nn.sampling import both_directions
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import NETWORKS, batch

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))


def build(model: str = "gin", **settings: object) -> GSAT:
    torch.manual_seed(0)
    made = METHODS.build("gsat", MODELS.build(model, SPEC, dim=16, dropout_rate=0.0), Task(), **settings)
    assert isinstance(made, GSAT)
    return made


def weights_seen(method: GSAT) -> list[Tensor | None]:
    """The edge weights of each time the model runs."""
    seen: list[Tensor | None] = []
    method.model.register_forward_pre_hook(lambda _, given: seen.append(given[1] if len(given) > 1 else None))
    return seen


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
def test_information_is_the_divergence_of_bernoullis(rate: float) -> None:
    alpha = torch.rand(50)
    expected = kl_divergence(Bernoulli(alpha), Bernoulli(torch.tensor(rate))).mean()
    torch.testing.assert_close(information(alpha, rate), expected, atol=1e-4, rtol=1e-3)
    assert information(torch.full((5,), rate), rate).abs() < 1e-4
    assert information(torch.tensor([0.0, 1.0]), rate).isfinite()
    assert information(torch.empty(0), rate) == 0


def test_the_rate_falls_in_steps_to_its_end() -> None:
    method = build(rate=0.7, decay_epochs=10)
    rates = [method.rate(epoch) for epoch in (0, 9, 10, 19, 20, 500)]
    assert rates == pytest.approx([0.9, 0.9, 0.8, 0.8, 0.7, 0.7])


def test_the_loss_is_its_equation_with_the_divergence_on_each_direction() -> None:
    method, data = build(extractor_dropout=0.0, information_weight=0.5, temperature=2.0), batch()
    torch.manual_seed(1)
    terms = method.train().loss(data, epoch=25)
    torch.manual_seed(1)
    h = method.model(data)
    logit = method.extractor(h, Layout(data))
    u = torch.rand(len(logit)).clamp(1e-6, 1 - 1e-6)
    alpha = torch.sigmoid((logit + u.log() - (1 - u).log()) / 2)
    weight = both_directions(alpha, Layout(data))
    logits = method.classifier(method.model.readout(method.model(data, weight), data))
    torch.testing.assert_close(terms["risk"], F.cross_entropy(logits, data.y), atol=1e-4, rtol=1e-3)
    told = kl_divergence(Bernoulli(alpha), Bernoulli(torch.tensor(0.8))).mean()
    torch.testing.assert_close(terms["information"], 0.5 * told, atol=1e-3, rtol=1e-3)


def test_both_directions_weigh_the_same_as_designed_and_not_as_published() -> None:
    data = batch((15,), p=0.4)
    layout = Layout(data)
    for variant, equal in (("as_designed", True), ("as_published", False)):
        for mode in (True, False):
            method = build(variant=variant).train(mode)
            seen = weights_seen(method)
            method.loss(data, 0)
            assert seen[0] is None
            assert torch.allclose(seen[1], both_directions(seen[1], layout)) == equal


def test_training_draws_and_evaluation_does_not() -> None:
    method, data = build(), batch((15,), p=0.4)
    method.train()
    assert not torch.equal(method.edge_scores(data), method.edge_scores(data))
    found = method.eval().predict(data)
    expected = both_directions(method.extractor(method.model(data), Layout(data)).sigmoid(), Layout(data))
    torch.testing.assert_close(found.edge_scores, expected)
    torch.testing.assert_close(found.edge_scores, method.edge_scores(data))


@pytest.mark.parametrize("model", NETWORKS)
def test_the_risk_alone_trains_the_extractor_on_every_model(model: str) -> None:
    method = build(model)
    method.train().loss(batch((9, 14, 6), p=0.4), 0)["risk"].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in method.extractor.parameters())


def test_the_information_alone_drives_attention_to_its_optimum() -> None:
    method, data = build(rate=0.3, start_rate=0.3, extractor_dropout=0.0), batch((15, 12), p=0.4)
    optimiser = torch.optim.Adam(method.extractor.parameters(), lr=0.02)
    for _ in range(200):
        optimiser.zero_grad()
        method.train().loss(data, 0)["information"].backward()
        optimiser.step()
    # The divergence is taken of draws, so its best logit is not logit(0.3); here it is by quadrature.
    noise = torch.linspace(0.0005, 0.9995, 1000).logit()
    grid = torch.linspace(-4, 2, 601)
    best = min(grid, key=lambda a: information((a + noise).sigmoid(), 0.3))
    with torch.no_grad():
        found = method.extractor(method.model(data), Layout(data))
    assert float(found.mean()) == pytest.approx(float(best), abs=0.25)


def test_graphs_without_edges_have_no_attention() -> None:
    method, data = build(), batch((1, 1, 1), p=0.0)
    terms = method.train().loss(data, 0)
    assert terms["information"] == 0
    assert terms["risk"].isfinite()
