"""A program whose processes train one run and are killed: ``-m tests.engine.victim ROOT CONFIG``.

The first process dies in the middle of an epoch, each of the others before another file is put in place. Each run is
then trained to its end by a second process, in a folder of ROOT named by the file or step. Prints these names and how
many epochs were recorded at the kill. The processes are forked so that the slow imports are paid once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from goodformer.config.run import RunConfig
from goodformer.engine.loop import LossMeter  # imported here, so that no process imports Lightning again
from goodformer.engine.progress import Progress
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.methods import METHODS
from tests.engine.tiny import QUIET, Noisy


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_step(folder: Path) -> None:
    """Die after the second step of the second epoch."""
    after_step = Progress.after_step

    def deadly(self: Progress, meter: LossMeter) -> None:
        after_step(self, meter)
        if (self.state.epoch, meter.steps) == (1, 2):
            die()

    Progress.after_step = deadly  # type: ignore[method-assign]


def at_file(count: int) -> Callable[[Path], None]:
    """Die before a file is put in place for the count-th time, its name noted."""

    def prepare(folder: Path) -> None:
        replace, seen = os.replace, 0

        def deadly(source: Any, target: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                (folder / "file").write_text("/".join(Path(target).parts[-2:]))
                die()
            replace(source, target)

        os.replace = deadly  # type: ignore[assignment]

    return prepare


def ended(folder: Path, config: RunConfig, prepare: Callable[[Path], None] | None) -> int:
    """Train in a process of its own, which dies where it was prepared to; return its exit code."""
    process = os.fork()
    if process == 0:
        if prepare:
            prepare(folder)
        train(config, folder, QUIET)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(root: str, path: str) -> None:
    METHODS.add("noisy", Noisy)
    torch.set_num_threads(1)
    config, places = RunConfig.from_yaml(path), []
    for count in range(1000):
        folder = Path(root) / str(count)
        folder.mkdir(parents=True)
        if ended(folder, config, at_file(count) if count else in_step) == 0:
            break
        recorded = len(Run(folder / config.folder_name).epochs)
        file = (folder / "file").read_text() if count else "step"
        places.append((str(count), file, recorded, ended(folder, config, None)))
    print(json.dumps(places))


if __name__ == "__main__":
    main(*sys.argv[1:])
