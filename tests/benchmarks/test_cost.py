"""What a cluster costs, against arithmetic by hand."""

from __future__ import annotations

import pytest

from benchmarks.cost import PART, pages
from goodformer.apply.parts import ROWS
from goodformer.errors import InputError

FIGURES = {
    "rows_per_processor_second_file": 380.0,
    "rows_per_processor_second_parts": 400.0,
    "rows_per_processor_second_in_ray_tasks": 250.0,  # 2,000 rows: 8 s, and 2 s besides: 200 rows per second
    "processor_seconds_outside_tasks": 2.0,
    "first_call_processor_seconds": 12.0,
    "parcel_megabytes": 9.0,
}


def record(dataset: str, budget: str, seconds: float, preset: str = "default") -> dict[str, object]:
    named = {"dataset": dataset, "budget": budget, "method": "goodformer", "preset": preset}
    return {**named, "wall_seconds": seconds}


def test_costs_follow_from_rates_and_records() -> None:
    records = [record("good-motif", "compare", 20.0), record("good-motif", "compare", 40.0)]
    records += [record("good-motif", "compare", 999.0, "paper"), record("good-motif", "full", 714.0)]
    records += [record("good-hiv", "compare", 354.0)]
    rows = {
        line.split(" | ")[0]: line.split(" | ")[1:]
        for line in pages({"rows": 2000, "figures": FIGURES}, records).split("\n")
    }
    assert rows["| 1,000 runs, GOOD-Motif, budget `compare`: 1,000 x (30 + 6) s"] == ["10", "0.1", "0.5 |"]
    assert rows["| 1,000 runs, GOOD-Motif, budget `full`: 1,000 x (714 + 6) s"] == ["200", "2", "10 |"]
    assert rows["| 1,000 runs, GOOD-HIV, budget `compare`: 1,000 x (354 + 6) s"] == ["100", "1", "5 |"]
    assert rows["| 10^9 molecules at 200 rows per processor second"] == ["1,389", "14", "69 |"]  # 5,000,000 s


def test_a_missing_record_is_named() -> None:
    with pytest.raises(InputError, match="good-motif with budget compare"):
        pages({"rows": 2000, "figures": FIGURES}, [])


def test_parts_have_the_size_that_is_computed_with() -> None:
    assert PART == ROWS
