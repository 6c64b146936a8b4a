"""The graphs of each training step and of each evaluation step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Sampler

from goodformer.engine.seeds import derive_seed
from goodformer.errors import InputError

PAIRS = 2**21
"""Most pairs of nodes in an evaluation step of several graphs; it bounds the memory that attention needs."""


class EpochBatches(Sampler[list[int]]):
    """The batches of an epoch, a pure function of seed and epoch, and the share of one process in each.

    A batch is split among the processes, so a step sees the same graphs for any number of processes. BatchNorm needs
    two graphs per process; a remainder too small for that joins the batch before it.

    Args:
        graphs: Number of training graphs.
        batch_size: Graphs per step, over all processes.
        seed: Seed of the run.
        drop_last: Leave out the last batch if it is not full.
        rank: Index of this process.
        world: Number of processes.
    """

    def __init__(
        self,
        graphs: int,
        batch_size: int,
        *,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.graphs, self.seed, self.rank, self.world, self.epoch = graphs, seed, rank, world, 0
        if batch_size < 2 * world:
            raise InputError(
                f"training: batch_size = {batch_size} leaves some of {world} processes fewer than 2 graphs; "
                f"set it to {2 * world} or more."
            )
        if graphs < 2 * world:
            raise InputError(
                f"{graphs} training graphs leave some of {world} processes fewer than 2 graphs; "
                f"give at least {2 * world}{' or use fewer devices' if world > 1 else ''}."
            )
        self.lengths = _lengths(graphs, batch_size, drop_last, 2 * world)
        if not self.lengths:
            raise InputError(
                f"{graphs} training graphs do not fill one batch of {batch_size}; "
                "lower training.batch_size or set training.drop_last to false."
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", self.epoch))
        order = torch.randperm(self.graphs, generator=generator)[: sum(self.lengths)]  # (G,)
        for batch in order.split(self.lengths):
            yield batch[self.rank :: self.world].tolist()


def _lengths(graphs: int, batch_size: int, drop_last: bool, smallest: int) -> list[int]:
    """Return the number of graphs of each batch, the remainder last."""
    full, rest = divmod(graphs, batch_size)
    lengths = [batch_size] * full
    if drop_last or not rest:
        return lengths
    if full and rest < smallest:
        return [*lengths[:-1], batch_size + rest]
    return [*lengths, rest]


def evaluation_batches(sizes: Tensor, batch_size: int) -> list[Tensor]:
    """Cut graphs with these numbers of nodes (G,) into batches of similar size; return their positions.

    A batch has at most ``batch_size`` graphs and, if it has more than one, at most ``PAIRS`` pairs of nodes.
    """
    order = sizes.argsort(stable=True)
    pairs = sizes[order].square().cumsum(0)
    batches, start, done = [], 0, 0
    while start < len(order):
        fitting = int(torch.searchsorted(pairs, done + PAIRS, right=True))
        end = max(start + 1, min(start + batch_size, fitting))
        batches.append(order[start:end])
        start, done = end, int(pairs[end - 1])
    return batches
