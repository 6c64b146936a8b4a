"""Many runs, a few at a time, each in a process of its own so that its memory is freed when it ends."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.config.run import RunConfig
from goodformer.data import DATASETS
from goodformer.engine.store import Run
from goodformer.registry import InputError

PERIOD = 0.25
"""Seconds between looks at the processes."""
REFUSED = 2
"""Exit code of a command that was given something it cannot use and says so in its last line."""
PATIENCE = 10.0
"""Seconds a stopped process has before it is killed."""


@dataclass(frozen=True)
class Status:
    """How far the runs are, for whoever watches.

    Args:
        runs: Number of runs asked for.
        ended: How many of them are finished or have failed.
        failed: How many have failed.
        epochs: Number of epochs of all runs that have not failed.
        epochs_done: How many of them are recorded.
        running: A few words for each run that is being trained.
        seconds_left: Estimate from the epochs so far; None before the first.
    """

    runs: int
    ended: int
    failed: int
    epochs: int
    epochs_done: int
    running: tuple[str, ...]
    seconds_left: float | None


Watch = Callable[[Status], None]


def complete(
    configs: Sequence[RunConfig], root: Path, jobs: int = 2, threads: int = 1, watch: Watch | None = None
) -> dict[str, str]:
    """Train what is unfinished; a run that fails stops no other.

    An interrupt stops the processes and is passed on; every run goes on from its last whole epoch the next time.

    Args:
        configs: What to train, in this order.
        root: Where run folders lie.
        jobs: Processes at a time.
        threads: Threads of each.
        watch: Called several times a second.

    Returns:
        One sentence for each run that failed, by its id.
    """
    board = Board(configs, root, jobs)
    waiting = deque(config for config in configs if not board.run(config).finished)
    running: list[Worker] = []
    with tempfile.TemporaryDirectory() as scratch, _stopped_at_the_end(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(Worker(waiting.popleft(), root, Path(scratch), threads))
            for worker in [worker for worker in running if worker.ended]:
                running.remove(worker)
                board.note_end(worker)
            if watch:
                watch(board.status([worker.config for worker in running]))
            time.sleep(PERIOD if running else 0)
    return board.failures


class Worker:
    """A process that trains one run by ``goodformer train``.

    Args:
        config: What to train.
        root: Where run folders lie.
        scratch: Folder for its settings and what it says.
        threads: Threads it may use.
    """

    def __init__(self, config: RunConfig, root: Path, scratch: Path, threads: int) -> None:
        self.config, self.root, self.words = config, root, scratch / f"{config.id}.err"
        settings = scratch / f"{config.id}.json"
        settings.write_text(json.dumps(config.to_dict()), encoding="utf-8")
        with self.words.open("wb") as words:
            self.process = subprocess.Popen(
                command(settings, root, threads, every_test=uncut(config)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            )

    @property
    def ended(self) -> bool:
        """Whether the process is over."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """End the process; what it has recorded stays."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def failure(self) -> str | None:
        """One sentence if the run is not finished though the process is over."""
        code, said = self.process.returncode, self.words.read_text(encoding="utf-8", errors="replace")
        last = said.strip().rpartition("\n")[2].strip()
        if code == 0:
            missing = f"the process ended well without {self.config.folder_name}; delete that folder and try again."
            return None if Run(self.root / self.config.folder_name).finished else missing
        if code == REFUSED:
            return last.removeprefix("goodformer: ")
        if code < 0:
            return f"the process was ended by {signal.Signals(-code).name}; if nobody did it, memory may be short."
        return f"{last or f'the process ended with code {code}'} (all it said is in {self._keep(said)})"

    def _keep(self, said: str) -> Path:
        """A file beside the run folders with what the process said."""
        path = self.root / f"{self.config.folder_name}.log"
        files.make_folder(self.root)
        files.write_text(path, said)
        return path


def finished(configs: Iterable[RunConfig], root: Path) -> list[Run]:
    """Those of some runs that are finished in a folder."""
    runs = [Run(root / config.folder_name) for config in configs]
    return [run for run in runs if run.finished]


