"""Progress of many runs, wherever they are trained."""

from __future__ import annotations

import signal
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.config.run import PARTS, RunConfig
from goodformer.engine.store import Run
from goodformer.errors import InputError


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


def uncut(config: RunConfig) -> bool:
    """Return whether a run uses all graphs of its data set: the test splits are then measured after every epoch.

    Settings decide, not the label of a budget: runs with one id have records with the same content.
    """
    graphs = PARTS["dataset"].settings(config.dataset["name"]).get("graphs")
    wanted = None if graphs is None else config.dataset["graphs"]
    if graphs is None or wanted is None:  # no such setting, or all graphs
        return True
    return graphs.default is not None and bool(wanted >= graphs.default)


class Board:
    """Progress of many runs: recorded epochs, seconds of each, failures.

    Args:
        configs: All runs.
        root: Folder of runs.
        jobs: Number of runs at a time.
        expected: Seconds of training of each run, by its id, where similar runs are recorded.
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

    @property
    def unfinished(self) -> list[RunConfig]:
        """The runs that have not ended, in their order."""
        return [config for one, config in self.configs.items() if one not in self.ended]

    def note_end(self, config: RunConfig, failure: str | None, wall: float | None = None) -> None:
        """Record the last epochs of a run, why it failed if it did, and the seconds from its start if known."""
        before = sum(self.first.get(config.id, ()))
        self.seconds[config.id] = seconds = self._seconds(config)
        self.ended.add(config.id)
        if wall is not None:
            self.around.append(max(wall - (sum(seconds) - before), 0.0))
        if failure:
            self.failures[config.id] = failure

    def status(self, running: Sequence[RunConfig], elsewhere: Sequence[RunConfig] = ()) -> Status:
        """Return the progress so far, given the runs in training here and those that another process trains."""
        everywhere = (*running, *elsewhere)
        self.seconds |= {config.id: self._seconds(config) for config in everywhere}
        done = {one: len(seconds) for one, seconds in self.seconds.items()}
        sound = [one for one in self.configs if one not in self.failures]
        words = (
            f"{config.method['name']} on {config.model['name']}, seed {config.seed}, "
            f"epoch {min(done[config.id] + 1, config.training.epochs)} of {config.training.epochs}"
            f"{' in another process' if config in elsewhere else ''}"
            for config in everywhere
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


def logged(config: RunConfig, root: Path, said: str, reason: str) -> str:
    """Keep the error output of a failed run beside its folder and return the reason with the name of that file."""
    log = root / f"{config.folder_name}.log"
    files.make_folder(root)
    files.write_text(log, said)
    return f"{reason} (its full error output is in {log})"


@contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM as an interrupt, so that it ends what this process has started."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
