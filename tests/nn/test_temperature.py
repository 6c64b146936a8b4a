"""The test-time temperature against an independent root finder, and the theory behind it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import entropy as shannon

from goodformer.nn.disentangler import hide_padding
from goodformer.nn.layout import Layout
from goodformer.nn.temperature import (
    HIGHEST,
    LOWEST,
    descend_temperature,
    softmax_entropy,
    solve_temperature,
)
from tests.nn.graphs import batch


def entropy_at(logits: np.ndarray, t: float) -> float:
    return float(shannon(softmax(logits / t, axis=-1), axis=-1).mean())


def problem(sizes: tuple[int, ...], heads: int, scale: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    layout = Layout(batch(sizes, p=0.2))
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(len(sizes), heads, layout.width, layout.width, generator=generator)
    rows = torch.arange(layout.width) < layout.sizes[:, None]
    return hide_padding(scores, rows), rows


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 90), min_size=1, max_size=4),
    scale=st.floats(0.3, 6),
    share=st.floats(0.25, 0.9),
    seed=st.integers(0, 1000),
)
def test_exact_temperature_equals_brentq(sizes: list[int], scale: float, share: float, seed: int) -> None:
    logits, rows = problem(tuple(sizes), 2, scale, seed)
    target = torch.full((2,), share * float(np.log(min(sizes))))
    t = solve_temperature(logits, rows, target, tolerance=1e-5)
    for g, n in enumerate(sizes):
        for head in range(2):
            block = logits[g, head, :n, :n].double().numpy()
            low, high = entropy_at(block, LOWEST), entropy_at(block, HIGHEST)
            if low < float(target[head]) < high:
                expected = brentq(lambda x: entropy_at(block, x) - float(target[head]), LOWEST, HIGHEST, xtol=1e-9)  # noqa: B023
                assert entropy_at(block, float(t[g, head])) == pytest.approx(float(target[head]), abs=2e-4)
                assert float(t[g, head]) == pytest.approx(expected, rel=0.02)


def test_entropy_falls_with_temperature_at_the_rate_the_theory_says() -> None:
    logits = torch.randn(50, dtype=torch.double) * 2
    for t in (0.3, 1.0, 3.0):
        temperature = torch.tensor(t, dtype=torch.double, requires_grad=True)
        log_p = (logits / temperature).log_softmax(-1)
        h = -(log_p.exp() * log_p).sum()
        (slope,) = torch.autograd.grad(h, temperature)
        p = log_p.exp()
        variance = (p * logits**2).sum() - (p * logits).sum() ** 2
        assert float(slope) == pytest.approx(float(variance / t**3), rel=1e-6)
        assert slope > 0


def test_a_target_out_of_reach_ends_at_the_border() -> None:
    logits, rows = problem((6, 9), 2, 1.0, 0)
    assert torch.allclose(solve_temperature(logits, rows, torch.full((2,), 9.0)), torch.tensor(HIGHEST), rtol=1e-3)
    assert torch.allclose(solve_temperature(logits, rows, torch.full((2,), -1.0)), torch.tensor(LOWEST), rtol=1e-3)


def test_degenerate_logits_give_numbers() -> None:
    logits, rows = problem((1, 4), 2, 0.0, 0)
    t = solve_temperature(logits, rows, torch.tensor([0.5, 1.0]))
    assert t.isfinite().all()
    assert (t > 0).all()


def test_a_graph_gets_the_same_temperature_alone_and_in_a_batch() -> None:
    logits, rows = problem((60, 7, 80), 3, 2.0, 1)
    target = torch.tensor([1.0, 1.3, 0.8])
    together = solve_temperature(logits, rows, target)
    alone = solve_temperature(logits[1:2, :, :7, :7], rows[1:2, :7], target)
    torch.testing.assert_close(together[1:2], alone, rtol=1e-3, atol=1e-4)


def test_mean_entropy_equals_scipy() -> None:
    logits, rows = problem((5, 11), 2, 2.0, 3)
    got = softmax_entropy(logits, rows)[1]
    for g, n in enumerate((5, 11)):
        for head in range(2):
            assert float(got[g, head]) == pytest.approx(entropy_at(logits[g, head, :n, :n].numpy(), 1.0), abs=1e-5)


def test_both_solvers_work_in_inference_mode() -> None:
    with torch.inference_mode():
        logits, rows = problem((12, 20), 2, 2.0, 4)
        assert (descend_temperature(logits, rows, torch.tensor([1.0, 1.0])) != 1).all()
        assert (solve_temperature(logits, rows, torch.tensor([1.0, 1.0])) != 1).all()


def test_entropy_and_its_gradient_equal_the_definition() -> None:
    logits = torch.randn(2, 3, 5, 5, dtype=torch.double, requires_grad=True)
    rows = torch.ones(2, 5, dtype=torch.bool)
    log_p = logits.log_softmax(-1)
    expected = -(log_p.exp() * log_p).sum(-1).mean(-1)
    got = softmax_entropy(logits, rows)[1]
    torch.testing.assert_close(got, expected)
    (want,) = torch.autograd.grad(expected.square().sum(), logits, retain_graph=True)
    (have,) = torch.autograd.grad(got.square().sum(), logits)
    torch.testing.assert_close(have, want)


def test_descent_moves_towards_the_target_and_hardly() -> None:
    logits, rows = problem((12, 20), 2, 2.0, 4)
    start = softmax_entropy(logits, rows)[1]
    t = descend_temperature(logits, rows, start.mean(0) - 0.5)
    assert (t < 1).all()
    assert (t > 0.985).all()
    far = descend_temperature(logits, rows, start.mean(0) - 0.5, steps=200, rate=0.02)
    exact = solve_temperature(logits, rows, start.mean(0) - 0.5)
    torch.testing.assert_close(far, exact, rtol=0.05, atol=0.02)


def test_joint_descent_minimises_the_sum_of_both_distances() -> None:
    logits, rows = problem((12, 20, 7), 2, 2.0, 4)
    signed = torch.cat((logits, torch.where(logits < -1e8, logits, -logits)))
    start = softmax_entropy(signed, rows.repeat(2, 1))[1]  # (2B, H)
    goal = start + torch.tensor([[-0.5], [-0.4], [0.3], [-0.2], [0.3], [0.4]])
    t = torch.ones(3, 2, requires_grad=True)
    adam = torch.optim.Adam([t], lr=1e-3)
    for _ in range(10):  # the objective written out, differentiated by autograd
        warm = signed / t.repeat(2, 1)[..., None, None]
        adam.zero_grad()
        (softmax_entropy(warm, rows.repeat(2, 1))[1] - goal).abs().sum().backward()
        adam.step()
    got = descend_temperature(signed, rows.repeat(2, 1), goal, attentions=2)
    assert torch.equal(*got.chunk(2))
    torch.testing.assert_close(got[:3], t.detach(), atol=1e-5, rtol=0)


def test_gradients_of_attention_and_entropy_are_those_of_autograd() -> None:
    logits, rows = problem((6, 3), 2, 1.5, seed=2)
    logits = logits.double().requires_grad_()
    weight = torch.randn_like(logits)

    def plain(e: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        p = e.softmax(-1)
        share = rows[:, None] / rows.sum(1)[:, None, None]
        return p, -((p * e.log_softmax(-1)).sum(-1) * share).sum(-1)

    for by_attention, by_entropy in ((1.0, 0.0), (0.0, 1.0), (1.0, 0.7)):
        gradients = []
        for function in (plain, lambda e: softmax_entropy(e, rows)):
            p, entropy = function(logits)
            terms = [by_attention * (p * weight).sum()] * (by_attention > 0)
            terms += [by_entropy * entropy.square().sum()] * (by_entropy > 0)
            (first,) = torch.autograd.grad(torch.stack(terms).sum(), logits, create_graph=True)
            (second,) = torch.autograd.grad(first.square().sum(), logits)
            gradients.append((p, entropy, first, second))
        for expected, got in zip(*gradients, strict=True):
            torch.testing.assert_close(got, expected, atol=1e-7, rtol=1e-5)
