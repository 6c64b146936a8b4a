"""Training many runs on this machine, a few at a time, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from goodformer.config.run import RunConfig
from goodformer.engine.store import Run
from goodformer.executors.board import Board, Watch, logged, terminable, uncut

PERIOD = 0.25
"""Seconds between two looks at the processes."""
BAD_INPUT = 2
"""Exit code of a command that refuses its input; its last line says why."""
PATIENCE = 10.0
"""Seconds between asking a process to stop and killing it."""


def complete(
    configs: Sequence[RunConfig],
    root: Path,
    jobs: int = 2,
    threads: int = 1,
    watch: Watch | None = None,
    expected: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Train all unfinished runs; a run that fails does not stop the others.

    A run that another process trains is awaited; if that process ends without finishing it, it is continued here.
    An interrupt stops the processes and is raised again; the next call continues every run from its last whole epoch.

    Args:
        configs: The runs, in the order of training.
        root: Folder of runs.
        jobs: Number of processes at a time.
        threads: Threads of each process.
        watch: Called several times a second, and once whenever a run has ended.
        expected: Seconds of training of each run, by its id, where similar runs are recorded.

    Returns:
        The reason of each failed run, by its id.
    """
    board = Board(configs, root, jobs, expected)
    waiting = deque(board.unfinished)
    running: list[Worker] = []
    elsewhere: list[RunConfig] = []

    def show() -> None:
        if watch:
            watch(board.status([worker.config for worker in running], elsewhere))

    with tempfile.TemporaryDirectory() as scratch, _stopping(running):
        while waiting or running or elsewhere:
            for config in [one for one in elsewhere if Run(root / one.folder_name).owner is None]:
                elsewhere.remove(config)
                if Run(root / config.folder_name).finished:
                    board.note_end(config, None)
                else:
                    waiting.appendleft(config)
            while waiting and len(running) < jobs:
                running.append(Worker(waiting.popleft(), root, Path(scratch), threads))
            for worker in [worker for worker in running if worker.ended]:
                running.remove(worker)
                failure, run = worker.failure(), Run(root / worker.config.folder_name)
                if failure and (run.owner is not None or run.finished):  # another process trains it, or has trained it
                    elsewhere.append(worker.config)
                else:
                    board.note_end(worker.config, failure, time.monotonic() - worker.started)
                show()
            show()
            time.sleep(PERIOD if running or elsewhere else 0)
    return board.failures


class Worker:
    """A process that trains one run by ``goodformer train``.

    Args:
        config: The run.
        root: Folder of runs.
        scratch: Folder for its settings and its error output.
        threads: Threads of the process.
    """

    def __init__(self, config: RunConfig, root: Path, scratch: Path, threads: int) -> None:
        self.config, self.root, self.errors = config, root, scratch / f"{config.id}.err"
        self.started = time.monotonic()
        settings = scratch / f"{config.id}.json"
        settings.write_text(json.dumps(config.to_dict()), encoding="utf-8")
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command(settings, root, threads, every_test=uncut(config)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            )

    @property
    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """End the process; its recorded epochs stay."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def failure(self) -> str | None:
        """Return why the run is not finished although the process has ended, None if it is finished."""
        code, said = self.process.returncode, self.errors.read_text(encoding="utf-8", errors="replace")
        last = said.strip().rpartition("\n")[2].strip()
        folder = self.root / self.config.folder_name
        if code == 0:
            missing = f"the process exited with code 0 but {folder} is not finished; delete that folder and try again."
            return None if Run(folder).finished else missing
        if code == BAD_INPUT:
            return last.removeprefix("goodformer: ")
        if code < 0:
            return f"the process was killed by {signal.Signals(-code).name}; the machine may be out of memory."
        return logged(self.config, self.root, said, last or f"the process exited with code {code}")


def command(settings: Path, root: Path, threads: int, every_test: bool = False) -> list[str]:
    """Return the command line that trains the run of a settings file.

    Args:
        settings: The file.
        root: Folder of runs.
        threads: Threads of the process.
        every_test: Measure the test splits after every epoch, so that the record has them for every selection rule.
    """
    words = ["train", "--config", str(settings), "--runs", str(root), "--threads", str(threads), "--quiet", "--json"]
    return [sys.executable, "-m", "goodformer", *words, *([] if every_test else ["--test-chosen"])]


@contextmanager
def _stopping(workers: Sequence[Worker]) -> Iterator[None]:
    """Stop all processes at the end, however the work ends."""
    with terminable():
        try:
            yield
        finally:
            for worker in workers:
                worker.stop()
