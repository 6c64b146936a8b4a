from __future__ import annotations

import pytest

from goodformer.apply.fit import enough_training
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


def test_epochs_of_the_user_leave_the_preset_alone() -> None:
    assert enough_training(range(249), configure(TABLE), {"training.epochs"}) == []