def uncut(config: RunConfig) -> bool:
    """Whether a run has all graphs of its data set: the test splits are then measured at every epoch.

    Settings decide, never a label: runs of one id have records of one content, whatever budget asked for them.
    """
    graphs = DATASETS.settings(config.dataset["name"]).get("graphs")
    return graphs is None or bool(config.dataset["graphs"] >= graphs.default)


def command(settings: Path, root: Path, threads: int, every_test: bool = False) -> list[str]:
    """The command line that trains the run a settings file describes.

    Args:
        settings: The file.
        root: Where run folders lie.
        threads: Threads of the process.
        every_test: Measure the test splits at every epoch, so that the record tells them under every rule.
    """
    words = [
        "train",
        "--config",
        str(settings),
        "--runs",
        str(root),
        "--threads",
        str(threads),
        "--quiet",
        "--json",
        *([] if every_test else ["--test-chosen"]),
    ]
    return [sys.executable, "-m", "goodformer", *words]


class Board:
    """What is known of many runs: epochs recorded, seconds each took, failures.

    Args:
        configs: All runs.
        root: Where run folders lie.
        jobs: Processes at a time.
    """

    def __init__(self, configs: Sequence[RunConfig], root: Path, jobs: int) -> None:
        self.configs, self.root, self.jobs = {config.id: config for config in configs}, root, jobs
        self.failures: dict[str, str] = {}
        self.seconds = {config.id: self._seconds(config) for config in self.configs.values()}

    def run(self, config: RunConfig) -> Run:
        """The run of a config, begun or not."""
        return Run(self.root / config.folder_name)

    def note_end(self, worker: Worker) -> None:
        """Take in the last epochs of a run, or why it failed."""
        self.seconds[worker.config.id] = self._seconds(worker.config)
        if reason := worker.failure():
            self.failures[worker.config.id] = reason

    def status(self, running: Sequence[RunConfig]) -> Status:
        """How far things are."""
        self.seconds |= {config.id: self._seconds(config) for config in running}
        ended = [one for one, config in self.configs.items() if one in self.failures or self.run(config).finished]
        sound = [one for one in self.configs if one not in self.failures]
        return Status(
            runs=len(self.configs),
            ended=len(ended),
            failed=len(self.failures),
            epochs=sum(len(self.seconds[one]) if one in ended else self._epochs(one) for one in sound),
            epochs_done=sum(len(self.seconds[one]) for one in sound),
            running=tuple(self._words(config) for config in running),
            seconds_left=self._seconds_left([one for one in sound if one not in ended]),
        )

    def _seconds_left(self, unfinished: Sequence[str]) -> float | None:
        """Epochs to come, each as long as those of its method and model were so far, or as the average of all."""
        paces: dict[tuple[str, str], list[float]] = {}
        for one, seconds in self.seconds.items():
            paces.setdefault(self._kind(one), []).extend(seconds)
        means = {kind: statistics.fmean(seconds) for kind, seconds in paces.items() if seconds}
        if not means:
            return None
        usual = statistics.fmean(means.values())
        left = [(self._epochs(one) - len(self.seconds[one])) * means.get(self._kind(one), usual) for one in unfinished]
        return max(sum(left) / self.jobs, max(left, default=0.0))

    def _kind(self, one: str) -> tuple[str, str]:
        config = self.configs[one]
        return config.method["name"], config.model["name"]

    def _epochs(self, one: str) -> int:
        return self.configs[one].training.epochs

    def _words(self, config: RunConfig) -> str:
        """Method, model, seed and the epoch that is being trained."""
        epoch = min(len(self.seconds[config.id]) + 1, config.training.epochs)
        named = f"{config.method['name']} on {config.model['name']}, seed {config.seed}"
        return f"{named}, epoch {epoch} of {config.training.epochs}"

    def _seconds(self, config: RunConfig) -> list[float]:
        """Seconds of each recorded epoch; a record that cannot be read counts as none, training will say why."""
        try:
            epochs: list[dict[str, Any]] = self.run(config).epochs
        except InputError:
            return []
        return [float(epoch.get("seconds", 0)) + float(epoch.get("eval_seconds", 0)) for epoch in epochs]


@contextmanager
def _stopped_at_the_end(workers: Sequence[Worker]) -> Iterator[None]:
    """Leave no process behind, however the work ends; being told to terminate is an interrupt, too."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if main else None
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        if main:
            signal.signal(signal.SIGTERM, before)
