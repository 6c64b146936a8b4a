from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.engine.batches import EpochBatches
from goodformer.registry import InputError


@settings(max_examples=60, deadline=None)
@given(graphs=st.integers(1, 200), size=st.integers(6, 40), world=st.integers(1, 3), epoch=st.integers(0, 5))
def test_every_graph_is_seen_once_however_many_processes(graphs: int, size: int, world: int, epoch: int) -> None:
    shares = []
    for rank in range(world):
        batches = EpochBatches(graphs, size, seed=1, rank=rank, world=world)
        batches.epoch = epoch
        shares.append(list(batches))
    assert len({len(share) for share in shares}) == 1
    assert sorted(index for share in shares for batch in share for index in batch) == list(range(graphs))
    if graphs >= 2 * world:
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


def test_drop_last_keeps_full_batches_only() -> None:
    assert [len(batch) for batch in EpochBatches(70, 16, drop_last=True)] == [16] * 4
    assert [len(batch) for batch in EpochBatches(65, 16)] == [16, 16, 16, 17]
    assert len(EpochBatches(66, 16)) == 5


def test_batches_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="do not fill one batch"):
        EpochBatches(10, 16, drop_last=True)
    with pytest.raises(InputError, match="set it to 8 or more"):
        EpochBatches(100, 6, world=4)
