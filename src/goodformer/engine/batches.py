"""Which graphs make up each training step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

from goodformer.engine.seeds import derive_seed
from goodformer.registry import InputError


class EpochBatches(Sampler[list[int]]):
    """The batches of an epoch, a pure function of seed and epoch, and the share of one process in each.

    A batch is split among the processes, so that a step sees the same graphs however many there are. A remainder too
    small to give every process two graphs, which BatchNorm needs, joins the batch before it.

    Args:
        graphs: Number of training graphs.
        batch_size: Graphs a step, over all processes.
        seed: Seed of the run.
        drop_last: Leave out a last batch that is not full.
        rank: Number of this process.
        world: Number of processes.
    """

    def __init__(
        self, graphs: int, batch_size: int, *, seed: int = 0, drop_last: bool = False, rank: int = 0, world: int = 1
    ) -> None:
        self.graphs, self.seed, self.rank, self.world, self.epoch = graphs, seed, rank, world, 0
        if batch_size < 2 * world:
            raise InputError(
                f"training: batch_size = {batch_size} leaves some of {world} processes fewer than 2 graphs; "
                f"set it to {2 * world} or more."
            )
        self.bounds = _bounds(graphs, batch_size, drop_last, 2 * world)
        if not self.bounds:
            raise InputError(
                f"{graphs} training graphs do not fill one batch of {batch_size}; "
                "lower training.batch_size or set training.drop_last to false."
            )

    def __len__(self) -> int:
        return len(self.bounds)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", self.epoch))
        order = torch.randperm(self.graphs, generator=generator)
        for start, stop in self.bounds:
            yield order[start:stop][self.rank :: self.world].tolist()


def _bounds(graphs: int, batch_size: int, drop_last: bool, smallest: int) -> list[tuple[int, int]]:
    """Where each batch begins and ends in the order of the epoch."""
    starts = list(range(0, graphs, batch_size))
    bounds = [(start, min(start + batch_size, graphs)) for start in starts]
    if drop_last:
        return [(start, stop) for start, stop in bounds if stop - start == batch_size]
    if len(bounds) > 1 and graphs - bounds[-1][0] < smallest:
        bounds[-2:] = [(bounds[-2][0], graphs)]
    return bounds
