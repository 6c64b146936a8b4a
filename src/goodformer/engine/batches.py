"""The graphs of each training step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Sampler

from goodformer.engine.seeds import derive_seed
from goodformer.errors import InputError

WINDOW = 32
"""Largest number of batches whose graphs are sorted together: more means less padding and less mixing."""


class EpochBatches(Sampler[list[int]]):
    """The batches of an epoch, a pure function of seed and epoch, and the share of one process in each.

    A batch is split among the processes, so a step sees the same graphs for any number of processes. BatchNorm needs
    two graphs per process; a remainder too small for that joins the batch before it.

    If sizes are given, graphs of similar size form a batch, so that a model that pads to the largest graph computes
    little padding. The shuffled order is cut into at least two windows of some tens of batches. Each window is sorted
    and cut into batches, then the order of all batches is shuffled. Such a batch is no longer like the whole set:
    BatchNorm takes its mean and variance over graphs of one size, so its running averages become noisier, and methods
    that pair graphs within a batch (GOODFormer's interventions, contrastive losses) pair graphs of similar size.

    Args:
        graphs: Number of training graphs.
        batch_size: Graphs per step, over all processes.
        seed: Seed of the run.
        drop_last: Leave out the last batch if it is not full.
        rank: Index of this process.
        world: Number of processes.
        sizes: Nodes of each graph (G,), to form batches of similar size.
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
        sizes: Tensor | None = None,
    ) -> None:
        self.sizes = sizes
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
        batches = (
            order.split(self.lengths) if self.sizes is None else _alike(order, self.sizes, self.lengths, generator)
        )
        for batch in batches:
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


def _alike(order: Tensor, sizes: Tensor, lengths: list[int], generator: torch.Generator) -> list[Tensor]:
    """Cut an order of graphs (G,) into batches of similar size; any of them may be the one with the remainder."""
    count = len(lengths)
    shuffled = torch.tensor(lengths)[torch.randperm(count, generator=generator)]  # (S,), S batches
    windows = max(-(-count // WINDOW), 2)
    window = (torch.arange(count) * windows // count).repeat_interleave(shuffled)  # (G,)
    by_size = sizes[order].argsort(stable=True)  # (G,)
    place = by_size[window[by_size].argsort(stable=True)]  # (G,), by window, then by size
    batches = order[place].split(shuffled.tolist())
    return [batches[number] for number in torch.randperm(count, generator=generator).tolist()]
