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


MOST_COPIES = 20
"""How many times as often as the average graph a graph of a rare class is drawn at most."""


class EpochBatches(Sampler[list[int]]):
    """The batches of an epoch, a pure function of seed and epoch, and the share of one process in each.

    A batch is split among the processes, so a step sees the same graphs for any number of processes. BatchNorm needs
    two graphs per process; a remainder too small for that joins the batch before it.

    If labels are given, every class is drawn equally often and has the same share in every batch: graphs of rare
    classes are repeated, and of common classes each epoch draws a part. See `draw_balanced`.

    Args:
        graphs: Number of training graphs.
        batch_size: Graphs per step, over all processes.
        seed: Seed of the run.
        drop_last: Leave out the last batch if it is not full.
        rank: Index of this process.
        world: Number of processes.
        labels: Classes (G,) or binary targets (G, T) of the graphs, to balance classes.
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
        labels: Tensor | None = None,
    ) -> None:
        self.labels = labels
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
        if self.labels is None:
            order = torch.randperm(self.graphs, generator=generator)[: sum(self.lengths)]  # (G,)
        else:
            order = draw_balanced(self.labels, sum(self.lengths), generator)
        for batch in order.split(self.lengths):
            # Classes alternate in a balanced order, which must not decide the share of a process.
            mixed = batch if self.labels is None else batch[torch.randperm(len(batch), generator=generator)]
            yield mixed[self.rank :: self.world].tolist()


def draw_balanced(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw graphs (count,) so that every class is equally frequent in the whole order and in every stretch of it.

    A graph is drawn in proportion to 1 / (size of its class). With several targets its rarest known label decides.
    No graph is drawn more than `MOST_COPIES` times as often as the average one. The copies of a graph differ by at most
    one from the expected number, so nothing is left to luck but the remainder.

    Args:
        labels: Classes (G,), or zeros and ones (G, T) with NaN for missing labels.
        count: Number of graphs to draw.
        generator: Source of randomness.
    """
    codes = labels[:, None].double() if labels.dim() == 1 else labels.double()  # (G, T)
    known = ~codes.isnan()
    classes = int(codes.nan_to_num().max()) + 1
    number = codes.nan_to_num().long() + classes * torch.arange(codes.shape[1])  # class of each label, (G, T)
    sizes = torch.bincount(number[known], minlength=classes * codes.shape[1]).double()  # (T K,)
    size, rarest = sizes[number].masked_fill(~known, len(codes)).min(1)  # (G,), (G,)
    group = number.gather(1, rarest[:, None])[:, 0]  # the class that decides, (G,)
    weight = 1 / size
    for _ in range(10):  # each limit lowers the mean a little
        weight = weight.clamp(max=MOST_COPIES * float(weight.mean()))

    shuffled = torch.randperm(len(codes), generator=generator)
    shuffled = shuffled[group[shuffled].argsort(stable=True)]  # class by class, so that each gets its share
    expected = count * weight[shuffled] / weight.sum()  # copies of each graph, (G,)
    offset = torch.rand((), generator=generator, dtype=torch.double)
    ends = (expected.cumsum(0) + offset).floor().long()
    ends[-1] = count  # whatever rounding does to the last sum
    drawn = shuffled.repeat_interleave(ends.diff(prepend=ends.new_zeros(1)))  # (count,)

    drawn = drawn[torch.randperm(count, generator=generator)]
    by_group = group[drawn].argsort(stable=True)
    number_in = torch.bincount(group[drawn], minlength=len(sizes))
    rank = torch.arange(count) - (number_in.cumsum(0) - number_in).repeat_interleave(number_in)
    start = torch.rand(len(sizes), generator=generator, dtype=torch.double)
    place = (rank + start.repeat_interleave(number_in)) / number_in.repeat_interleave(number_in)  # spread over [0, 1]
    return drawn[by_group][place.argsort(stable=True)]


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
