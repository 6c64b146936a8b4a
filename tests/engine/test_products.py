"""Matrix products by OpenBLAS."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from goodformer.engine import products
from goodformer.engine.products import fast_products


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Use OpenBLAS whatever the processor, and note the shape of each product that it computes."""
    shapes: list[tuple[int, ...]] = []
    usual = products.product

    def product(a: Tensor, b: Tensor) -> Tensor:
        shapes.append((*a.shape, b.shape[1]))
        return usual(a, b)

    monkeypatch.setattr(products, "faster", lambda: True)
    monkeypatch.setattr(products, "product", product)
    return shapes


def operands(dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    a, b = torch.randn(7, 5).to(dtype), torch.randn(5, 3).to(dtype)
    return [
        (a, b),
        (a.T.contiguous().T, b.T.contiguous().T),
        (a[::2], b[:, 1:]),
        (a[:1].expand(4, -1), b),
        (a[:0], b),
        (a[:, :0], b[:0]),
    ]


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_products_are_those_of_torch(counted: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    for a, b in operands(dtype):
        bias, wanted = torch.randn(b.shape[1]).to(dtype), a @ b
        with fast_products():
            torch.testing.assert_close(a @ b, wanted)
            torch.testing.assert_close(torch.addmm(bias, a, b), wanted + bias)
            torch.testing.assert_close(torch.addmm(bias, a, b, beta=2, alpha=0.5), 2 * bias + wanted / 2)
    assert len(counted) == 2 * len(operands(dtype))


@pytest.mark.parametrize("dtype", [torch.long, torch.bfloat16, torch.complex64])
def test_other_types_are_left_to_torch(counted: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    for a, b in operands(dtype):
        wanted = a @ b
        with fast_products():
            torch.testing.assert_close(a @ b, wanted)
    assert not counted


def test_gradients_of_all_orders_are_right(counted: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 3).double(), torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    with fast_products():
        before = len(counted)
        layer(x).square().sum().backward()
        assert len(counted) == before + 3  # forward, and the gradients of inputs and weights
        weight, bias = layer.weight.detach().requires_grad_(), layer.bias.detach().requires_grad_()
        assert torch.autograd.gradcheck(lambda *z: nn.functional.linear(*z).tanh(), (x, weight, bias))
        assert torch.autograd.gradgradcheck(lambda *z: nn.functional.linear(*z).tanh(), (x, weight, bias))


def test_torch_multiplies_again_after_the_block_also_if_it_fails(counted: list[tuple[int, ...]]) -> None:
    a = torch.randn(3, 3)
    with fast_products():
        with fast_products():
            a @ a
        a @ a  # the inner block does not end the outer one
        with pytest.raises(RuntimeError):
            a @ torch.ones(2, 2)
    assert len(counted) == 2
    a @ a
    with pytest.raises(ZeroDivisionError), fast_products():
        raise ZeroDivisionError
    a @ a
    assert len(counted) == 2


def test_nothing_changes_where_it_is_not_faster(
    counted: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "faster", lambda: False)
    with fast_products():
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert not counted


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("AMD EPYC", "SkylakeX", True),
        ("AMD EPYC", "Haswell", False),
        ("Intel(R) Xeon(R)", "SkylakeX", False),
        (None, "SkylakeX", False),
    ],
)
def test_only_amd_processors_with_full_width_products_gain(
    name: str | None, code: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = [{"internal_api": "openblas", "architecture": code, "filepath": "numpy.libs/libscipy_openblas64_.so"}]
    monkeypatch.setattr(products, "processor", lambda: name)
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: info)
    assert products.faster.__wrapped__() == expected
