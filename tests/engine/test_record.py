from __future__ import annotations

from typing import Any

import pytest

from goodformer.config.run import Hardware
from goodformer.data import Benchmark
from goodformer.engine.record import summarise
from goodformer.spec import SPLITS
from tests.engine.tiny import tiny_config


def epoch(number: int) -> dict[str, Any]:
    """An epoch with a number of its own in every place."""
    scores = {
        split: {
            "accuracy": number + place / 10,
            "loss": -number,
            "precision_at_10": 7.0 + place,
            "precision_at_10_logits": 9.25 + place,
            "edge_auc": 8.5 + place,
        }
        for place, split in enumerate(SPLITS)
    }
    return {"epoch": number, **scores, "seconds": number**2, "processor_seconds": 10.0 * number**2}


def test_every_number_of_the_summary_is_the_one_its_name_says(benchmark: Benchmark) -> None:
    epochs = [epoch(1), epoch(2), epoch(4)]
    epochs[0]["id_val"]["accuracy"] = 50.0  # the best under the rule id_val
    epochs[1]["val"]["accuracy"] = 40.0  # and under ood_val
    config, cost = tiny_config(seed=3), {"wall_seconds": 77.0, "parameters": 66}
    summary = summarise(config, benchmark, epochs, cost, Hardware(threads=2))
    expected = {
        "epochs": 3, "train_graphs": 120, "seed": 3, "selection": "ood_val", "selected_epoch": 2,
        "id_val": 2.1, "id_test": 2.2, "ood_val": 40.0, "ood_test": 2.4, "precision_at_10": 11.0, "edge_auc": 12.5,
        "precision_at_10_logits": 13.25,
        "seconds_per_epoch": 7.0, "processor_seconds_per_epoch": 70.0, "wall_seconds": 77.0, "parameters": 66,
    }  # fmt: skip
    assert {name: summary[name] for name in expected} == pytest.approx(expected)
    assert summary["splits"] == {split: epochs[1][split] for split in SPLITS}
    assert {rule: row["epoch"] for rule, row in summary["by_rule"].items()} == {"ood_val": 2, "id_val": 1, "last": 4}
    assert (summary["by_rule"]["id_val"]["id_val"], summary["by_rule"]["last"]["ood_test"]) == (50.0, 4.4)
    assert summary["curves"]["ood_val"] == [1.3, 40.0, 4.3]
    assert summary["curves"]["ood_test"] == [1.4, 2.4, 4.4]
    assert summary["curves"]["precision_at_10_logits"] == [13.25] * 3
    assert summary["hardware"] == {"accelerator": "cpu", "devices": 1, "threads": 2}


def test_costs_that_were_not_measured_are_null(benchmark: Benchmark) -> None:
    old = [{name: value for name, value in epoch(1).items() if name != "processor_seconds"}]
    summary = summarise(tiny_config(), benchmark, old, {}, Hardware())
    assert (summary["processor_seconds_per_epoch"], summary["device"], summary["seconds_per_epoch"]) == (None, None, 1)


def test_curves_hold_what_some_epoch_has(benchmark: Benchmark) -> None:
    epochs = [epoch(1), epoch(2)]
    del epochs[0]["test"]  # an epoch that was not chosen need not be tested
    for scores in (epochs[0]["id_val"], epochs[1]["id_val"], epochs[1]["test"]):
        del scores["precision_at_10_logits"]
    curves = summarise(tiny_config(), benchmark, epochs, {}, Hardware())["curves"]
    assert curves["ood_test"] == [None, 2.4]
    assert "precision_at_10_logits" not in curves
