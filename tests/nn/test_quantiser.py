"""Codes against distances and running means written out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from goodformer.models import MODELS
from goodformer.nn import quantiser as module
from goodformer.nn.quantiser import Quantiser
from goodformer.nn.twin import fresh_twin
from goodformer.spec import Features, FeatureSpec


def test_the_nearest_code_is_the_one_at_the_smallest_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer, h = Quantiser(5, 40, 0.9), torch.randn(200, 5)
    expected = torch.cdist(h, layer.codes).argmin(1)
    assert torch.equal(layer.nearest(h), expected)
    monkeypatch.setattr(module, "ROWS", 7)
    assert torch.equal(layer.nearest(h), expected)


def test_the_gradient_goes_straight_through_and_commitment_pulls_to_the_code() -> None:
    layer, h = Quantiser(5, 40, 0.9).eval(), torch.randn(20, 5, requires_grad=True)
    quantised, commitment = layer(h)
    torch.testing.assert_close(quantised, layer.codes[layer.nearest(h)])
    weights = torch.randn(20, 5)
    (passed,) = torch.autograd.grad((quantised * weights).sum(), h, retain_graph=True)
    assert torch.equal(passed, weights)
    (pull,) = torch.autograd.grad(commitment, h)
    torch.testing.assert_close(commitment, ((h - quantised) ** 2).mean())
    torch.testing.assert_close(pull, 2 * (h - quantised) / h.numel())


def test_codes_are_running_means_of_what_they_stand_for() -> None:
    torch.manual_seed(0)
    layer, decay = Quantiser(3, 6, 0.8), 0.8
    codes = [code.clone() for code in layer.codes]
    sums, counts = [code.clone() for code in codes], [1.0] * 6
    for _ in range(12):
        h = torch.randn(15, 3)
        near = torch.cdist(h, torch.stack(codes)).argmin(1)
        layer.train()(h)
        for k in range(6):
            members = h[near == k]
            counts[k] = decay * counts[k] + (1 - decay) * len(members)
            sums[k] = decay * sums[k] + (1 - decay) * members.sum(0)
            codes[k] = sums[k] / counts[k] if len(members) else codes[k]
    torch.testing.assert_close(layer.codes, torch.stack(codes), atol=1e-5, rtol=1e-4)


def test_evaluation_changes_no_code_and_a_code_never_used_stays() -> None:
    layer, h = Quantiser(3, 4, 0.5), torch.randn(10, 3) * 0.1
    layer.codes[3] = layer.sums[3] = torch.full((3,), 100.0)
    before = layer.codes.clone()
    layer.eval()(h)
    assert torch.equal(layer.codes, before)
    for _ in range(3000):  # the counts of a code never used come down to zero
        layer.train()(h)
    assert layer.codes.isfinite().all()
    assert torch.equal(layer.codes[3], before[3])
    assert not torch.equal(layer.codes, before)
    layer(torch.full((4, 3), 90.0))
    torch.testing.assert_close(layer.codes[3], torch.full((3,), 90.0))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_twin_is_built_alike_with_weights_of_its_own(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS.build(name, FeatureSpec(Features.categorical(5, 7), Features.continuous(3)), dim=16)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    twin = fresh_twin(model)
    assert type(twin) is type(model)
    assert not {id(p) for p in twin.parameters()} & {id(p) for p in model.parameters()}
    for (key, mine), (other, theirs) in zip(twin.named_parameters(), model.named_parameters(), strict=True):
        assert key == other
        assert torch.equal(theirs, before[key])
        assert torch.equal(mine.flatten().sort().values, theirs.flatten().sort().values)
        assert mine.requires_grad
        assert torch.equal(mine, theirs) == (len(theirs.unique()) == 1), key


def test_twins_differ_from_each_other_and_follow_the_seed() -> None:
    layer = nn.Linear(8, 8)
    twins = []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        twins.append(fresh_twin(layer).weight)
    assert torch.equal(twins[0], twins[2])
    assert not torch.equal(twins[0], twins[1])
