"""A second network with the same architecture."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

from goodformer.nn.dropout import ByteDropout

AnyModule = TypeVar("AnyModule", bound=nn.Module)


@torch.no_grad()
def fresh_twin(module: AnyModule, *, dropout: bool = True) -> AnyModule:
    """Return a copy of a module with new initial weights: the entries of every parameter, shuffled.

    Shuffling keeps the distribution of the initialisation and needs no knowledge of how the module is built. Constants
    stay constant.

    Args:
        module: An untrained module, which is not changed.
        dropout: False disables dropout in the copy.
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
