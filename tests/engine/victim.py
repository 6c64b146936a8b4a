"""A program whose processes train one run and are killed: ``-m tests.engine.victim ROOT CONFIG``.

The first process dies in the middle of an epoch, the second before there is a state, the third after one epoch. Each
of the others continues from there and dies before another file is put in place. Every run is then trained to its end
in a folder of ROOT. Prints the folder, the file, the epochs recorded at the kill and the exit code of the second
attempt. The processes are forked so that the slow imports are paid once.
"""

from __future__ import annotations

import json
import os
import shutil
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

    def kill_and_continue(folder: Path, prepare: Callable[[Path], None]) -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        if ended(folder, config, prepare) == 0:
            return False
        recorded, file = len(Run(folder / config.folder_name).epochs), folder / "file"
        if folder.name == "one-epoch":
            shutil.copytree(folder, folder.with_name("template"))
        code = ended(folder, config, None)
        places.append((folder.name, file.read_text() if file.exists() else "step", recorded, code))
        return True

    kill_and_continue(Path(root) / "step", in_step)
    kill_and_continue(Path(root) / "first-state", at_file(4))
    kill_and_continue(Path(root) / "one-epoch", at_file(8))
    for count in range(1, 100):
        shutil.copytree(Path(root) / "template", Path(root) / str(count))
        if not kill_and_continue(Path(root) / str(count), at_file(count)):
            break
    print(json.dumps(places))


if __name__ == "__main__":
    main(*sys.argv[1:])
