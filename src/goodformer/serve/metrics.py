"""Counters in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Metrics"]


class Metrics:
    """What the server has done since it started.

    Args:
        waiting: Returns the number of waiting requests.
    """

    def __init__(self, waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        within: dict[str, Any] = {"registry": self._registry}
        self.requests = Counter("goodformer_requests", "Requests by path and status.", ["path", "status"], **within)
        self.seconds = Histogram("goodformer_request_seconds", "Seconds per request.", ["path"], **within)
        self.rows = Counter("goodformer_rows", "Answered rows.", ["model"], **within)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
        self.turns = Histogram("goodformer_turn_rows", "Rows per model call.", buckets=sizes, **within)
        Gauge("goodformer_waiting_requests", "Requests that wait.", **within).set_function(waiting)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all values."""
        return generate_latest(self._registry)
