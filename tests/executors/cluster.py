"""A Ray cluster on this machine: a head without CPUs and two nodes with one each."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

STORE = 80 * 2**20
"""Bytes of each object store; the smallest that Ray accepts is 75 MB."""
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 20_000,
    "health_check_failure_threshold": 3,
}
"""Notices the death of a node within seconds, not within a minute, and is patient with one that is slow to answer."""


@dataclass
class Nodes:
    """A cluster and its two nodes.

    Attributes:
        cluster: The cluster.
        nodes: The nodes with a CPU.
    """

    cluster: Any
    nodes: list[Any]

    @property
    def address(self) -> str:
        """Address of the cluster."""
        return str(self.cluster.address)

    def add(self) -> None:
        """Add a node with one CPU."""
        self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE, wait=False))

    def kill_one(self) -> None:
        """Kill a node and all its processes at once."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

    def complete(self) -> None:
        """Add what is missing of two nodes."""
        while len(self.nodes) < 2:
            self.add()
        self.cluster.wait_for_nodes(120)


@contextmanager
def two_nodes() -> Iterator[Nodes]:
    """Start a cluster and connect to it. No process of it is left afterwards."""
    ray = pytest.importorskip("ray", reason="Ray is not installed; pip install 'goodformer[dist]'")
    from ray.cluster_utils import Cluster

    place = tempfile.mkdtemp(prefix="gf-")  # sockets need short paths
    os.mkdir(f"{place}/ray")
    nodes, patch = Nodes(Cluster(), []), pytest.MonkeyPatch()
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("RAY_TMPDIR", place)  # Ray notes the address of the cluster there
    patch.setenv("RAY_worker_niceness", "0")  # by default 15: on a busy machine, workers would hardly run
    try:
        nodes.cluster.add_node(
            num_cpus=0,
            object_store_memory=STORE,
            include_dashboard=False,
            temp_dir=f"{place}/ray",
            _system_config=QUICK,
        )
        nodes.complete()
        ray.init(nodes.address, logging_level="ERROR", log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.cluster.shutdown()
        patch.undo()
        left = wait_for_end(place)
        for process in left:
            process.kill()
        shutil.rmtree(place, ignore_errors=True)
    assert not left


def wait_for_end(place: str, seconds: float = 15) -> list[psutil.Process]:
    """Return the processes of a cluster, known by its folder, that still run after some seconds."""
    end = time.monotonic() + seconds
    while (left := [one for one in psutil.process_iter() if place in named(one)]) and time.monotonic() < end:
        time.sleep(0.2)
    return left


def named(process: psutil.Process) -> str:
    """The command line and folder of a process, empty if it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
