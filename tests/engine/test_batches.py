from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.engine.batches import MOST_COPIES, WINDOW, EpochBatches
from goodformer.errors import InputError


def skewed(graphs: int) -> torch.Tensor:
    """Sizes as of molecules: one in twenty is ten times as large."""
    generator = torch.Generator().manual_seed(0)
    usual = torch.randint(20, 40, (graphs,), generator=generator)
    return torch.where(torch.rand(graphs, generator=generator) < 0.05, 10 * usual, usual)


@settings(max_examples=60, deadline=None)
@given(
    graphs=st.integers(6, 200),  # two for each of three processes
    size=st.integers(6, 40),
    world=st.integers(1, 3),
    epoch=st.integers(0, 5),
    by_size=st.booleans(),
)
def test_every_graph_is_seen_once_however_many_processes(
    graphs: int, size: int, world: int, epoch: int, by_size: bool
) -> None:
    shares = []
    for rank in range(world):
        batches = EpochBatches(graphs, size, seed=1, rank=rank, world=world, sizes=skewed(graphs) if by_size else None)
        batches.epoch = epoch
        shares.append(list(batches))
    assert len({len(share) for share in shares}) == 1
    assert sorted(index for share in shares for batch in share for index in batch) == list(range(graphs))
    assert min(len(batch) for share in shares for batch in share) >= 2


@pytest.mark.parametrize("sizes", [None, skewed(52)])
def test_a_step_sees_the_same_graphs_in_one_process_and_in_two(sizes: torch.Tensor | None) -> None:
    alone = list(EpochBatches(52, 8, seed=3, sizes=sizes))
    shared = [list(EpochBatches(52, 8, seed=3, rank=rank, world=2, sizes=sizes)) for rank in range(2)]
    assert [sorted(batch) for batch in alone] == [sorted(a + b) for a, b in zip(*shared, strict=True)]


@pytest.mark.parametrize("sizes", [None, skewed(64)])
def test_the_order_follows_from_seed_and_epoch(sizes: torch.Tensor | None) -> None:
    batches = EpochBatches(64, 16, seed=0, sizes=sizes)
    first = list(batches)
    assert first == list(batches)
    batches.epoch = 1
    assert first != list(batches)
    assert first != list(EpochBatches(64, 16, seed=1, sizes=sizes))


def test_batches_by_size_are_sorted_windows_of_the_random_order() -> None:
    """Against a plain loop: the batches are those of each window of the shuffled order, sorted, in whatever order."""
    graphs, size = 2 * WINDOW * 4, 4
    sizes = skewed(graphs)
    random = [graph for batch in EpochBatches(graphs, size, seed=5) for graph in batch]
    expected = []
    for start in range(0, graphs, WINDOW * size):
        window = sorted(random[start : start + WINDOW * size], key=sizes.__getitem__)
        expected += [tuple(window[place : place + size]) for place in range(0, len(window), size)]
    found = [tuple(batch) for batch in EpochBatches(graphs, size, seed=5, sizes=sizes)]
    assert sorted(found) == sorted(expected)
    largest = [int(sizes[list(batch)].max()) for batch in found]
    assert largest != sorted(largest)
    assert int((torch.tensor(largest)[1:] < torch.tensor(largest)[:-1]).sum()) > WINDOW // 2  # shuffled, not a ramp


def test_batches_by_size_pad_much_less() -> None:
    sizes = skewed(2000)
    padded = [
        sum(len(batch) * int(sizes[batch].max()) for batch in EpochBatches(2000, 64, sizes=given))
        for given in (None, sizes)
    ]
    assert padded[0] > 4 * padded[1]
    assert padded[1] < 1.3 * int(sizes.sum())


def test_graphs_of_one_size_meet_others_of_it_in_every_epoch() -> None:
    """Few batches are still two windows, so that the largest graphs are not the same batch for ever."""
    batches = EpochBatches(100, 10, sizes=torch.arange(100))
    with_largest = []
    for batches.epoch in range(8):
        with_largest.append(frozenset(next(batch for batch in batches if 99 in batch)))
    assert len(set(with_largest)) == 8


