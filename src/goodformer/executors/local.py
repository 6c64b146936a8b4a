"""Training many runs on this machine, a few at a time, each in a process of its own."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.config.run import PARTS, RunConfig
from goodformer.engine.store import Run
from goodformer.errors import InputError

PERIOD = 0.25
"""Seconds between two looks at the processes."""
BAD_INPUT = 2
"""Exit code of a command that refuses its input; its last line says why."""
PATIENCE = 10.0
"""Seconds between asking a process to stop and killing it."""


@dataclass(frozen=True)
class Status:
    """Progress of many runs.

    Attributes:
        runs: Number of runs.
        ended: Number of runs that are finished or have failed.
        failed: Number of runs that have failed.
        epochs: Number of epochs of all runs that have not failed.
        epochs_done: Number of epochs that are recorded.
        running: A few words for each run in training.
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
    configs: Sequence[RunConfig],
    root: Path,
    jobs: int = 2,
    threads: int = 1,
    watch: Watch | None = None,
    expected: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Train all unfinished runs; a run that fails does not stop the others.

    An interrupt stops the processes and is raised again; the next call continues every run from its last whole epoch.

    Args:
        configs: The runs, in the order of training.
        root: Folder of runs.
        jobs: Number of processes at a time.
        threads: Threads of each process.
        watch: Called several times a second, and once whenever a run has ended.
        expected: Seconds of training of each run, by its id, as far as records of similar runs tell.

    Returns:
        The reason of each failed run, by its id.
    """
    board = Board(configs, root, jobs, expected)
    waiting = deque(config for one, config in board.configs.items() if one not in board.ended)
    running: list[Worker] = []

    def show() -> None:
        if watch:
            watch(board.status([worker.config for worker in running]))

    with tempfile.TemporaryDirectory() as scratch, _stopping(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(Worker(waiting.popleft(), root, Path(scratch), threads))
            for worker in [worker for worker in running if worker.ended]:
                running.remove(worker)
                board.note_end(worker)
                show()
            show()
            time.sleep(PERIOD if running else 0)
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
        log = self.root / f"{self.config.folder_name}.log"
        files.make_folder(self.root)
        files.write_text(log, said)
        return f"{last or f'the process exited with code {code}'} (its full error output is in {log})"


def uncut(config: RunConfig) -> bool:
    """Return whether a run uses all graphs of its data set: the test splits are then measured after every epoch.

    Settings decide, not the label of a budget: runs with one id have records with the same content.
    """
    graphs = PARTS["dataset"].settings(config.dataset["name"]).get("graphs")
    return graphs is None or bool(config.dataset["graphs"] >= graphs.default)


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


class Board:
    """Progress of many runs: recorded epochs, seconds of each, failures.

    Args:
        configs: All runs.
        root: Folder of runs.
        jobs: Number of processes at a time.
        expected: Seconds of training of each run, by its id, as far as records of similar runs tell.
    """

    def __init__(
        self, configs: Sequence[RunConfig], root: Path, jobs: int, expected: Mapping[str, float] | None = None
    ) -> None:
        self.expected, self.around = dict(expected or {}), list[float]()
        self.configs, self.root, self.jobs = {config.id: config for config in configs}, root, jobs
        self.failures: dict[str, str] = {}
        self.seconds = {one: self._seconds(config) for one, config in self.configs.items()}
        self.first = dict(self.seconds)
        self.ended = {one for one, config in self.configs.items() if Run(root / config.folder_name).finished}

    def note_end(self, worker: Worker) -> None:
        """Record the last epochs of a run, or why it failed."""
        before = sum(self.first.get(worker.config.id, ()))
        self.seconds[worker.config.id] = seconds = self._seconds(worker.config)
        self.ended.add(worker.config.id)
        self.around.append(max(time.monotonic() - worker.started - (sum(seconds) - before), 0.0))
        if reason := worker.failure():
            self.failures[worker.config.id] = reason

    def status(self, running: Sequence[RunConfig]) -> Status:
        """Return the progress so far, given the runs in training."""
        self.seconds |= {config.id: self._seconds(config) for config in running}
        done = {one: len(seconds) for one, seconds in self.seconds.items()}
        sound = [one for one in self.configs if one not in self.failures]
        words = (
            f"{config.method['name']} on {config.model['name']}, seed {config.seed}, "
            f"epoch {min(done[config.id] + 1, config.training.epochs)} of {config.training.epochs}"
            for config in running
        )
        return Status(
            runs=len(self.configs),
            ended=len(self.ended),
            failed=len(self.failures),
            epochs=sum(done[one] if one in self.ended else self.configs[one].training.epochs for one in sound),
            epochs_done=sum(done[one] for one in sound),
            running=tuple(words),
            seconds_left=self._seconds_left([one for one in sound if one not in self.ended]),
        )

    def _seconds_left(self, unfinished: Sequence[str]) -> float | None:
        """Estimate the time left from the epochs so far.

        An epoch takes as long as the mean of its method and model so far. Before there is one, it takes what records
        expect, scaled by how much longer than expected other epochs took; without records, the mean of all so far. To
        this comes what a process needs besides its epochs: to start, to load data and to measure the chosen weights.
        """
        kinds = {one: (config.method["name"], config.model["name"]) for one, config in self.configs.items()}
        paces: dict[tuple[str, str], list[float]] = {}
        for one, seconds in self.seconds.items():
            paces.setdefault(kinds[one], []).extend(seconds)
        means = {kind: statistics.fmean(seconds) for kind, seconds in paces.items() if seconds}
        planned = {one: seconds / self.configs[one].training.epochs for one, seconds in self.expected.items()}
        if not means and not planned:
            return None
        ratios = [means[kinds[one]] / pace for one, pace in planned.items() if kinds[one] in means and pace > 0]
        scale = statistics.median(ratios) if ratios else 1.0
        usual = statistics.fmean(means.values()) if means else scale * statistics.fmean(planned.values())
        around = statistics.fmean(self.around) if self.around else 0.0
        left = []
        for one in unfinished:
            pace = means.get(kinds[one], scale * planned[one] if one in planned else usual)
            left.append((self.configs[one].training.epochs - len(self.seconds[one])) * pace + around)
        return max(sum(left) / self.jobs, max(left, default=0.0))

    def _seconds(self, config: RunConfig) -> list[float]:
        """Return the seconds of each recorded epoch; an unreadable record counts as none, training reports it."""
        try:
            epochs: list[dict[str, Any]] = Run(self.root / config.folder_name).epochs
        except InputError:
            return []
        return [float(epoch.get("seconds", 0)) + float(epoch.get("eval_seconds", 0)) for epoch in epochs]


@contextmanager
def _stopping(workers: Sequence[Worker]) -> Iterator[None]:
    """Stop all processes at the end, however the work ends; SIGTERM counts as an interrupt."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if main else None
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        if main:
            signal.signal(signal.SIGTERM, before)
