"""Training on data that a method cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goodformer.engine.loop import check_finite
from goodformer.errors import InputError
from tests.cli.conftest import Command, cache, command  # noqa: F401


def test_graphs_without_any_edge_are_named_as_the_reason(tmp_path: Path, command: Command) -> None:  # noqa: F811
    rows = [{"edges": [], "num_nodes": 1 + n % 7, "label": "ab"[n % 7 < 3]} for n in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ["fit", "a.jsonl", "-t", "label", "--split", "random", "--epochs", "1", "--no-baseline", "-q", "-o", "m"]
    answer = command(*words, "--set", "model.dim=16")
    assert answer.code == 2
    assert "no training graph has an edge" in answer.err
    assert "learning_rate" not in answer.err


def test_a_loss_that_is_no_number_is_still_blamed_on_the_learning_rate() -> None:
    with pytest.raises(InputError, match="learning_rate"):
        check_finite({"total": float("nan")}, 0, 5)