def test_a_remainder_is_no_matter_of_size() -> None:
    """Neither the graphs of the short batch nor those that are dropped are always the largest."""
    sizes = torch.arange(101)
    short, left = [], []
    for epoch in range(200):
        for drop_last, kept in ((False, short), (True, left)):
            batches = EpochBatches(101, 8, drop_last=drop_last, sizes=sizes)
            batches.epoch = epoch
            seen = [batch for batch in batches if len(batch) == (8 if drop_last else 5)]
            graphs = set(range(101)) - {graph for batch in seen for graph in batch} if drop_last else set(seen[0])
            assert len(graphs) == 5
            kept += [float(sizes[list(graphs)].double().mean())]
    assert abs(sum(short) / len(short) - 50) < 8
    assert abs(sum(left) / len(left) - 50) < 5


@settings(max_examples=40, deadline=None)
@given(graphs=st.integers(40, 300), share=st.floats(0.02, 0.5), world=st.integers(1, 2), epoch=st.integers(0, 3))
def test_balanced_batches_hold_both_classes_equally(graphs: int, share: float, world: int, epoch: int) -> None:
    labels = (torch.arange(graphs) < max(int(share * graphs), 2)).float()[:, None]
    shares = []
    for rank in range(world):
        batches = EpochBatches(graphs, 16, seed=1, rank=rank, world=world, labels=labels)
        batches.epoch = epoch
        shares.append([list(batch) for batch in batches])
        assert shares[-1] == list(batches)
    whole = [[graph for part in parts for graph in part] for parts in zip(*shares, strict=True)]
    drawn = torch.tensor([graph for batch in whole for graph in batch])
    assert len(drawn) == graphs
    positives = labels[:, 0][drawn]
    copies = torch.bincount(drawn, minlength=graphs)
    if share * graphs * MOST_COPIES >= graphs:  # else copies are limited
        assert float(positives.mean()) == pytest.approx(0.5, abs=1.5 / graphs)
        assert all(abs(float(labels[batch].sum()) - len(batch) / 2) <= 1.5 for batch in whole)
    for one in (0, 1):  # evenly: copies of a class differ by one
        of_class = copies[labels[:, 0] == one]
        assert int(of_class.max() - of_class.min()) <= 1
    assert int(copies.max()) <= MOST_COPIES + 1


def test_balanced_epochs_differ_and_classes_and_targets_are_balanced() -> None:
    classes = torch.tensor([0] * 80 + [1] * 15 + [2] * 5)
    batches = EpochBatches(100, 25, labels=classes)
    seen = []
    for batches.epoch in range(6):
        drawn = torch.tensor([graph for batch in batches for graph in batch])
        seen.append(drawn)
        assert torch.bincount(classes[drawn]).tolist() == pytest.approx([100 / 3] * 3, abs=1)
    assert len(torch.cat(seen)[torch.cat(seen) < 80].unique()) > 75  # every graph has its turn
    several = torch.zeros(100, 3)
    several[:4, 0], several[:50, 1], several[60:, 2] = 1, 1, float("nan")
    drawn = torch.tensor([graph for batch in EpochBatches(100, 25, labels=several) for graph in batch])
    assert float(several[drawn, 0].mean()) > 0.3  # 0.04 of all graphs
    assert len(drawn) == 100


def test_drop_last_keeps_full_batches_only() -> None:
    assert [len(batch) for batch in EpochBatches(70, 16, drop_last=True)] == [16] * 4
    assert [len(batch) for batch in EpochBatches(65, 16)] == [16, 16, 16, 17]
    assert len(EpochBatches(66, 16)) == 5


def test_batches_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="do not fill one batch"):
        EpochBatches(10, 16, drop_last=True)
    with pytest.raises(InputError, match="set it to 8 or more"):
        EpochBatches(100, 6, world=4)


@pytest.mark.parametrize(("graphs", "world"), [(1, 1), (3, 2), (5, 3)])
def test_too_few_graphs_for_the_processes_are_refused(graphs: int, world: int) -> None:
    with pytest.raises(InputError, match=f"give at least {2 * world}"):
        EpochBatches(graphs, 16, world=world)
    shares = [list(EpochBatches(2 * world, 16, rank=rank, world=world)) for rank in range(world)]
    assert [len(batch) for share in shares for batch in share] == [2] * world
