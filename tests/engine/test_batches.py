from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.engine import batches as engine_batches
from goodformer.engine.batches import MOST_COPIES, EpochBatches, evaluation_batches
from goodformer.errors import InputError


@settings(max_examples=60, deadline=None)
@given(
    graphs=st.integers(6, 200),  # two for each of three processes
    size=st.integers(6, 40),
    world=st.integers(1, 3),
    epoch=st.integers(0, 5),
)
def test_every_graph_is_seen_once_however_many_processes(graphs: int, size: int, world: int, epoch: int) -> None:
    shares = []
    for rank in range(world):
        batches = EpochBatches(graphs, size, seed=1, rank=rank, world=world)
        batches.epoch = epoch
        shares.append(list(batches))
    assert len({len(share) for share in shares}) == 1
    assert sorted(index for share in shares for batch in share for index in batch) == list(range(graphs))
    assert min(len(batch) for share in shares for batch in share) >= 2


def test_a_step_sees_the_same_graphs_in_one_process_and_in_two() -> None:
    alone = list(EpochBatches(52, 8, seed=3))
    shared = [list(EpochBatches(52, 8, seed=3, rank=rank, world=2)) for rank in range(2)]
    assert [sorted(batch) for batch in alone] == [sorted(a + b) for a, b in zip(*shared, strict=True)]


def test_the_order_follows_from_seed_and_epoch() -> None:
    batches = EpochBatches(64, 16, seed=0)
    first = list(batches)
    assert first == list(batches)
    batches.epoch = 1
    assert first != list(batches)
    assert first != list(EpochBatches(64, 16, seed=1))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 60), max_size=40),
    most=st.integers(1, 12),
    pairs=st.sampled_from([1, 900, 5000, 10**9]),
)
def test_evaluation_batches_hold_every_graph_once_and_stay_within_both_bounds(
    sizes: list[int], most: int, pairs: int
) -> None:
    nodes = torch.tensor(sizes, dtype=torch.long)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_batches, "PAIRS", pairs)
        batches = [batch.tolist() for batch in evaluation_batches(nodes, most)]
    assert [place for batch in batches for place in batch] == nodes.argsort(stable=True).tolist()
    costs = [sum(sizes[place] ** 2 for place in batch) for batch in batches]
    for number, (batch, cost) in enumerate(zip(batches, costs, strict=True)):
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or cost <= pairs
        if number + 1 < len(batches) and len(batch) < most:  # another graph would not have fitted
            assert cost + sizes[batches[number + 1][0]] ** 2 > pairs


def test_usual_graphs_fill_evaluation_batches_and_large_ones_do_not() -> None:
    lengths = [len(batch) for batch in evaluation_batches(torch.tensor([40] * 600 + [1000] * 5), 256)]
    assert lengths == [256, 256, 89, 2, 2]


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
