from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from goodformer.apply.fit import Recipe, coverage_note, enough_training, wants_networks
from goodformer.config.members import MANY_CLASSES, MANY_VALUES, blend_preset
from goodformer.config.presets import configure

TABLE = {"name": "good-motif"}


@pytest.mark.parametrize(
    ("graphs", "epochs", "patience", "perfect", "decay"),
    [(249, 100, 25, 20, 0.9), (1300, 100, 25, 5, 0.9524), (8000, 24, 10, 5, 0.99), (60_000, 10, 10, 5, 0.99)],
)
def test_small_tables_get_more_epochs_and_a_shorter_average(
    graphs: int, epochs: int, patience: int, perfect: int, decay: float
) -> None:
    """Batches of 64: 4, 21, 125 and 938 steps an epoch; weights are averaged over 10 to 100 steps."""
    plain = configure(TABLE)
    made = plain.with_overrides(enough_training(range(graphs), plain)).training
    assert (made.epochs, made.patience, made.schedule, made.average_decay) == (epochs, patience, "constant", decay)
    assert made.perfect_patience == perfect


@pytest.mark.parametrize(
    ("method", "model", "preset", "epochs", "schedule"),
    [
        ("goodformer", None, "molecules", 40, "cosine"),
        ("blend", None, "molecules", 40, "cosine"),
        ("blend", None, "no-forest", 40, "cosine"),
        ("goodformer", None, "measured", 100, "cosine"),
        ("erm", "dmpnn", "molecules", 40, "cosine"),
        ("goodformer", None, "default", 100, "constant"),
    ],
)
def test_a_preset_names_its_steps_also_for_presets_that_change_it(
    method: str, model: str | None, preset: str, epochs: int, schedule: str
) -> None:
    """908 graphs in batches of 64: 15 steps an epoch, so 600 steps are 40 epochs."""
    plain = configure(TABLE, method, model, preset)
    made = plain.with_overrides(enough_training(range(908), plain)).training
    assert (made.epochs, made.schedule) == (epochs, schedule)


def test_epochs_of_the_user_leave_the_preset_alone() -> None:
    assert enough_training(range(249), configure(TABLE), {"training.epochs"}) == []


@pytest.mark.parametrize(
    ("share", "rows", "warned"), [(0.65, 40, True), (0.85, 40, False), (0.85, 800, True), (0.95, 800, False)]
)
def test_intervals_that_hold_too_little_are_pointed_out(share: float, rows: int, warned: bool) -> None:
    covered = {"level": 0.9, "splits": {"id_test": {"coverage": share, "width": 1.0}}, "widths": ""}
    report = {"coverage": covered, "counts": {"id_test": rows, "id_val": rows}, "split": "scaffold", "given": []}
    assert bool(coverage_note(report)) == warned
    assert not coverage_note({**report, "coverage": {**covered, "splits": {}}})


@pytest.mark.parametrize(
    ("measured", "rows", "recipe", "preset"),
    [
        (False, MANY_CLASSES - 1, Recipe(), "fast"),
        (False, MANY_CLASSES, Recipe(), "molecules"),
        (True, MANY_VALUES - 1, Recipe(), "fast-measured"),
        (True, MANY_VALUES, Recipe(), "measured"),
        (True, MANY_VALUES, Recipe(networks=False), "fast-measured"),
        (False, 100, Recipe(networks=True), "molecules"),
        (False, 100, Recipe(members=2), "molecules"),
        (True, 100, Recipe(overrides=["training.epochs=2"]), "measured"),
    ],
)
def test_networks_are_part_of_the_blend_for_many_rows_or_if_asked_for(
    measured: bool, rows: int, recipe: Recipe, preset: str
) -> None:
    benchmark: Any = SimpleNamespace(task=SimpleNamespace(measured=measured), splits={"train": range(rows)})
    assert blend_preset(measured, wants_networks(benchmark, recipe)) == preset
