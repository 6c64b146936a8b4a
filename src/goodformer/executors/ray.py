"""Training many runs, and applying a function to many items, on the nodes of a Ray cluster.

Nodes share no disk. The caller loads the data and sends them. A node trains in a scratch folder of its own and sends
the folder to a mailbox on the caller's node, at intervals and at the end; the caller puts it among its runs. A run
whose node dies therefore continues elsewhere from the last folder that arrived.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import goodformer
from goodformer.config.run import Hardware, RunConfig
from goodformer.engine import parcel
from goodformer.engine.store import AlreadyTrained, Run
from goodformer.errors import InputError
from goodformer.executors.board import Board, Watch, logged, terminable, uncut
from goodformer.registry import VARIABLE as PLUGINS

PERIOD = 0.25
"""Seconds between two looks at the cluster."""
INTERVAL = 15.0
"""Seconds between two copies of a run in training, which is about what the death of a node costs."""
LOST = 3
"""How many times in a row a run may lose its worker without a new epoch before it has failed."""
Setup = dict[str, str]
"""What must be equal on all nodes: the version of this package and the plugins."""
Label = tuple[str, int]
"""Id of a run and number of its attempt."""
FINISHED, STOPPED, DIVERGED, FAILED = "finished", "stopped", "diverged", "failed"
"""How a run ends; one whose loss is not finite has also failed, unless somebody cares for the difference."""
Judge = Callable[[RunConfig, Sequence[dict[str, Any]]], bool]
"""Called with the epochs of a run so far; returns whether to stop it."""


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Connect to a Ray cluster, unless this process is connected already, and yield the module ``ray``.

    Args:
        address: ``auto``, or host and port of a node. By default the cluster of the variable RAY_ADDRESS or of this
            machine is used; where there is none, Ray is started on this machine and ended afterwards.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise InputError("--executor ray needs Ray; install it with: pip install 'goodformer[dist]'") from None
    if (address or os.environ.get("RAY_ADDRESS", "")).startswith("ray://"):
        raise InputError("ray:// addresses are not supported; run this command on a node of the cluster.")
    ours = not ray.is_initialized()
    host, _, port = (address or "").rpartition(":")
    try:
        if port.isdigit():  # Ray itself tries for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        if ours:
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"cannot connect to Ray ({reason}); start it with ray start --head, or leave --address out."
        ) from None
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def capacity(ray: Any, threads: int) -> int:
    """Return how many tasks of that many threads the cluster can run at a time, at least one."""
    return max(int(ray.cluster_resources().get("CPU", 0)) // threads, 1)


# Runs -----------------------------------------------------------------------------------------------------------------


def complete(
    configs: Sequence[RunConfig],
    root: Path,
    jobs: int | None = None,
    threads: int = 1,
    watch: Watch | None = None,
    address: str | None = None,
    expected: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Train all unfinished runs on a Ray cluster; a run that fails does not stop the others.

    The folders of all runs end up in ``root`` on this machine, as with `goodformer.executors.local.complete`. An
    interrupt ends the training on all nodes and is raised again; the next call, of any executor, continues.

    Args:
        configs: The runs, in the order of training.
        root: Folder of runs.
        jobs: Number of runs at a time; by default as many as fit, and one that waits.
        threads: Threads of each run, which are also the CPUs that it takes of a node.
        watch: Called several times a second, and once whenever a run has ended.
        address: See `connected`.
        expected: Seconds of training of each run, by its id, where similar runs are recorded.

    Returns:
        The reason of each failed run, by its id.
    """
    board = Board(configs, root, jobs or 1, expected)
    waiting = deque(board.unfinished)
    if not waiting:
        return {}

    def show() -> None:
        if watch:
            watch(board.status([remote.config for remote in remotes.running.values()]))

    def hardware(config: RunConfig) -> Hardware:
        return Hardware(threads=threads, progress=False, test_epochs=uncut(config))

    with connected(address) as ray, terminable(), RemoteRuns(ray, root, threads, hardware) as remotes:
        while waiting or remotes.running:
            board.jobs = jobs or capacity(ray, threads)
            while waiting and len(remotes.running) < (jobs or board.jobs + 1):
                remotes.start(waiting.popleft())
            remotes.forget_data(waiting)
            for config, _, failure in remotes.advance():
                board.note_end(config, failure)
                show()
            show()
    return board.failures


