"""Averages of the weights along training, which often predict better than the last weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from goodformer.config.run import Kind

Buffers = dict[str, Tensor | None]


class WeightAverage:
    """A second copy of a module that follows the trained one.

    With ``ema`` each step moves the average by w <- d_t w + (1 - d_t) w_t, where d_t = min(decay, (1 + t) / (10 + t))
    and t counts the steps before this one, so the first steps lose their influence soon. ``swa`` averages the weights
    at the ends of all epochs. Real-valued buffers (running statistics) are averaged in the same way, starting from
    the first value that is not NaN, which means "not seen yet"; all others are copied.

    Args:
        module: The module that is trained; its averaged copy is ``self.module``.
        kind: ``ema``, ``swa``, or ``none``, where ``self.module`` is the trained module itself.
        decay: Largest share of the average that a step keeps, for ``ema``.
    """

    def __init__(self, module: nn.Module, kind: Kind, decay: float = 0.99) -> None:
        self.kind, self.decay, self.count = kind, decay, 0
        self.module = module if kind == "none" else copy.deepcopy(module).requires_grad_(False)
        pairs = [] if kind == "none" else [*zip(self.module.modules(), module.modules(), strict=True)]
        self._old, self._new = ([w.detach() for w in part.parameters()] for part in (self.module, module))
        # Where each buffer is found; a module may replace the buffer itself.
        self._buffers = [(old._buffers, new._buffers, name) for old, new in pairs for name in new._buffers]
        self._unseen = self._buffers

    def after_step(self) -> None:
        """Update the average after an optimiser step."""
        if self.kind == "ema":
            self._move(1 - min(self.decay, (1 + self.count) / (10 + self.count)))

    def after_epoch(self) -> None:
        """Update the average at the end of an epoch."""
        if self.kind == "swa":
            self._move(1 / (1 + self.count))

    @torch.no_grad()
    def _move(self, share: float) -> None:
        """Move the average by ``share`` of the way to the trained weights."""
        self.count += 1
        torch._foreach_lerp_(self._old, self._new, share)
        for average, current, name in self._buffers:
            old, new = average[name], current[name]
            if old is not None and new is not None:
                old.lerp_(new, share) if old.is_floating_point() else old.copy_(new)
        self._unseen = [place for place in self._unseen if not _take_first(*place)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save, empty if nothing is averaged."""
        return {} if self.kind == "none" else {"count": self.count, "module": self.module.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        if state:
            self.count = int(state["count"])
            self.module.load_state_dict(state["module"])
            self._unseen = self._buffers


def _take_first(average: Buffers, current: Buffers, name: str) -> bool:
    """Copy current values to where the average has none yet; return whether all are known now."""
    old, new = average[name], current[name]
    if old is None or new is None or not old.is_floating_point():
        return True
    old.copy_(torch.where(old.isnan(), new, old))
    return not bool(old.isnan().any())
