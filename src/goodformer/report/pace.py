"""Estimates of how long runs will take, from records of similar runs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from goodformer.config.run import RunConfig
from goodformer.data.benchmarks.sizes import generated_sizes
from goodformer.report.paper import training_graphs
from goodformer.report.records import Record
from goodformer.report.rows import BASELINE, GNN, PLAIN_GNN

Kind = tuple[str, str, str]
"""Names of a data set, a method and a model."""


class Paces:
    """CPU seconds per training graph and epoch of each method, from records.

    Args:
        records: Records of finished runs.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        seconds_of: dict[Kind, list[float]] = {}
        self.sizes: dict[str, int] = {}
        for record in records:
            seconds = record.get("processor_seconds_per_epoch") or record.get("seconds_per_epoch")
            graphs, settings = record.get("train_graphs"), record.get("config", {})
            if seconds and graphs and settings:
                kind = _kind(*(settings[part]["name"] for part in ("dataset", "method", "model")))
                seconds_of.setdefault(kind, []).append(seconds / graphs)
                self.sizes[json.dumps(settings["dataset"], sort_keys=True)] = graphs
        self.paces = {kind: statistics.fmean(values) for kind, values in seconds_of.items()}

    def seconds(self, config: RunConfig) -> float | None:
        """Return the CPU seconds of training, None if no similar run is recorded.

        On a data set without a record of the method, the pace is that of ERM there, times the mean ratio of the
        method's pace to ERM's on other data sets.
        """
        kind = _kind(*(str(part["name"]) for part in (config.dataset, config.method, config.model)))
        erm = _kind(kind[0], BASELINE, GNN)
        pace = self.paces.get(kind)
        if pace is None and erm in self.paces:
            ratios = [
                self.paces[one] / self.paces[there]
                for one in sorted(self.paces)
                if one[1:] == kind[1:] and (there := (one[0], *erm[1:])) in self.paces
            ]
            pace = self.paces[erm] * statistics.fmean(ratios) if ratios else None
        graphs = self.graphs(config.dataset)
        return None if graphs is None or pace is None else pace * graphs * config.training.epochs

    def graphs(self, dataset: Mapping[str, Any]) -> int | None:
        """Return the number of training graphs: from settings for generated data, else from records or the paper."""
        if made := generated_sizes(dataset):
            return made["train"]
        return self.sizes.get(json.dumps(dataset, sort_keys=True)) or training_graphs(dataset)


def duration(seconds: float) -> str:
    """Return a time as days and hours, hours and minutes, minutes, or seconds."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _kind(dataset: str, method: str, model: str) -> Kind:
    """Return the names under which paces are averaged: GNNs with and without a virtual node are about as fast."""
    return dataset, method, GNN if model == PLAIN_GNN else model
