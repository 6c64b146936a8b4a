from __future__ import annotations

import random

import numpy as np
import torch

from goodformer.engine.seeds import derive_seed, own_randomness, set_seed


def test_seeds_are_the_same_on_every_machine() -> None:
    assert derive_seed(0, "epoch", 1, 0) == 1114971274746587898
    assert derive_seed(0, "epoch", 1, 0) != derive_seed(0, "epoch", 10, 0)


def test_the_callers_generators_are_left_as_they_were() -> None:
    def draws() -> tuple[float, float, float]:
        return float(torch.rand(())), float(np.random.random()), random.random()  # noqa: NPY002

    set_seed(1)
    expected = draws()
    set_seed(1)
    with own_randomness():
        set_seed(2)
        assert draws() != expected
    assert draws() == expected
