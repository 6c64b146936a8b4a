"""A plugin with a method that kills the process that trains it."""

from __future__ import annotations

import os
import signal

from torch import Tensor
from torch_geometric.data import Batch

from goodformer.methods import METHODS
from goodformer.methods.erm import ERM


class Deadly(ERM):
    """Kills its process in the first step, as the system does when memory runs out."""

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(batch, epoch)


METHODS.add("deadly", Deadly)
