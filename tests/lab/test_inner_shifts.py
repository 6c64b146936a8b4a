"""Shifts inside training graphs, and how combinations are judged under them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from goodformer.data.benchmark import Benchmark
from goodformer.spec import SPLITS
from lab import inner_shifts
from lab.inner_shifts import Shift, equal, judged, learnt, preferred


@pytest.fixture
def outer(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark with ten environments, which every shift is made of."""
    splits = dict(benchmark.splits)
    train = splits["train"].subset(range(len(splits["train"])))
    train.graph["env"] = torch.arange(len(train)) % 10
    made = replace(benchmark, splits={**splits, "train": train}, num_envs=10)
    monkeypatch.setattr(inner_shifts, "load_benchmark", lambda **_: made)
    return made


def test_whole_environments_of_the_training_graphs_are_held_out(outer: Benchmark) -> None:
    some = [Shift("Some", {}, draw).benchmark() for draw in (0, 0, 1)]
    envs = [{split: set(one.splits[split].graph["env"].tolist()) for split in SPLITS} for one in some]
    assert envs[0] == envs[1]
    assert envs[0] != envs[2]
    for one, found in zip(some, envs, strict=True):
        assert not found["test"] & found["val"]
        assert not (found["test"] | found["val"]) & (found["train"] | found["id_val"] | found["id_test"])
        assert sum(map(len, one.splits.values())) == len(outer.splits["train"])


def known(**logits: np.ndarray) -> dict[str, Any]:
    y = (np.arange(60) % 2).astype(float)[:, None]
    names = {f"{split}/{name}": values for name, values in logits.items() for split in ("val", "test")}
    return {"val/y": y, "test/y": y, **names}


def test_a_combination_learns_on_validation_and_is_judged_on_test() -> None:
    y = (np.arange(60) % 2).astype(np.float32)[:, None]
    noise = np.random.default_rng(0).normal(size=(60, 1)).astype(np.float32)
    data = known(forest=4 * y - 2, linear=noise)
    assert judged(data, ["forest"], equal) == 1.0
    assert judged(data, ["linear"], equal) < 0.8
    assert judged(data, ["forest", "linear"], learnt) > 0.95
    assert preferred(data) == 1.0
    data["test/forest"] = -data["test/forest"]  # validation still prefers the forest
    assert preferred(data) == 0.0
    assert judged(data, ["forest", "linear"], learnt) < 0.05


def test_few_labels_are_drawn_with_both_classes() -> None:
    y = (np.arange(1000) < 10).astype(float)[:, None]
    first, second = (inner_shifts.drawn(y, 25, draw) for draw in (0, 1))
    for places in (first, second):
        assert len(set(places.tolist())) == 25
        assert y[places].sum() == 3
    assert set(first.tolist()) != set(second.tolist())


def test_a_table_counts_the_shifts_in_which_a_way_is_ahead() -> None:
    y = (np.arange(60) % 2).astype(np.float32)[:, None]
    noise = np.random.default_rng(0).normal(size=(60, 1)).astype(np.float32)
    logits = dict.fromkeys(inner_shifts.NAMES, noise) | {"forest:shared": 4 * y - 2}
    shifts = [Shift("A", {}, 0), Shift("A", {}, 1), Shift("B", {}, 0)]
    made = inner_shifts.table({shift: known(**logits) for shift in shifts})
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in made.rows}
    assert made.heads == ["test ROC-AUC of inner shifts, %", "mean", "A", "B", "ahead of that baseline"]
    assert rows["`forest:shared` alone"] == ["100.00", "100.00", "100.00", "3 of 3"]
    assert rows["`linear` alone"][-1] == "0 of 3"
    assert rows["the baseline that validation prefers"][-1] == "-"


def test_kinds_share_equally_whatever_their_number() -> None:
    found = equal(["forest", "linear", "linear"], torch.zeros(3, 5, 1), torch.zeros(5, 1))
    assert found.weights.tolist() == [0.5, 0.25, 0.25]
