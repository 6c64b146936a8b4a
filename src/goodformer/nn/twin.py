"""A second network like a given one."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


@torch.no_grad()
def twin(module: M) -> M:
    """A copy of a fresh module with weights of its own: the entries of each tensor in a new random order.

    For weights drawn independently from one distribution a new order is a new draw, whatever the distribution, and
    constants stay what they are. So a method can have a second network of any model without knowing how it is made.
    """
    other = copy.deepcopy(module)
    for weight in other.parameters():
        order = torch.randperm(weight.numel(), device=weight.device)
        weight.copy_(weight.flatten()[order].view_as(weight))
    return other
