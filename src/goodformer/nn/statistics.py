"""Running statistics of layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def unrecorded(module: nn.Module) -> Iterator[None]:
    """Leave running averages unchanged inside the block, those of BatchNorm and a model's own buffers.

    A network that is trained on two kinds of input but predicts from one must keep the averages of that one.
    """
    norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    others = [layer for layer in module.modules() if not isinstance(layer, _BatchNorm)]
    before = [(buffer, buffer.clone()) for layer in others for buffer in layer.buffers(recurse=False)]
    for layer in norms:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in norms:
            layer.track_running_stats = True
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
