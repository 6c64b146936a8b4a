"""Gradients that are scaled on their way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Scaled(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float | Tensor) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.scale, None


def scale_gradient(x: Tensor, scale: float | Tensor) -> Tensor:
    """x itself; its gradient is multiplied by ``scale``: 1 passes, 0 cuts, -1 reverses (Ganin & Lempitsky, 2015).

    A tensor (B,) scales each entry of the first dimension by its own number, read when the gradient flows.
    """
    if isinstance(scale, Tensor):
        scale = scale.view(-1, *[1] * (x.dim() - 1))  # a view: it follows later changes
    elif scale == 1:
        return x
    elif scale == 0:
        return x.detach()
    out: Tensor = _Scaled.apply(x, scale)
    return out
