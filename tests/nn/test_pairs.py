"""Heads on all pairs against the same layers on the pairs written out."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from goodformer.nn.pairs import normed_sums, on_pairs, pair_sums
from goodformer.nn.statistics import unrecorded


@pytest.mark.parametrize("mode", ["training", "unrecorded", "evaluation"])
def test_sums_are_normalised_as_if_written_out(mode: str) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(4)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias), norm.running_mean.normal_(), norm.running_var.uniform_()
    other = copy.deepcopy(norm.train(mode != "evaluation"))
    first, second = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    if mode == "unrecorded":
        with unrecorded(norm), unrecorded(other):
            got, expected = pair_sums(*normed_sums(norm, first, second)), other(pair_sums(first, second))
    else:
        got, expected = pair_sums(*normed_sums(norm, first, second)), other(pair_sums(first, second))
    torch.testing.assert_close(got, expected)
    for (name, a), b in zip(norm.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
    direction = torch.randn(15, 4)
    for a, b in zip(*(torch.autograd.grad(y, (first, second), direction) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_pairs_run_over_the_second_set_first() -> None:
    first, second = torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    assert pair_sums(first, second).flatten().tolist() == [1, 2, 3, 11, 12, 13]


@pytest.mark.parametrize("entries", [1, 13, 100])
def test_parts_of_pairs_equal_all_pairs_at_once(entries: int) -> None:
    torch.manual_seed(0)
    head = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
    first, second = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    got, expected = on_pairs(head, first, second, entries), head(first[:, None] + second)
    torch.testing.assert_close(got, expected)
    leaves, direction = (first, second, *head.parameters()), torch.randn(5, 3, 2)
    for a, b in zip(*(torch.autograd.grad(y, leaves, direction) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b)


def test_noise_is_the_same_in_both_passes() -> None:
    head, first = nn.Dropout(0.5), torch.ones(40, 4, requires_grad=True)
    made = on_pairs(head, first, torch.zeros(3, 4), 12)
    made.sum().backward()
    assert torch.equal(first.grad, made.detach().sum(1))
