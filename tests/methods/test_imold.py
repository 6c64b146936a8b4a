"""iMoLD against its formulas, graph by graph."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.methods import METHODS
from goodformer.methods.imold import IMoLD, Separated
from goodformer.models import MODELS
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import NETWORKS, batch

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))


def build(model: str = "gin", **settings: object) -> IMoLD:
    torch.manual_seed(0)
    made = METHODS.build("imold", MODELS.build(model, SPEC, dim=16, dropout_rate=0.0), Task(), **settings)
    assert isinstance(made, IMoLD)
    return made


def parts(method: IMoLD, data: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """S, z_inv and z_var written out graph by graph."""
    h = method.model(data)
    residual = h + (method.quantiser.codes[method.quantiser.nearest(h)] - h).detach()
    share = torch.sigmoid(method.score(method.scorer(data)))
    invariant, variant = [], []
    for g in range(data.num_graphs):
        here = data.batch == g
        invariant.append(((h + residual) * share)[here].mean(0))
        variant.append(((h + residual) * (1 - share))[here].mean(0))
    return share, torch.stack(invariant), torch.stack(variant)


def test_the_parts_are_shares_of_quantised_embeddings() -> None:
    method, data = build().eval(), batch()
    share, invariant, variant = parts(method, data)
    found = method.separate(data)
    torch.testing.assert_close(found.share, share)
    torch.testing.assert_close(found.invariant, invariant)
    torch.testing.assert_close(found.variant, variant)
    torch.testing.assert_close(method(data), method.classifier(invariant))
    h = method.model(data)
    torch.testing.assert_close(
        found.commitment, (h - method.quantiser.codes[method.quantiser.nearest(h)]).square().mean()
    )


def test_the_terms_are_their_equations() -> None:
    method, data = build(share=0.8, share_weight=0.3, invariance_weight=0.2, mix_dropout=0.0).eval(), batch()
    share, invariant, variant = parts(method, data)
    torch.manual_seed(3)
    terms = method.loss(data, 0)
    torch.manual_seed(3)
    other = torch.randperm(data.num_graphs)
    likeness = [
        F.cosine_similarity(invariant[i], method.mix(torch.cat((invariant[i], variant[other[i]]))[None])[0], dim=0)
        for i in range(data.num_graphs)
    ]
    torch.testing.assert_close(terms["invariance"], -0.2 * torch.stack(likeness).mean())
    distance = [abs(share[data.batch == g].mean() - 0.8) for g in range(data.num_graphs)]
    torch.testing.assert_close(terms["share"], 0.3 * torch.stack(distance).mean())
    torch.testing.assert_close(terms["risk"], F.cross_entropy(method.classifier(invariant), data.y))
    torch.testing.assert_close(terms["commitment"], 0.1 * method.separate(data).commitment)


def test_the_goal_of_the_mixture_sends_no_gradient() -> None:
    method, stretch = build(), torch.linspace(0.5, 2, 16)
    method.mix = torch.nn.Linear(32, 16, bias=False)  # [z; v] -> stretched z
    method.mix.weight.data = torch.cat((stretch.diag(), torch.zeros(16, 16)), 1)
    z = torch.randn(6, 16, requires_grad=True)
    found = Separated(torch.empty(0), z, torch.randn(6, 16), torch.tensor(0.0))
    (got,) = torch.autograd.grad(method._invariance(found), z)
    (cut,) = torch.autograd.grad(-F.cosine_similarity(z.detach(), z * stretch).mean(), z)
    (whole,) = torch.autograd.grad(-F.cosine_similarity(z, z * stretch).mean(), z)
    torch.testing.assert_close(got, cut)
    assert not torch.allclose(got, whole)


def test_epochs_alternate_between_scorer_and_the_rest() -> None:
    method = build()
    scorer = {id(p) for p in (*method.scorer.parameters(), *method.score.parameters())}
    for epoch in range(9):
        chosen = {id(p) for p in method.trainable(epoch)}
        assert chosen == scorer if epoch % 4 == 0 else not chosen & scorer
    both = [*method.trainable(0), *method.trainable(1)]
    assert len(both) == len(list(method.parameters()))


@pytest.mark.parametrize("model", NETWORKS)
def test_the_risk_alone_trains_the_scorer_on_every_model(model: str) -> None:
    method = build(model)
    method.train().loss(batch((9, 14, 6), p=0.4), 0)["risk"].backward()
    for module in (method.score, method.scorer, method.model):
        assert sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None) > 0


def test_an_edge_scores_the_mean_share_of_its_ends() -> None:
    method, data = build().eval(), batch()
    share = method.separate(data).share.detach()
    for edge, score in zip(data.edge_index.T.tolist(), method.edge_scores(data).tolist(), strict=True):
        assert score == pytest.approx(float(share[edge].mean()), abs=1e-6)


def test_the_share_term_alone_brings_the_share_to_its_goal() -> None:
    method, data = build(share=0.2), batch((9, 14, 6), p=0.4)
    optimiser = torch.optim.Adam(method.trainable(0), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        method.train().loss(data, 0)["share"].backward()
        optimiser.step()
    assert float(method.separate(data).share.mean().detach()) == pytest.approx(0.2, abs=0.05)


def test_training_moves_the_codes_and_prediction_does_not() -> None:
    method, data = build(), batch()
    before = method.quantiser.codes.clone()
    method.eval().predict(data)
    assert torch.equal(method.quantiser.codes, before)
    method.train().loss(data, 1)
    assert not torch.equal(method.quantiser.codes, before)