def spread(
    root: Path,
    ask: Callable[[], RunConfig | None],
    judge: Judge,
    hardware: Hardware,
    load: Callable[[RunConfig], Any],
    address: str | None = None,
) -> Generator[Ended, None, None]:
    """Train runs that are known only one after the other, for example those of a search; yield each that has ended.

    Args:
        root: Folder of runs.
        ask: Returns the next run, None if there is none for now. It is called while there is a free place.
        judge: Called when epochs of a run have arrived; returns whether to stop it.
        hardware: Of every run; its threads are the CPUs that a run takes of a node.
        load: Returns the data of a run.
        address: See `connected`.
    """
    later: list[RunConfig] = []
    with (
        connected(address) as ray,
        terminable(),
        RemoteRuns(ray, root, hardware.threads, lambda _: hardware, load) as remotes,
    ):
        while True:
            held, later = later, []
            while len(remotes.running) < capacity(ray, hardware.threads):
                if (config := held.pop(0) if held else ask()) is None:
                    break
                try:
                    remotes.start(config, wait=True)
                except AlreadyTrained:  # by another search
                    later.append(config)
                    break
            later += held
            if not (remotes.running or remotes.ended or later):
                return
            yield from remotes.advance(judge)


@dataclass
class RemoteRun:
    """A run in training on some node.

    Attributes:
        config: The run.
        lock: Holds the lock of its folder.
        attempt: Counts its workers; only the mail of the latest counts.
        lost: Workers that were lost since the last epoch that arrived.
        epochs: Epochs that have arrived.
    """

    config: RunConfig
    lock: ExitStack
    attempt: int = 0
    lost: int = 0
    epochs: int = 0


Ended = tuple[RunConfig, str, str | None]
"""A run that has ended, how, and why it failed if it did."""


