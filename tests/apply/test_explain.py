"""Which rows of a file are drawn, and whether the notes on the others are true."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.apply.explain import Shown
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import Collection
from goodformer.fitted import Predictions


def add(shown: Shown, sizes: list[int], rows: list[int]) -> None:
    """Add a block of graphs without edges."""
    nodes = torch.tensor([0, *sizes]).cumsum(0)
    graphs = GraphSet(
        {"x": torch.zeros(int(nodes[-1]), 9, dtype=torch.long)},
        {"index": torch.zeros(2, 0, dtype=torch.long), "attr": torch.zeros(0, 3, dtype=torch.long)},
        {},
        nodes,
        torch.zeros(len(nodes), dtype=torch.long),
    )
    z = torch.tensor(rows).float()[:, None]
    answer = Predictions(z, z, z.long(), None)
    shown.add(
        Collection(graphs, FEATURES, torch.tensor(rows), max(rows) + 1), answer, [torch.tensor([row]) for row in rows]
    )


@settings(max_examples=80, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), min_size=1, max_size=14),
    count=st.integers(1, 8),
    size=st.integers(1, 5),
)
def test_rows_and_notes_against_a_plain_loop(kinds: list[int], count: int, size: int) -> None:
    """Readable up to 2 nodes, drawn up to 4; every third row of the file cannot be read."""
    rows = [place + place // 2 for place in range(len(kinds))]
    shown = Shown(count, (2, 4))
    for start in range(0, len(kinds), size):
        add(shown, kinds[start : start + size], rows[start : start + size])
    ranked = sorted(zip(rows, kinds, strict=True), key=lambda pair: (pair[1] > 2) + (pair[1] > 4))[:count]
    chosen = [row for row, _ in ranked]
    assert [row.number - 1 for row in shown.rows] == chosen
    assert shown.drawable == sum(nodes <= 4 for _, nodes in ranked)
    for row in shown.rows:  # each with its own prediction, scores and graph
        nodes = kinds[rows.index(row.number - 1)]
        assert (int(row.answer.classes), int(row.scores), row.graph.num_nodes) == (
            row.number - 1,
            row.number - 1,
            nodes,
        )
    skipped = [row for row in rows if row < max(chosen) and row not in chosen]
    missing = len(skipped) + len(chosen) - shown.drawable
    assert shown.missing.startswith(f"{missing} molecule" if missing else "")
    assert bool(shown.missing) == bool(missing)
    notes = shown.notes()
    assert len(notes) == bool(skipped) + (shown.drawable < len(chosen))
    if skipped:
        assert f"{len(skipped)} molecule" in notes[0]
        assert f"row {skipped[0] + 1})" in notes[0]
    if shown.drawable < len(chosen):
        assert notes[-1].startswith(f"row {chosen[shown.drawable] + 1} ")
