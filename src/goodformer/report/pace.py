"""How long runs will take, told from records of runs like them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from goodformer.config.run import RunConfig
from goodformer.data.benchmarks.motif import good_sizes
from goodformer.report.paper import training_graphs
from goodformer.report.rows import BASELINE, GNN, PLAIN_GNN
from goodformer.report.tables import Record

Kind = tuple[str, str, str]
"""Name of a data set, of a method and of a model."""


class Paces:
    """Processor seconds that methods need for a training graph and epoch, by records.

    Args:
        records: Records of finished runs.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        told: dict[Kind, list[float]] = {}
        self.sizes: dict[str, int] = {}
        for record in records:
            seconds = record.get("processor_seconds_per_epoch") or record.get("seconds_per_epoch")
            graphs, settings = record.get("train_graphs"), record.get("config", {})
            if seconds and graphs and settings:
                kind = _kind(*(settings[part]["name"] for part in ("dataset", "method", "model")))
                told.setdefault(kind, []).append(seconds / graphs)
                self.sizes[_text(settings["dataset"])] = graphs
        self.paces = {kind: statistics.fmean(values) for kind, values in told.items()}

    def seconds(self, config: RunConfig) -> float | None:
        """Processor seconds of training alone; None where nothing like it is recorded."""
        graphs = self.graphs(config.dataset)
        pace = self._pace(*(str(part["name"]) for part in (config.dataset, config.method, config.model)))
        return None if graphs is None or pace is None else pace * graphs * config.training.epochs

    def graphs(self, dataset: Mapping[str, Any]) -> int | None:
        """Training graphs of a data set: generated ones by their settings, others by records or by the paper."""
        if dataset["name"] == "good-motif":
            return good_sizes(dataset["shift"], dataset["graphs"])["train"]
        if dataset["name"] == "sp-motif":
            return int(dataset["graphs"])
        return self.sizes.get(_text(dataset)) or training_graphs(dataset)

    def _pace(self, dataset: str, method: str, model: str) -> float | None:
        """Seconds a graph and epoch; of other data, by the share they are of ERM's there and ERM's here."""
        kind, erm = _kind(dataset, method, model), _kind(dataset, BASELINE, GNN)
        if kind in self.paces or erm not in self.paces:
            return self.paces.get(kind)
        elsewhere = {one[0] for one in self.paces if one[1:] == kind[1:]}
        shares = [self.paces[place, *kind[1:]] / self.paces[there] for place in sorted(elsewhere)
                  if (there := (place, *erm[1:])) in self.paces]  # fmt: skip
        return self.paces[erm] * statistics.fmean(shares) if shares else None


def duration(seconds: float) -> str:
    """Days and hours, hours and minutes, minutes, or seconds."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _kind(dataset: str, method: str, model: str) -> Kind:
    """A GNN is one with or without a virtual node: a benchmark decides on it, and it costs little."""
    return dataset, method, GNN if model == PLAIN_GNN else model


def _text(dataset: Mapping[str, Any]) -> str:
    return json.dumps(dataset, sort_keys=True)