class RemoteRuns:
    """Runs in training on a Ray cluster.

    Args:
        ray: The module, connected.
        root: Folder of runs.
        threads: CPUs of each run.
        hardware: Returns how a run is computed.
        load: Returns the data of a run.
    """

    def __init__(
        self,
        ray: Any,
        root: Path,
        threads: int,
        hardware: Callable[[RunConfig], Hardware],
        load: Callable[[RunConfig], Any] | None = None,
    ) -> None:
        self.ray, self.root, self.threads, self.hardware, self.load = ray, root, threads, hardware, load or _load
        self.running: dict[Any, RemoteRun] = {}
        self.ended: list[Ended] = []
        self.data: dict[str, Any] = {}
        here = ray.get_runtime_context().get_node_id()
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": strategy}
        self.mailbox = ray.remote(**options)(Mailbox).remote()
        # One process per run, as on one machine: its memory is its own, and nothing is left over from the run before.
        self.train = ray.remote(num_cpus=threads, max_retries=0, max_calls=1)(train_run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for ref, remote in self.running.items():
            self.ray.cancel(ref, force=True)
            remote.lock.close()
        self.ray.kill(self.mailbox)

    def start(self, config: RunConfig, wait: bool = False) -> None:
        """Lock a run and send it, with what is there of it, to the cluster; one that is finished has ended at once.

        Args:
            config: The run.
            wait: Whether to raise `AlreadyTrained` if another process trains it; otherwise it has failed.
        """
        run, remote = Run(self.root / config.folder_name), RemoteRun(config, ExitStack())
        try:
            remote.lock.enter_context(run.locked())
            if run.finished:
                self._end(remote, FINISHED)
                return
            remote.epochs = len(run.epochs)
            self._launch(remote)
        except InputError as error:
            if wait and isinstance(error, AlreadyTrained):
                raise
            self._end(remote, FAILED, str(error))

    def _launch(self, remote: RemoteRun) -> None:
        config, remote.attempt = remote.config, remote.attempt + 1
        if _key(config) not in self.data:
            self.data[_key(config)] = self.ray.put(self.load(config))
        state = parcel.pack(self.root / config.folder_name)
        post = (self.mailbox, (config.id, remote.attempt), INTERVAL)
        given = (config.to_dict(), self.hardware(config).model_dump(), self.data[_key(config)], state, post, setup())
        self.running[self.train.remote(*given)] = remote

    def forget_data(self, waiting: Iterable[RunConfig]) -> None:
        """Free the data that neither a run in training nor a waiting one needs."""
        needed = {_key(config) for config in (*waiting, *(remote.config for remote in self.running.values()))}
        self.data = {key: ref for key, ref in self.data.items() if key in needed}

    def advance(self, judge: Judge | None = None) -> list[Ended]:
        """Wait a moment, put folders that have arrived in place, and return the runs that have ended.

        Args:
            judge: Decides whether to stop a run of which new epochs have arrived.
        """
        done, _ = self.ray.wait([*self.running], timeout=PERIOD) if self.running else ([], [])
        current = {(remote.config.id, remote.attempt): (ref, remote) for ref, remote in self.running.items()}
        for label, content in self.ray.get(self.mailbox.take.remote()).items():
            if label in current:
                self._receive(*current[label], content, judge)
        for ref in done:
            if ref in self.running:
                self._settle(ref, self.running.pop(ref))
        ended, self.ended = self.ended, []
        return ended

    def _receive(self, ref: Any, remote: RemoteRun, content: bytes, judge: Judge | None) -> None:
        """Put a folder that has arrived in place; stop its run if it is judged so."""
        run = Run(self.root / remote.config.folder_name)
        parcel.receive(run.folder, content)
        epochs = run.epochs
        if len(epochs) > remote.epochs:
            remote.epochs, remote.lost = len(epochs), 0
            if judge and not run.finished and judge(remote.config, epochs):
                self.ray.cancel(ref, force=True)
                del self.running[ref]
                self._end(remote, STOPPED)

    def _settle(self, ref: Any, remote: RemoteRun) -> None:
        said, reason, diverged = "", None, False
        try:
            reason, said, diverged = self.ray.get(ref)
            why = "its folder did not arrive"
        except self.ray.exceptions.RayError as error:
            why = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        if reason:
            reason = logged(remote.config, self.root, said, reason) if said else reason
            self._end(remote, DIVERGED if diverged else FAILED, reason)
        elif Run(self.root / remote.config.folder_name).finished:
            self._end(remote, FINISHED)
        elif remote.lost < LOST:
            remote.lost += 1
            self._launch(remote)
        else:
            lost = f"its worker was lost {remote.lost + 1} times without a new epoch; the last time: {why}."
            self._end(remote, FAILED, lost)

    def _end(self, remote: RemoteRun, how: str, why: str | None = None) -> None:
        remote.lock.close()
        self.ended.append((remote.config, how, why))


def _load(config: RunConfig) -> Any:
    """Return the data of a run."""
    from goodformer.data import load_benchmark

    return load_benchmark(**config.dataset)


def _key(config: RunConfig) -> str:
    """Return what identifies the data of a run."""
    return json.dumps(config.dataset, sort_keys=True)


class Mailbox:
    """The latest folder of each run, until the caller takes it."""

    def __init__(self) -> None:
        self.waiting: dict[Label, bytes] = {}

    def post(self, label: Label, content: bytes) -> None:
        """Leave a packed folder; it replaces an older one with the same label."""
        self.waiting[label] = content

    def take(self) -> dict[Label, bytes]:
        """Return all packed folders and forget them."""
        found, self.waiting = self.waiting, {}
        return found


def train_run(
    values: dict[str, Any],
    hardware: dict[str, Any],
    benchmark: Any,
    state: bytes | None,
    post: tuple[Any, Label, float],
    wanted: Setup,
) -> tuple[str | None, str, bool]:
    """Train a run on this node, from the state that the caller has.

    Returns:
        Why it failed, if it did; its traceback, if the failure is no input error; and whether its loss was not finite.
    """
    from goodformer.engine.training import TrainingDiverged

    try:
        check_setup(wanted)
        import torch

        from goodformer.engine.run import train

        config, work = RunConfig.from_dict(values), Hardware(**hardware)
        torch.set_num_threads(work.threads)
        with tempfile.TemporaryDirectory(prefix="goodformer-") as scratch:
            folder = Path(scratch) / config.folder_name
            if state is not None:
                parcel.receive(folder, state)
            with Courier(folder, *post):
                train(config, scratch, work, benchmark)
    except InputError as error:
        return str(error), "", isinstance(error, TrainingDiverged)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0], traceback.format_exc(), False
    return None, "", False


