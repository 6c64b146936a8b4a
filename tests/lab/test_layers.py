"""How well each disentangling layer finds the motif."""

from __future__ import annotations

from pathlib import Path

import pytest

from goodformer.config.presets import configure
from goodformer.config.run import Hardware
from goodformer.engine.run import train
from goodformer.errors import InputError
from lab import layers

DATA = {"name": "good-motif", "domain": "basis", "graphs": 120}
SMALL = ["training.epochs=1", "model.dim=16", "model.heads=2"]


def test_only_the_layer_that_explains_is_exchanged(tmp_path: Path) -> None:
    config = configure(DATA, "goodformer", preset="as_published", overrides=SMALL)
    run = train(config, tmp_path, Hardware(progress=False))
    found = layers.measure(run)
    assert run.summary is not None
    assert found["second"]["test"]["precision_at_10"] == pytest.approx(run.summary["precision_at_10"], abs=1e-3)
    assert found["first"] != found["second"]


def test_a_run_with_one_layer_is_refused(tmp_path: Path) -> None:
    run = train(configure(DATA, "goodformer", overrides=SMALL), tmp_path, Hardware(progress=False))
    with pytest.raises(InputError, match="no second disentangling layer"):
        layers.measure(run)
