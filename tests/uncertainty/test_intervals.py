"""Conformal intervals of measured values: coverage, width, and what makes them wider."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from goodformer import files
from goodformer.errors import InputError
from goodformer.methods.base import SPREAD, link
from goodformer.spec import Task
from goodformer.uncertainty.intervals import CONSTANT, Difficulty, fit_difficulty, interval_coverage
from goodformer.uncertainty.observe import Seen
from goodformer.uncertainty.uncertainty import Uncertainty

TASK = Task("regression", 2, "rmse", centre=(5.0, -1.0), scale=(2.0, 0.5))


def seen(count: int, seed: int, noisy: bool = False) -> Seen:
    """Predictions whose errors are normal, or grow with the members' spread."""
    draw = torch.Generator().manual_seed(seed)
    spread = 0.2 + 2 * torch.rand(count, generator=draw).double()
    z = torch.randn(count, 2, generator=draw).double()
    size = spread[:, None] if noisy else torch.ones(count, 1).double()
    y = link(TASK, z + 0.5 * size * torch.randn(count, 2, generator=draw).double())
    y[::11, 1] = math.nan
    x = torch.randn(count, 4, generator=draw).double()
    return Seen(z, x[:, :1], x, {SPREAD: spread}, y)


def ends(known: Uncertainty, part: Seen, level: float) -> Tensor:
    hard = known.hardness(part.logits, known.unusual(part), part.signals[SPREAD])
    return known.intervals(part.logits, hard, level)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_wanted_share_of_values_lies_in_the_intervals(level: float, noisy: bool) -> None:
    known = Uncertainty.learn(TASK, seen(300, 0), seen(600, 1, noisy))
    new = seen(4000, 2, noisy)
    assert known.difficulty.by == ("spread" if noisy else "")
    found = interval_coverage(ends(known, new, level), new.y)
    assert found["coverage"] == pytest.approx(level, abs=0.04)
    assert known.coverage(new, level)["coverage"] == pytest.approx(found["coverage"])


def test_intervals_are_wider_where_errors_are_larger_and_narrower_on_average() -> None:
    val, new = seen(800, 1, noisy=True), seen(3000, 2, noisy=True)
    known = Uncertainty.learn(TASK, seen(300, 0), val)
    width = ends(known, new, 0.9).diff(dim=-1)[..., 0]
    spread = new.signals[SPREAD]
    assert width[spread > 1.8].mean() > 2 * width[spread < 0.6].mean()
    plain = Uncertainty.learn(TASK, seen(300, 0), Seen(val.logits, val.statistics, val.embedding, {}, val.y))
    assert plain.difficulty == CONSTANT
    assert width.mean() < 0.97 * plain.intervals(new.logits, torch.ones(1, 2), 0.9).diff(dim=-1).mean()


def test_intervals_lie_around_the_value_in_its_own_units() -> None:
    known = Uncertainty.learn(TASK, seen(300, 0), seen(300, 1))
    new = seen(50, 2)
    found = ends(known, new, 0.8)
    torch.testing.assert_close(found.mean(-1), link(TASK, new.logits))
    ratio = found.diff(dim=-1)[:, 0] / found.diff(dim=-1)[:, 1]
    assert float(ratio.mean()) == pytest.approx(4, rel=0.3), "one target has four times the scale of the other"


def test_too_few_labels_leave_intervals_open_and_say_so() -> None:
    known = Uncertainty.learn(TASK, seen(30, 0), seen(8, 1))
    assert any("unbounded" in note for note in known.notes)
    assert ends(known, seen(3, 2), 0.9).isinf().all()
    assert known.coverage(seen(3, 2), 0.9) == {"coverage": None, "width": None}
    assert ends(known, seen(3, 2), 0.5).isfinite().all()
    with pytest.raises(InputError, match="level"):
        ends(known, seen(3, 2), 1.0)


def test_a_signal_that_is_constant_or_unrelated_is_not_used() -> None:
    errors = torch.rand(200, 1, generator=torch.Generator().manual_seed(0)).double()
    noise = torch.rand(200, generator=torch.Generator().manual_seed(1)).double()
    assert fit_difficulty(errors, {"spread": torch.ones(200).double(), "domain": noise}) == CONSTANT
    assert fit_difficulty(errors[:10], {"spread": errors[:10, 0]}) == CONSTANT
    assert fit_difficulty(errors, {"spread": noise, "domain": errors[:, 0]}).by == "domain"


def test_what_is_saved_gives_the_same_intervals(tmp_path: Path) -> None:
    known = Uncertainty.learn(TASK, seen(300, 0), seen(600, 1, noisy=True))
    again = Uncertainty.load(known.save(tmp_path))
    assert again.difficulty == known.difficulty != CONSTANT
    assert again.checksum == known.checksum != replace(known, difficulty=CONSTANT).checksum
    new = seen(20, 2)
    assert torch.equal(ends(known, new, 0.9), ends(again, new, 0.9))
    file = tmp_path / "sureness.json"
    content = json.loads(file.read_text())
    content["difficulty"]["slope"] = [1.0]
    files.write_json(file, files.sealed({k: v for k, v in content.items() if k != files.CHECKSUM}))
    with pytest.raises(InputError, match="difficulty"):
        Uncertainty.load(tmp_path)


def test_a_difficulty_stays_within_its_bounds() -> None:
    hard = Difficulty(by="domain", start=(0.0,), slope=(1.0,), mean=(0.5,))
    found = hard({"domain": torch.tensor([0.0, 0.4, 1e9, math.inf])}, torch.zeros(4, 1))
    assert found[:, 0].tolist() == pytest.approx([0.15, 0.4, 2.5, 2.5])


def test_an_infinite_signal_reaches_the_bound_of_every_target() -> None:
    """The slope of the first target is 0, which times infinity is not a number."""
    hard = Difficulty(by="domain", start=(0.5, 0.0), slope=(0.0, 1.0), mean=(0.5, 2.0))
    found = hard({"domain": torch.tensor([1.0, math.inf])}, torch.zeros(2, 2))
    assert found.tolist() == [pytest.approx([0.5, 1.0]), pytest.approx([2.5, 10.0])]