def setup() -> Setup:
    """Return what every node must have as the caller has it."""
    return {"version": goodformer.__version__, PLUGINS: os.environ.get(PLUGINS, "")}


def check_setup(wanted: Setup) -> None:
    """Raise an error unless this node has the caller's version, and let it find the caller's plugins."""
    if wanted["version"] != goodformer.__version__:
        raise InputError(
            f"a node has goodformer {goodformer.__version__} and the caller {wanted['version']}; install one version."
        )
    if wanted[PLUGINS]:
        os.environ[PLUGINS] = wanted[PLUGINS]


class Courier:
    """A thread that sends the folder of a run to the caller, at intervals if it has changed and at the end.

    Args:
        folder: The folder.
        mailbox: Where to send it.
        label: The run and the attempt.
        interval: Seconds between two looks at the folder.
    """

    def __init__(self, folder: Path, mailbox: Any, label: Label, interval: float) -> None:
        self.folder, self.mailbox, self.label, self.interval = folder, mailbox, label, interval
        self.sent = parcel.signature(folder)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self.send()

    def _watch(self) -> None:
        while not self.over.wait(self.interval):
            self.send()

    def send(self) -> None:
        """Send the folder if it has changed since the last time, and wait until it has arrived."""
        import ray

        if (now := parcel.signature(self.folder)) and now != self.sent and (content := parcel.pack(self.folder)):
            ray.get(self.mailbox.post.remote(self.label, content))
            self.sent = now


# Items ----------------------------------------------------------------------------------------------------------------


def each(
    function: Callable[[Any], Any], items: Iterable[Any], threads: int = 1, address: str | None = None
) -> Iterator[Any]:
    """Yield ``function(item)`` for every item, in the order of completion; a call that loses its node is repeated.

    Items are taken as they are needed: at most two per free place wait in the cluster, so there may be more than memory
    can hold.

    Args:
        function: A function of its argument alone; it is sent to the cluster once.
        items: Its arguments.
        threads: CPUs that each call takes of a node.
        address: See `connected`.
    """
    with connected(address) as ray, terminable():
        call = ray.remote(num_cpus=threads, max_retries=LOST)(_call)
        shared, source = ray.put(function), iter(items)
        pending: list[Any] = []
        try:
            while True:
                room = 2 * capacity(ray, threads) - len(pending)
                pending += [call.remote(shared, item, threads, setup()) for _, item in zip(range(room), source)]  # noqa: B905
                if not pending:
                    return
                done, pending = ray.wait(pending)
                for ref in done:
                    result, failure = ray.get(ref)
                    if failure:
                        raise InputError(failure)
                    yield result
        finally:
            for ref in pending:
                ray.cancel(ref, force=True)


def _call(function: Callable[[Any], Any], item: Any, threads: int, wanted: Setup) -> tuple[Any, str]:
    """Return the value of a function, or the sentence of its input error."""
    try:
        check_setup(wanted)
        import torch

        torch.set_num_threads(threads)
        return function(item), ""
    except InputError as error:
        return None, str(error)
