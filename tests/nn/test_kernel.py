"""The kernel of counts and further columns: its value, its terms, and damaged weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from goodformer.errors import InputError
from goodformer.nn.kernel import Kernel

COUNTED, FURTHER = 12, 5


def rows(seed: int, graphs: int = 9) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    counts = torch.poisson(torch.full((graphs, COUNTED), 0.8), generator)
    return torch.cat((counts, 3 * torch.randn(graphs, FURTHER, generator=generator)), 1)


def made(outputs: int = 2) -> Kernel:
    kernel = Kernel(COUNTED, COUNTED + FURTHER, outputs)
    kernel.keep(rows(0))
    kernel.shape = torch.tensor([0.7, 1.1, 0.8, 0.3]).double()
    kernel.alpha = torch.randn(9, outputs, generator=torch.Generator().manual_seed(5)).double()
    kernel.constant = torch.tensor([0.5, -0.25]).double()[:outputs]
    return kernel


def test_values_are_those_of_the_formula() -> None:
    """Tanimoto similarity of counts, whole or not, and a Gaussian and a linear kernel of standardised columns."""
    kernel, kept = made(), rows(0)
    new = rows(1, 4)
    new[:2, :COUNTED] *= 0.7  # weighted edges make counts that are not whole
    smaller = torch.minimum(new[:, None, :COUNTED], kept[None, :, :COUNTED]).sum(2)
    larger = torch.maximum(new[:, None, :COUNTED], kept[None, :, :COUNTED]).sum(2)
    logged, own = (one[:, COUNTED:].sign() * one[:, COUNTED:].abs().log1p() for one in (kept, new))
    scale = logged.std(0, correction=0) * FURTHER**0.5
    p, q = ((one - logged.mean(0)) / scale for one in (own, logged))
    gauss = (-torch.cdist(p, q).square() / (2 * 0.8**2)).exp()
    expected = 0.7 * smaller / larger + 1.1 * gauss + 0.3 * p @ q.T
    torch.testing.assert_close(kernel.between(new).float(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(kernel(new), kernel.between(new) @ kernel.alpha + kernel.constant)


def test_an_exported_kernel_is_the_same() -> None:
    kernel, new = made(), rows(1)
    found = kernel(new)
    kernel.settle()
    torch.testing.assert_close(kernel(new), found)


def test_large_counts_are_read_as_the_largest() -> None:
    kept = torch.zeros(3, COUNTED)
    kept[:, 0] = torch.tensor([200.0, 300.0, 1000.0])
    kernel = Kernel(COUNTED, COUNTED, 1)
    kernel.keep(kept)
    similar = kernel.parts(kept)[0]
    torch.testing.assert_close(similar, similar.T)
    assert similar.diagonal().tolist() == [1, 1, 1]
    assert float(similar[0, 1]) == pytest.approx(200 / 255)


def test_rows_that_share_nothing_and_empty_rows_have_no_similarity() -> None:
    kernel = Kernel(COUNTED, COUNTED, 1)
    kept = torch.zeros(2, COUNTED)
    kept[0, 0] = 3
    kernel.keep(kept)
    new = torch.zeros(2, COUNTED)
    new[0, 1] = 2
    assert kernel.parts(new)[0].tolist() == [[0, 0], [0, 0]]


def test_terms_add_up_and_are_integrated_gradients() -> None:
    kernel, new = made(), rows(1)
    direction = torch.randn(9, 2, generator=torch.Generator().manual_seed(2))
    constant, terms = kernel.contributions(new, direction)
    torch.testing.assert_close(constant + terms.sum(1), (kernel(new) * direction.double()).sum(1))
    # The rest, which belongs to no column, is what the mean of further columns and no count at all would give.
    at_mean = kernel.alpha * 1.1 * (-kernel.points.double().square().sum(1, keepdim=True) / (2 * 0.8**2)).exp()
    rest = (direction.double() * (kernel.constant + at_mean.sum(0))).sum(1)
    torch.testing.assert_close(constant, rest, atol=1e-4, rtol=1e-4)
    # Columns of counts: what the similarity to each kept row would be if only this column were shared.
    weight, (_, union) = direction.double() @ kernel.alpha.T, kernel.overlap(new)
    for column in range(COUNTED):
        shared = torch.minimum(new[:, column, None], rows(0)[:, column])
        own = 0.7 * (weight * shared / union).sum(1)
        torch.testing.assert_close(terms[:, column], own, atol=1e-5, rtol=1e-5)
    # Further columns: the mean gradient on the line from the mean to the row.
    p, slopes = kernel.point(new).double(), []
    for stop in (torch.arange(400).double() + 0.5) / 400:
        at = (stop * p).requires_grad_()
        near = 1.1 * (-torch.cdist(at, kernel.points.double()).square() / (2 * 0.8**2)).exp()
        ((near + 0.3 * at @ kernel.points.double().T) * weight).sum().backward()
        assert at.grad is not None
        slopes.append(at.grad)
    torch.testing.assert_close(terms[:, COUNTED:], p * torch.stack(slopes).mean(0), atol=1e-4, rtol=1e-3)


def test_what_follows_from_the_kept_rows_is_not_saved_but_computed() -> None:
    state, new = made().state_dict(), rows(1)
    assert set(state) == set(Kernel.names)
    again = Kernel(COUNTED, COUNTED + FURTHER, 2)
    again.hold(rows(3))
    again.load_state_dict(state)
    assert all(torch.equal(one, other) for one, other in zip(again.overlap(new), made().overlap(new), strict=True))
    assert torch.equal(again.double()(new.double()), made().double()(new.double()))


def test_constant_columns_are_left_out() -> None:
    kept = rows(0)
    kept[:, -1] = 4.0
    kernel = Kernel(COUNTED, COUNTED + FURTHER, 1)
    kernel.keep(kept)
    new = rows(1)
    changed = new.clone()
    changed[:, -1] += 100
    torch.testing.assert_close(kernel.between(changed), kernel.between(new))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("alpha", torch.zeros(8, 2).double(), "alpha has the shape"),
        ("rows", torch.zeros(9, COUNTED), "not whole numbers"),
        ("constant", torch.tensor([torch.nan, 0]).double(), "not finite"),
        ("scale", torch.zeros(FURTHER), "not positive"),
        ("shape", torch.zeros(4).double(), "not positive"),
    ],
)
def test_damaged_weights_are_refused(name: str, value: Tensor, reason: str) -> None:
    state = made().state_dict()
    again = Kernel(COUNTED, COUNTED + FURTHER, 2)
    again.load_state_dict(state)
    torch.testing.assert_close(again(rows(1)), made()(rows(1)))
    with pytest.raises(InputError, match=reason):
        again.load_state_dict({**state, name: value})
