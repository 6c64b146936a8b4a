"""A program whose processes train one run and are killed, each at its place: ``-m tests.engine.victim ROOT CONFIG``.

Prints for every place how its process ended and how many epochs are recorded then. The processes are forked so that
the slow imports are paid once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from goodformer.config.run import RunConfig
from goodformer.engine.loop import LossMeter  # here, so that no process pays for the import of Lightning again
from goodformer.engine.progress import Progress
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.methods import METHODS
from tests.engine.tiny import QUIET, Noisy


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_step(epoch: int, step: int) -> None:
    """Die after a step in the middle of an epoch."""
    after_step = Progress.after_step

    def deadly(self: Progress, meter: LossMeter) -> None:
        after_step(self, meter)
        if (self.state.epoch, meter.steps) == (epoch, step):
            die()

    Progress.after_step = deadly  # type: ignore[method-assign]


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


def killed(root: str, config: RunConfig, place: str) -> int:
    """Train in a process of its own until it dies at its place; how it ended."""
    process = os.fork()
    if process == 0:
        PLACES[place]()
        train(config, root, QUIET)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(root: str, path: str) -> None:
    METHODS.entries["noisy"] = Noisy
    torch.set_num_threads(1)
    config = RunConfig.from_yaml(path)
    run = Run(Path(root) / config.folder_name)
    print(json.dumps([(place, killed(root, config, place), len(run.epochs), run.finished) for place in PLACES]))


if __name__ == "__main__":
    main(*sys.argv[1:])
