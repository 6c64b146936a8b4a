"""Notes on a fit."""

from __future__ import annotations

import pytest

from goodformer.apply.fit import coverage_note


@pytest.mark.parametrize(
    ("share", "rows", "warned"), [(0.65, 40, True), (0.85, 40, False), (0.85, 800, True), (0.95, 800, False)]
)
def test_intervals_that_hold_too_little_are_pointed_out(share: float, rows: int, warned: bool) -> None:
    covered = {"level": 0.9, "splits": {"id_test": {"coverage": share, "width": 1.0}}, "widths": ""}
    report = {"coverage": covered, "counts": {"id_test": rows, "id_val": rows}, "split": "scaffold", "given": []}
    assert bool(coverage_note(report)) == warned
    assert not coverage_note({**report, "coverage": {**covered, "splits": {}}})
