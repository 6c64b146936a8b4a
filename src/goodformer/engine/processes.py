"""Several processes, of one machine or several, that train one run together."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import torch.distributed as dist

from goodformer.errors import InputError

PORT = "29500"
"""Port of the first node unless MASTER_PORT says otherwise; that of torch.distributed."""


def node_rank() -> int:
    """Return the number of this machine among those that share a run, as the launcher has set it."""
    for name in ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    raise InputError("several nodes need NODE_RANK in the environment of each: 0 on the first, 1 on the next, ...")


def meeting_point(nodes: int) -> dict[str, Any]:
    """Return what torch.distributed needs to bring the processes of so many nodes together."""
    if nodes > 1:
        if not os.environ.get("MASTER_ADDR"):
            raise InputError("several nodes need MASTER_ADDR in the environment: the host name of the first node.")
        port = os.environ.get("MASTER_PORT", PORT)
        return {"NODE_RANK": node_rank(), "MASTER_ADDR": os.environ["MASTER_ADDR"], "MASTER_PORT": port}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return {"NODE_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": probe.getsockname()[1]}


def run_processes(count: int, work: Callable[..., None], *arguments: Any, nodes: int = 1) -> None:
    """Call ``work(*arguments)`` in several new processes at once and wait for all of them.

    Each process finds in its environment what torch.distributed needs to join the others. An error in one of them ends
    all and is raised here: an ``InputError`` as itself, any other with its traceback. No process outlives this call,
    or this process. With several nodes, each of them makes this call.
    """
    import torch.multiprocessing  # its processes pass tensors on through shared memory

    context = torch.multiprocessing.get_context("spawn")
    meeting = meeting_point(nodes)
    processes: dict[Connection, Any] = {}
    try:
        with _quiet_start():
            for rank in range(count):
                ours, theirs = context.Pipe(duplex=False)
                place = {"LOCAL_RANK": rank, **meeting}
                process = context.Process(target=_deliver, args=(theirs, place, work, arguments), daemon=True)
                process.start()
                processes[ours] = process
                theirs.close()
        waiting = set(processes)
        while waiting:
            for pipe in multiprocessing.connection.wait(waiting):
                assert isinstance(pipe, Connection)
                waiting.remove(pipe)
                try:
                    failure = pipe.recv()
                except EOFError:
                    processes[pipe].join()
                    raise RuntimeError(f"a training process ended with exit code {processes[pipe].exitcode}.") from None
                if failure is not None:
                    kind, message = failure
                    raise kind(message)
    finally:
        for process in processes.values():
            process.kill()
            process.join()


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which this process handles for all, and print no notes of torch."""
    name, main = "TORCH_CPP_LOG_LEVEL", threading.current_thread() is threading.main_thread()
    level, handler = os.environ.get(name), signal.getsignal(signal.SIGINT)
    os.environ.setdefault(name, "ERROR")
    if main:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        if level is None:
            del os.environ[name]


def _deliver(pipe: Connection, place: dict[str, Any], work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Do the work of one process, send its error or None, and wait to be ended.

    The process does not end by itself. Threads of torch.distributed may abort it while the interpreter shuts down, and
    a process that leaves early breaks connections that others still read from.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update({name: str(value) for name, value in place.items()})
    failure: tuple[type[Exception], str] | None = None
    try:
        work(*arguments)
    except InputError as error:
        failure = type(error), str(error)
    except BaseException:
        failure = RuntimeError, f"a training process failed:\n{traceback.format_exc()}"
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send(failure)
    threading.Event().wait()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def gather(value: Any) -> list[Any]:
    """Return one object of every process, in the order of their ranks."""
    if not dist.is_initialized():
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
