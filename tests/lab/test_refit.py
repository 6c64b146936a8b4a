"""What a fit is worth on new molecules."""

from __future__ import annotations

import pytest

from lab import refit


def test_a_table_has_the_mean_over_draws() -> None:
    some = {"data": "BACE", "metric": "rocauc", "forest": 0.875}
    found = refit.table(
        [{**some, "draw": 0, "before": 0.8, "after": 0.9}, {**some, "draw": 1, "before": 0.9, "after": 0.9}]
    )
    assert "| BACE, ROC-AUC | 0.850 ±0.071 | 0.900 ±0.000 | 0.875 ±0.000 |" in found.markdown()


def test_values_are_judged_by_rmse_and_classes_by_rank() -> None:
    assert refit.worth(True, [1.0, 2.0], [1.0, 4.0]) == pytest.approx(2**0.5)
    assert refit.worth(False, [0.0, 1.0, 1.0], [-3.0, 5.0, 0.5]) == 1.0
