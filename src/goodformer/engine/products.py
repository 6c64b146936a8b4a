"""Matrix products by numpy's OpenBLAS where it is faster than the library that torch uses.

On the CPU, torch's wheels multiply with MKL, which is slow on AMD processors with AVX-512. With the OpenBLAS in numpy's
wheels a training step takes two thirds of the time there (``python -m benchmarks.speed --products``). Both compute in
the same precision, but need not agree in the last digit.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from goodformer.engine.processor import processor

FULL_WIDTH = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})
"""Names that OpenBLAS gives to its code for AVX-512."""
TYPES = (torch.float, torch.double)
SMALLEST = 1 << 15
"""Multiplications of a product below which a call of numpy costs more than it saves."""


@cache
def openblas_is_faster() -> bool:
    """Return whether numpy's OpenBLAS uses AVX-512 on an AMD processor."""
    if "AMD" not in (processor() or ""):
        return False
    from threadpoolctl import threadpool_info

    return any(
        one["internal_api"] == "openblas" and one.get("architecture") in FULL_WIDTH and "numpy" in one["filepath"]
        for one in threadpool_info()
    )


def suits(a: Tensor, b: Tensor) -> bool:
    """Return whether `product` is to multiply these; shapes that do not match are left to torch, which reports them."""
    if a.dtype not in TYPES or a.dtype != b.dtype or not a.dim() == b.dim() == 2 or a.shape[1] != b.shape[0]:
        return False
    return a.numel() * b.shape[1] >= SMALLEST


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return a b, (M, K) and (K, N) -> (M, N), for dense tensors on the CPU."""
    found = a.new_empty(a.shape[0], b.shape[1])
    with np.errstate(all="ignore"):  # like torch, do not warn of infinities
        np.matmul(a.detach().numpy(), b.detach().numpy(), out=found.numpy())
    return found


class _Replacement:
    """Kernels of torch's two operators for products of matrices, and the ones they stand for."""

    def __init__(self) -> None:
        self.usual = {name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in ("mm", "addmm")}
        self.key = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        self.library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that operators are replaced
            self.library.impl("mm", self.mm, "CPU")
            self.library.impl("addmm", self.addmm, "CPU")

    def mm(self, a: Tensor, b: Tensor) -> Any:
        if not suits(a, b):
            return self.usual["mm"].call_boxed(self.key, a, b)
        return product(a, b)

    def addmm(self, c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
        if not suits(a, b) or c.dtype != a.dtype or beta != 1 or alpha != 1:
            return self.usual["addmm"].call_boxed(self.key, c, a, b, beta=beta, alpha=alpha)
        return product(a, b).add_(c)

    def undo(self) -> None:
        self.library._destroy()


class _Shared:
    """The replacement of this process, which has one set of operators and one OpenBLAS, and how many blocks use it."""

    def __init__(self) -> None:
        self.lock, self.users, self.inside = threading.Lock(), 0, ExitStack()

    def enter(self, threads: int) -> None:
        from threadpoolctl import threadpool_limits

        with self.lock:
            if not self.users:
                self.inside.callback(_Replacement().undo)
                self.inside.enter_context(threadpool_limits(threads, "blas"))
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.inside.close()


_shared = _Shared()


@contextmanager
def fast_products(threads: int = 1) -> Iterator[None]:
    """Multiply matrices on the CPU by OpenBLAS inside the block, if that is faster; gradients, too.

    Other threads of the process multiply in the same way until the last block ends.

    Args:
        threads: Threads that OpenBLAS uses inside the block; if blocks overlap, the number of the first one counts.
    """
    if not openblas_is_faster():
        yield
        return
    _shared.enter(threads)
    try:
        yield
    finally:
        _shared.leave()
