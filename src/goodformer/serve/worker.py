"""The one thread that computes: it answers waiting jobs together, and large ones in turns with others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from goodformer.serve.jobs import Job

TURN = 256
"""Rows that are answered in one model call."""


class Busy(Exception):
    """Too many jobs are waiting."""


class Worker:
    """A thread that takes the waiting jobs of one kind, answers one block of each in one call, and starts again.

    A job with more blocks goes to the end of the queue, so that a large request does not hold up small ones.

    Args:
        most: Largest number of waiting jobs.
        watch: Called with the kind of jobs and the number of rows after each turn.
    """

    def __init__(self, most: int, watch: Callable[[Job, int], None] | None = None) -> None:
        self.most, self.watch = most, watch
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="goodformer-worker", daemon=True)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish all waiting jobs and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Add a job to the queue.

        Raises:
            Busy: Too many jobs are waiting.
        """
        with self._changed:
            if len(self._waiting) >= self.most or self._stopping:
                raise Busy
            self._waiting.append(job)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                jobs = self._take()
            ready = [job for job in jobs if job.block is not None or job.advance()]
            self._answer(ready)
            left = [job for job in ready if job.block is not None and job.advance()]
            if left:
                with self._changed:
                    self._waiting.extend(left)

    def _take(self) -> list[Job]:
        """Remove the first job from the queue, and others of its kind up to the rows of one turn."""
        first, rows = self._waiting[0], 0
        taken: list[Job] = []
        left: deque[Job] = deque()
        for job in self._waiting:
            fits = job is first or (first.together and job.kind == first.kind and rows + job.expected <= TURN)
            (taken if fits else left).append(job)
            rows += job.expected if fits else 0
        self._waiting = left
        return taken

    def _answer(self, jobs: list[Job]) -> None:
        """Answer the blocks of some jobs; if that fails, each alone, so that only faulty ones fail."""
        if not jobs:
            return
        try:
            answers = type(jobs[0]).answers(jobs)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].fail(error)
                return
            for job in jobs:
                self._answer([job])
            return
        if self.watch:
            self.watch(jobs[0], sum(len(job.block) for job in jobs if job.block is not None))
        for job, answer in zip(jobs, answers, strict=True):
            try:
                job.add(answer)
            except Exception as error:
                job.fail(error)
