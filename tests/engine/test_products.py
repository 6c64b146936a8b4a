"""Matrix products by OpenBLAS."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from threadpoolctl import threadpool_info
from torch import Tensor, nn

from goodformer.engine import products, record
from goodformer.engine.products import fast_products, openblas_is_faster
from goodformer.engine.run import train
from goodformer.engine.store import Run
from tests.engine.tiny import QUIET, tiny_config


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Use OpenBLAS whatever the processor, and note the shape of each product that it computes."""
    shapes: list[tuple[int, ...]] = []
    usual = products.product

    def product(a: Tensor, b: Tensor) -> Tensor:
        shapes.append((*a.shape, b.shape[1]))
        return usual(a, b)

    monkeypatch.setattr(products, "openblas_is_faster", lambda: True)
    monkeypatch.setattr(products, "product", product)
    monkeypatch.setattr(products, "SMALLEST", 0)
    monkeypatch.setattr(record, "openblas_is_faster", lambda: True)
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
    monkeypatch.setattr(products, "openblas_is_faster", lambda: False)
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
    assert openblas_is_faster.__wrapped__() == expected


def test_small_products_are_left_to_torch(counted: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALLEST", 1000)
    with fast_products():
        for size in (9, 10):
            torch.ones(size, size) @ torch.ones(size, size)
    assert counted == [(10, 10, 10)]


@pytest.mark.filterwarnings("error")
def test_infinities_are_no_errors(counted: list[tuple[int, ...]]) -> None:
    a = torch.full((2, 2), 3e38)
    with fast_products():
        assert (a @ a).isinf().all()
        assert (a @ a @ torch.zeros(2, 2)).isnan().all()
    assert len(counted) == 3


def threads_of_blas() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_the_replacement_lasts_until_the_last_thread_leaves(counted: list[tuple[int, ...]]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with fast_products():
            inside.set()
            leave.wait(10)

    before = threads_of_blas()
    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    try:
        with fast_products(2):
            torch.ones(3, 3) @ torch.ones(3, 3)
        torch.ones(3, 3) @ torch.ones(3, 3)  # the other thread is still inside
        assert threads_of_blas() == {1}
    finally:
        leave.set()
        thread.join()
    torch.ones(3, 3) @ torch.ones(3, 3)
    assert threads_of_blas() == before
    assert len(counted) == 2


def test_a_block_has_as_many_threads_as_it_asks_for(counted: list[tuple[int, ...]]) -> None:
    for threads in (1, 2):
        with fast_products(threads):
            assert threads_of_blas() == {threads}


def tiny_run(folder: Path, epochs: int | None = None) -> Run:
    def stop(done: Sequence[object]) -> None:
        if len(done) == epochs:
            raise KeyboardInterrupt

    return train(tiny_config(), folder, QUIET, after_epoch=stop)


def test_training_multiplies_by_openblas_and_resumes_bit_for_bit(
    tmp_path: Path, counted: list[tuple[int, ...]]
) -> None:
    whole = tiny_run(tmp_path / "whole")
    assert counted
    assert whole.summary is not None
    assert whole.summary["machine"]["products"] == "OpenBLAS"
    with pytest.raises(KeyboardInterrupt):
        tiny_run(tmp_path / "stopped", 1)
    again = tiny_run(tmp_path / "stopped")
    weights = [load_file(run.folder / "last" / "weights.safetensors") for run in (whole, again)]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert [one["loss"] for one in again.epochs] == [one["loss"] for one in whole.epochs]
