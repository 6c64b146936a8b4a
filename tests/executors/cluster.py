"""A Ray cluster on this machine: a head without CPUs and two nodes with one each."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

STORE = 80 * 2**20
"""Bytes of each object store; the smallest that Ray accepts is 75 MB."""
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
"""Notices the death of a node within seconds, not within a minute."""


@contextmanager
def two_nodes() -> Iterator[tuple[Any, list[Any]]]:
    """Start a cluster and connect to it; yield it with its two nodes. No process of it is left afterwards."""
    ray = pytest.importorskip("ray", reason="Ray is not installed; pip install 'goodformer[dist]'")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    place = tempfile.mkdtemp(prefix="gf-")  # sockets need short paths
    cluster = Cluster()
    try:
        cluster.add_node(
            num_cpus=0, object_store_memory=STORE, include_dashboard=False, temp_dir=place, _system_config=QUICK
        )
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
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
