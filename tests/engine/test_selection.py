from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from goodformer.engine.selection import describe_selection, plateau_cuts, select_epoch, should_stop
from goodformer.errors import InputError


def epochs(*scores: float | None, split: str = "val") -> list[dict[str, Any]]:
    return [{"val": {"accuracy": 0.5}, "id_val": {"accuracy": 0.5}} | {split: {"accuracy": score}} for score in scores]


def test_each_rule_looks_at_its_split() -> None:
    assert select_epoch(epochs(0.1, 0.9, 0.3), "ood_val", "accuracy") == 1
    assert select_epoch(epochs(0.1, 0.3, 0.9, split="id_val"), "id_val", "accuracy") == 2
    assert select_epoch(epochs(0.1, 0.9, 0.3, split="id_val"), "ood_val", "accuracy") == 0
    assert select_epoch(epochs(0.9, 0.1, 0.3), "last", "accuracy") == 2


def test_the_earlier_of_equals_wins_and_no_number_never_does() -> None:
    assert select_epoch(epochs(0.2, 0.7, 0.7), "ood_val", "accuracy") == 1
    assert select_epoch(epochs(float("nan"), 0.1, None), "ood_val", "accuracy") == 1
    assert select_epoch(epochs(None, None), "ood_val", "accuracy") == 0
    assert select_epoch([{"val": {}}, {"val": {"accuracy": 0.0}}], "ood_val", "accuracy") == 1


def test_of_equals_the_lower_loss_wins() -> None:
    records = [{"val": {"rocauc": 1.0, "loss": loss}} for loss in (0.7, 0.2, 0.4)]
    assert select_epoch(records, "ood_val", "rocauc") == 1
    assert select_epoch([*records, {"val": {"rocauc": 1.0, "loss": None}}], "ood_val", "rocauc") == 1


def test_patience_counts_epochs_without_a_better_one() -> None:
    assert not should_stop([], "ood_val", "accuracy", 1)
    assert not should_stop(epochs(0.5, 0.4), "ood_val", "accuracy", 2)
    assert should_stop(epochs(0.5, 0.4, 0.5), "ood_val", "accuracy", 2)
    assert not should_stop(epochs(0.5, 0.4, 0.5), "ood_val", "accuracy", None)
    assert not should_stop(epochs(0.5, 0.4, 0.3), "last", "accuracy", 1)


def test_a_perfect_metric_with_a_small_loss_ends_a_run() -> None:
    def perfect(*losses: float | None, score: float = 1.0) -> list[dict[str, Any]]:
        return [{"val": {"rocauc": score, "loss": loss}} for loss in losses]

    def stops(records: list[dict[str, Any]], patience: int | None = 3, rule: str = "ood_val") -> bool:
        return should_stop(records, rule, "rocauc", None, patience)

    assert stops(perfect(0.5, 0.3, 0.04))
    assert stops(perfect(0.01, 0.3, 0.4))  # the selected epoch counts
    assert not stops(perfect(0.5, 0.3, 0.2))  # probabilities still improve
    assert not stops(perfect(0.01, 0.01))
    assert not stops([*perfect(0.01, 0.01), *perfect(0.01, score=0.99)])
    assert not stops(perfect(0.01, 0.01, 0.01), None)
    assert not stops(perfect(None, None, None))
    assert not stops(perfect(0.01, 0.01, 0.01), rule="last")


def test_the_rate_falls_where_nothing_improves() -> None:
    scores = [0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.5, 0.5]
    cuts = [plateau_cuts(epochs(*scores[:n]), "ood_val", "accuracy", 2) for n in range(len(scores) + 1)]
    assert cuts == [0, 0, 0, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("rule", ["ood_val", "last"])
def test_the_rate_falls_where_the_selected_epoch_stays_the_same(rule: str) -> None:
    random = np.random.default_rng(0)
    for patience in (1, 3):
        scores: list[float | None] = random.choice([0.1, 0.2, 0.3, 0.4, float("nan"), None], 60).tolist()
        records = epochs(*scores)
        selected = [select_epoch(records[: number + 1], rule, "accuracy") for number in range(len(records))]
        cuts, waited = 0, 0
        for number, (before, one) in enumerate(pairwise([-1, *selected]), 1):
            waited = 0 if one != before else waited + 1
            cuts, waited = (cuts + 1, 0) if waited >= patience else (cuts, waited)
            assert plateau_cuts(records[:number], rule, "accuracy", patience) == cuts
        assert bool(cuts) == (rule != "last")


def test_an_unknown_rule_is_an_input_error() -> None:
    with pytest.raises(InputError, match="did you mean ood_val"):
        select_epoch(epochs(0.1), "oodval", "accuracy")


def test_the_selection_is_described_by_what_decided() -> None:
    splits = {"val": {"rocauc": None, "loss": 0.4}, "id_val": {"rocauc": 0.7}}
    assert describe_selection("id_val", splits, "rocauc") == "best on ID validation"
    assert describe_selection("ood_val", splits, "rocauc") == "lowest loss on OOD validation"
    assert "last" in describe_selection("last", splits, "rocauc")
