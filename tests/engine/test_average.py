from __future__ import annotations

import pytest
import torch
from torch import nn

from goodformer.engine.average import WeightAverage


def walk(module: nn.Module, steps: int) -> list[float]:
    """Weights of a one-parameter module that moves, and what they were."""
    return [float(step**2 + 1) for step in range(steps)]


def test_ema_is_the_one_computed_by_hand() -> None:
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    average, expected = WeightAverage(module, "ema", decay=0.3), 0.0
    for step, value in enumerate(walk(module, 12)):
        nn.init.constant_(module.weight, value)
        average.after_step()
        average.after_epoch()
        decay = min(0.3, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert float(average.module.weight) == pytest.approx(expected, rel=1e-6)
    assert float(module.weight.detach()) == value


def test_swa_is_the_mean_of_the_epochs() -> None:
    module = nn.Linear(1, 1, bias=False)
    average = WeightAverage(module, "swa")
    values = walk(module, 5)
    for value in values:
        nn.init.constant_(module.weight, value)
        average.after_step()
        average.after_epoch()
    assert float(average.module.weight) == pytest.approx(sum(values) / 5, rel=1e-6)


def test_real_buffers_are_averaged_and_counters_copied() -> None:
    module = nn.BatchNorm1d(1)
    average = WeightAverage(module, "swa")
    for mean in (1.0, 3.0):
        module.running_mean = torch.tensor([mean])  # a new tensor, as some modules do
        module.num_batches_tracked.add_(1)
        average.after_epoch()
    assert float(average.module.running_mean) == 2.0
    assert int(average.module.num_batches_tracked) == 2


def test_a_buffer_not_seen_yet_starts_at_its_first_value() -> None:
    module = nn.Module()
    module.weight = nn.Parameter(torch.zeros(1))
    module.register_buffer("seen", torch.tensor([float("nan"), 1.0]))
    average = WeightAverage(module, "swa")
    average.after_epoch()
    assert average.module.seen.isnan().tolist() == [True, False]
    again = WeightAverage(module, "swa")
    again.load_state_dict(average.state_dict())
    for value in (4.0, 1.0):
        module.seen = torch.tensor([value, 1.0])
        again.after_epoch()
    assert again.module.seen.tolist() == [3.0, 1.0]  # 4, then a third of the way to 1


def test_without_averaging_the_module_is_the_trained_one() -> None:
    module = nn.Linear(1, 1)
    average = WeightAverage(module, "none")
    average.after_step()
    average.after_epoch()
    assert average.module is module
    assert average.state_dict() == {}


def test_a_loaded_average_goes_on_the_same() -> None:
    torch.manual_seed(0)
    module = nn.Linear(2, 2)
    first = WeightAverage(module, "ema", 0.9)
    first.after_step()
    second = WeightAverage(nn.Linear(2, 2), "ema", 0.9)
    second.load_state_dict(first.state_dict())
    assert second.count == 1
    assert torch.equal(first.module.weight, second.module.weight)
    assert not first.module.weight.requires_grad
