"""What a fit is worth on new molecules."""

from __future__ import annotations

import pytest

from goodformer import GraphRegressor
from lab import refit


def test_a_table_has_the_mean_over_draws() -> None:
    same = {"fit --no-refit": 0.7, "fit --networks --no-refit": 0.6, "fit --networks --no-retrain": 0.65}
    draws = [
        {
            "data": "BACE",
            "draw": draw,
            "fit": {"metric": metric, "flagged": 0.04},
            "forest": {"metric": 0.875},
            **({way: {"metric": value} for way, value in same.items()} if draw < refit.COMPARED else {}),
        }
        for draw, metric in enumerate((0.8, 0.9, 0.85, 0.65))
    ]
    (row,) = (line for line in refit.table(draws).markdown().splitlines() if line.startswith("| BACE"))
    first, every = "0.850 ±0.071 | 0.700 ±0.000 | 0.600 ±0.000 | 0.650 ±0.000 | - | 0.875 ±0.000", "0.800 ±0.108"
    assert row == f"| BACE, ROC-AUC | {first} | {every} | 0.875 ±0.000 | 0.040 ±0.000 | - |"


def test_a_model_is_described_by_error_flags_and_intervals() -> None:
    smiles = [f"{'C' * length}{end}" for length in range(1, 21) for end in ("O", "N", "Cl")]
    values = [len(one) + 0.25 for one in smiles]
    model = GraphRegressor("linear", split="random", validation=0.2).fit(smiles, values).model_
    found = refit.described(model, ["CCCCCO", "[Fe]CC[Fe]"], [6.25, 1e6])
    assert found["metric"] > 1e5
    assert (found["flagged"], found["covered"]) == (0.5, 0.5)


def test_values_are_judged_by_rmse_and_classes_by_rank() -> None:
    assert refit.worth(True, [1.0, 2.0], [1.0, 4.0]) == pytest.approx(2**0.5)
    assert refit.worth(False, [0.0, 1.0, 1.0], [-3.0, 5.0, 0.5]) == 1.0
