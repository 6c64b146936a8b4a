"""Where many runs are executed: processes of this machine, or the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodformer.errors import InputError, check_name

if TYPE_CHECKING:
    from goodformer.config.run import RunConfig
    from goodformer.executors.board import Watch

EXECUTORS = ("local", "ray")
Spread = Callable[..., Any]
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
JOBS = 2
"""Runs at a time on one machine, unless said otherwise."""


def complete(
    configs: Sequence[RunConfig],
    root: Path,
    executor: str = "local",
    jobs: int | None = None,
    threads: int = 1,
    watch: Watch | None = None,
    address: str | None = None,
    expected: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Train all unfinished runs and return the reason of each failed one, by its id.

    A run that this call could not train because another process did is not failed once it is finished.

    Args:
        configs: The runs, in the order of training.
        root: Folder of runs.
        executor: ``local`` or ``ray``.
        jobs: Number of runs at a time; by default 2 on one machine, and as many as fit on a cluster.
        threads: Threads of each run.
        watch: Called with the progress several times a second.
        address: Address of the Ray cluster, see `goodformer.executors.ray.connected`.
        expected: Seconds of training of each run, by its id, where similar runs are recorded.
    """
    check_executor(executor, address)
    if executor == "ray":
        from goodformer.executors import ray

        failed = ray.complete(configs, root, jobs, threads, watch, address, expected)
    else:
        from goodformer.executors import local

        failed = local.complete(configs, root, jobs or JOBS, threads, watch, expected)
    from goodformer.engine.store import Run

    finished = {config.id for config in configs if Run(root / config.folder_name).finished}
    return {one: reason for one, reason in failed.items() if one not in finished}


def each(executor: str = "local", threads: int = 1, address: str | None = None) -> Each:
    """Return a function that applies another one to every item and yields the values, in any order.

    Args:
        executor: ``local``, which is this process, or ``ray``.
        threads: Threads of each call.
        address: Address of the Ray cluster.
    """
    check_executor(executor, address)
    if executor == "local":
        return map

    def spread(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        from goodformer.executors import ray

        return ray.each(function, items, threads, address)

    return spread


def spread(executor: str = "local", address: str | None = None) -> Spread | None:
    """Return a function that trains runs elsewhere, see `goodformer.executors.ray.spread`; None for this machine.

    Args:
        executor: ``local`` or ``ray``.
        address: Address of the Ray cluster.
    """
    check_executor(executor, address)
    if executor == "local":
        return None
    from goodformer.executors import ray

    return partial(ray.spread, address=address)


def check_executor(executor: str, address: str | None) -> None:
    """Raise an error unless the executor is known; only Ray has an address."""
    check_name("executor", executor, EXECUTORS)
    if address and executor != "ray":
        raise InputError("--address is the address of a Ray cluster; add --executor ray, or leave it out.")
