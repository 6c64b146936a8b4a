"""Running statistics of normalisation layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def unrecorded(module: nn.Module) -> Iterator[None]:
    """What passes through inside leaves no trace in BatchNorm's running averages.

    For a network that is trained on two kinds of input and predicts from one of them: its averages must be those of
    the kind it predicts from.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True
