"""A second network of the same kind."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

from goodformer.nn.dropout import ByteDropout

AnyModule = TypeVar("AnyModule", bound=nn.Module)


@torch.no_grad()
def fresh_twin(module: AnyModule, *, dropout: bool = True) -> AnyModule:
    """A copy of a module with initial weights of its own: the entries of every parameter in a random order.

    They keep the distribution they were drawn from, whatever the module's way to draw them, constants stay constants,
    and nothing has to be known of how the module is built.

    Args:
        module: A module that is not yet trained; it is left as it is.
        dropout: False takes dropout out of the copy.
    """
    twin = copy.deepcopy(module)
    for parameter in twin.parameters():
        flat = parameter.view(-1)
        flat.copy_(flat[torch.randperm(flat.numel(), device=flat.device)])
    for layer in () if dropout else twin.modules():
        if isinstance(layer, ByteDropout):
            layer.cut = 0
        elif isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return twin
