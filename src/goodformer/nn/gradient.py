"""Scaling of gradients in the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Scaled(torch.autograd.Function):
    """Identity whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float | Tensor) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.scale, None


def scale_gradient(x: Tensor, scale: float | Tensor) -> Tensor:
    """Return x with its gradient multiplied by ``scale``: 1 passes, 0 cuts, -1 reverses (Ganin & Lempitsky, 2015).

    A tensor is read in the backward pass, so it may depend on computations after x.
    """
    return _Scaled.apply(x, scale)
