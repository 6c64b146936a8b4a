"""A program that trains a run and is killed at a chosen place: ``python -m tests.engine.victim ROOT CONFIG PLACE``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from goodformer.engine import RunConfig, train
from goodformer.engine.training import Training
from goodformer.methods import METHODS
from tests.engine.tiny import QUIET, Noisy


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_step(epoch: int, step: int) -> None:
    """Die after a step in the middle of an epoch."""
    after_step = Training.after_step

    def deadly(self: Training) -> None:
        after_step(self)
        if (self.epoch, self.meter.steps) == (epoch, step):
            die()

    Training.after_step = deadly  # type: ignore[method-assign]


def at_file(name: str, count: int, before: bool) -> None:
    """Die before or after a file is put in place for the count-th time."""
    replace, seen = os.replace, 0

    def deadly(source: Any, target: Any) -> None:
        nonlocal seen
        seen += Path(target).name == name
        if before and seen == count:
            die()
        replace(source, target)
        if seen == count:
            die()

    os.replace = deadly  # type: ignore[assignment]


PLACES = {
    "step": lambda: in_step(1, 2),
    "before-state": lambda: at_file("last.ckpt", 1, before=True),
    "after-state": lambda: at_file("last.ckpt", 1, before=False),
    "between-weights": lambda: at_file("weights.safetensors", 2, before=False),
    "before-summary": lambda: at_file("summary.json", 1, before=True),
}

if __name__ == "__main__":
    METHODS.entries["noisy"] = Noisy
    root, config, place = sys.argv[1:]
    PLACES[place]()
    train(RunConfig.from_yaml(config), root, QUIET)
