"""Which graphs make up each training step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Sampler

from goodformer.engine.seeds import derive_seed
from goodformer.registry import InputError

WINDOW = 32
"""Batches at most whose graphs are sorted together: the more, the less is padded, and the less chance mixes them."""


class EpochBatches(Sampler[list[int]]):
    """The batches of an epoch, a pure function of seed and epoch, and the share of one process in each.

    A batch is split among the processes, so that a step sees the same graphs however many there are. A remainder too
    small to give every process two graphs, which BatchNorm needs, joins the batch before it.

    Where sizes are given, graphs of like size come together, so that a model that pads a batch to its largest graph
    computes little padding, as `goodformer.engine.evaluate.infer` does. The shuffled order is cut into two or more
    windows of some tens of batches, each window is sorted, cut into batches, and the order of all batches is shuffled.
    Chance still decides which graphs meet, but a batch is no longer like the whole: BatchNorm takes its mean and
    variance over graphs of one size, which the running averages used in prediction follow with more noise, and what
    is paired within a batch (GOODFormer's interventions, contrastive losses) is paired with graphs of that size.

    Args:
        graphs: Number of training graphs.
        batch_size: Graphs a step, over all processes.
        seed: Seed of the run.
        drop_last: Leave out a last batch that is not full.
        rank: Number of this process.
        world: Number of processes.
        sizes: Nodes of each graph (G,), where graphs of like size are to come together.
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
    """Graphs of each batch, the remainder last."""
    full, rest = divmod(graphs, batch_size)
    lengths = [batch_size] * full
    if drop_last or not rest:
        return lengths
    if full and rest < smallest:
        return [*lengths[:-1], batch_size + rest]
    return [*lengths, rest]


def _alike(order: Tensor, sizes: Tensor, lengths: list[int], generator: torch.Generator) -> list[Tensor]:
    """The graphs of an order (G,) in batches of like size; the batch with the remainder is any of them."""
    count = len(lengths)
    shuffled = torch.tensor(lengths)[torch.randperm(count, generator=generator)]  # (S,), S batches
    windows = max(-(-count // WINDOW), 2)
    window = (torch.arange(count) * windows // count).repeat_interleave(shuffled)  # (G,)
    by_size = sizes[order].argsort(stable=True)  # (G,)
    place = by_size[window[by_size].argsort(stable=True)]  # (G,), by window, then by size
    batches = order[place].split(shuffled.tolist())
    return [batches[number] for number in torch.randperm(count, generator=generator).tolist()]
