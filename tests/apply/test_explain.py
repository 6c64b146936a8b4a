"""Which rows of a file are shown, and whether what is said of the others is true."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.apply.explain import Shown
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import Collection, collect
from goodformer.explain.explanation import readable


def block(sizes: list[int], rows: list[int]) -> Collection:
    """Graphs without edges, of so many nodes."""
    nodes = torch.tensor([0, *sizes]).cumsum(0)
    empty = torch.zeros(2, 0, dtype=torch.long)
    graphs = GraphSet(
        {"x": torch.zeros(int(nodes[-1]), 9, dtype=torch.long)},
        {"index": empty, "attr": torch.zeros(0, 3, dtype=torch.long)},
        {},
        nodes,
        torch.zeros(len(nodes), dtype=torch.long),
    )
    return Collection(graphs, FEATURES, torch.tensor(rows), max(rows) + 1)


@settings(max_examples=80, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), min_size=1, max_size=14),
    count=st.integers(1, 8),
    size=st.integers(1, 5),
)
def test_what_is_said_to_be_missing_is_missing(kinds: list[int], count: int, size: int) -> None:
    """Readable up to 2 nodes, drawn up to 4; every third row of the file cannot be read. Against a plain loop."""
    rows = [place + place // 2 for place in range(len(kinds))]
    shown = Shown(count, (2, 4))
    for start in range(0, len(kinds), size):
        shown.add(block(kinds[start : start + size], rows[start : start + size]))
    drawn = [row.number - 1 for row in shown.rows[: shown.drawable]]
    last = max(row.number - 1 for row in shown.rows)
    expected = [row for row, nodes in zip(rows, kinds, strict=True) if nodes > 2 and row <= last and row not in drawn]
    words = f"{len(expected)} molecule{'s' if len(expected) > 1 else ''} above 2 atoms left out"
    assert shown.missing == (words if expected else "")
    taken = {row.number - 1 for row in shown.rows}
    assert shown.gave_way == sum(row < last and row not in taken for row in rows)
    assert (shown.gave_way > 0) == (shown.passed is not None)


def test_a_picture_with_a_large_molecule_does_not_say_that_it_shows_none() -> None:
    shown = Shown(3, (60, 400))
    shown.add(collect(["C" * 70, "C" * 80, "C" * 10, "C" * 10]))
    assert [row.number for row in shown.rows] == [3, 4, 1]
    assert shown.missing == "1 molecule above 60 atoms left out"
    assert shown.notes()[0].startswith("1 molecule above 60 atoms (row 2 is the first) gave way")


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([70, 10, 500, 20, 30], 2, [1, 3, 4]),  # enough that can be read: all of them
        ([70, 10, 500, 65, 20], 3, [1, 3, 4]),  # the smallest of the others
        ([70, 10, 500, 65, 20], 9, [0, 1, 3, 4]),  # never one that cannot be looked at
        ([900, 500, 700], 2, [1, 2]),  # unless nothing else is there
        ([400, 401], 2, [0]),
    ],
)
def test_small_molecules_are_taken_first(sizes: list[int], count: int, expected: list[int]) -> None:
    assert readable(torch.tensor(sizes), count, (60, 400)).tolist() == expected
