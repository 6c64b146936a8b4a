"""The rows of a comparison: a method on a model, under a name a user can type.

The fourteen rows of the paper's main table have names of their own. Any other pair is a row, too, written
``METHOD on MODEL``, and ``NAME:PRESET`` is a row under other settings of its method.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goodformer.engine.config import RunConfig
from goodformer.experiments.presets import configure
from goodformer.methods import METHODS
from goodformer.models import MODELS
from goodformer.registry import InputError, unknown

ALL = "all"
GENERAL, GRAPH, TRANSFORMER, OURS, OTHER = (
    "general invariant learning",
    "invariant learning on graphs",
    "graph transformers",
    "GOODFormer",
    "other pairs",
)
PLAIN_GNN, GNN = "gin", "gin-vn"
WITHOUT_VIRTUAL_NODE = ("good-motif", "sp-motif")
"""Benchmarks whose GNNs have no virtual node, as in the GOOD benchmark."""


@dataclass(frozen=True)
class Competitor:
    """One row: what is trained, and how it is called.

    Args:
        name: What a user types.
        title: What a table shows.
        group: The part of the table it belongs to.
        method: Name of a method.
        model: Name of a model; None stands for the GNN of the benchmark.
        preset: Which of the method's presets it is trained under.
        borrowed: Settings of the model that are taken from GOODFormer's model.
    """

    name: str
    title: str
    group: str
    method: str
    model: str | None = None
    preset: str = "default"
    borrowed: tuple[str, ...] = ()

    @property
    def published(self) -> str:
        """The name of the row in the paper's tables, if it is there at all."""
        return self.name.partition(":")[0]

    def model_on(self, dataset: str) -> str:
        """The model it has on a data set."""
        return self.model or (PLAIN_GNN if dataset in WITHOUT_VIRTUAL_NODE else GNN)

    def available(self, dataset: str) -> bool:
        """Whether its method and its model are there."""
        return self.method in METHODS.entries and self.model_on(dataset) in MODELS.entries

    def configure(
        self, dataset: Mapping[str, Any], budget: str = "full", seed: int = 0, overrides: Sequence[str] = ()
    ) -> RunConfig:
        """The configuration of its run with a seed."""
        ours = configure(dataset).model if self.borrowed else {}
        taken = [f"model.{setting}={json.dumps(ours[setting])}" for setting in self.borrowed]
        model = self.model_on(dataset["name"])
        return configure(dataset, self.method, model, self.preset, budget, seed, [*taken, *overrides])


PAPER = (
    Competitor("erm", "ERM", GENERAL, "erm"),
    Competitor("irm", "IRM", GENERAL, "irm"),
    Competitor("vrex", "VREx", GENERAL, "vrex"),
    Competitor("dir", "DIR", GRAPH, "dir"),
    Competitor("grea", "GREA", GRAPH, "grea"),
    Competitor("gil", "GIL", GRAPH, "gil"),
    Competitor("gsat", "GSAT", GRAPH, "gsat"),
    Competitor("ciga", "CIGA", GRAPH, "ciga"),
    Competitor("imold", "iMoLD", GRAPH, "imold"),
    Competitor("cal-plus", "CAL+", GRAPH, "cal-plus"),
    Competitor("graphormer", "Graphormer", TRANSFORMER, "erm", "graphormer"),
    Competitor("gps", "GraphGPS", TRANSFORMER, "erm", "gps"),
    Competitor("exphormer", "Exphormer", TRANSFORMER, "erm", "exphormer"),
    Competitor("goodformer", "GOODFormer", OURS, "goodformer", "goodformer"),
)
"""The rows of the paper's main table, in its order."""

EXTRA = (
    # GOODFormer reads closed walks beside the node features; this row shows what they alone do for GraphGPS.
    Competitor("gps-inputs", "GraphGPS, GOODFormer's inputs", OTHER, "erm", "gps", borrowed=("inputs",)),
)
"""Rows that are not in the paper, run only where they are named."""

BASELINE = PAPER[0].name
"""The row whose training time is the unit of all others."""


def competitors(words: str, dataset: str) -> list[Competitor]:
    """The rows named, separated by commas; ``all`` stands for those of the paper.

    Rows whose method or model does not exist are left out of ``all``.

    Args:
        words: For example ``all``, ``erm,gsat,goodformer`` or ``all,erm on goodformer,goodformer:paper``.
        dataset: Name of the data set, which decides the GNN.
    """
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names:
        raise InputError(f"no row was named; give some of {', '.join(_names(dataset))}, or {ALL}.")
    rows: dict[str, Competitor] = {}
    for name in names:
        chosen = [row for row in PAPER if row.available(dataset)] if name == ALL else [competitor(name, dataset)]
        rows |= {row.name: row for row in chosen}
    return sorted(rows.values(), key=_place)


def competitor(word: str, dataset: str) -> Competitor:
    """The row a user typed: a name, ``METHOD on MODEL``, either with ``:PRESET`` behind it."""
    name, colon, preset = word.partition(":")
    row = _pair(name, dataset) if " on " in name else _named(name, dataset)
    if not colon or preset == row.preset:
        return row
    return replace(row, name=f"{row.name}:{preset}", title=f"{row.title} ({preset})", preset=preset)


def _named(name: str, dataset: str) -> Competitor:
    found = [row for row in (*PAPER, *EXTRA) if row.name == name and row.available(dataset)]
    if not found:
        raise unknown("row", name, [*_names(dataset), ALL])
    return found[0]


def _pair(name: str, dataset: str) -> Competitor:
    """A row for any method on any model; the paper's row where it has that pair."""
    method, model = (" ".join(part.split()) for part in name.split(" on ", 1))
    METHODS[method], MODELS[model]  # unknown names get the registries' suggestions
    for row in PAPER:
        if (row.method, row.model_on(dataset)) == (method, model):
            return row
    return Competitor(f"{method} on {model}", f"{_title(method, None)} on {_title('erm', model)}", OTHER, method, model)


def _title(method: str, model: str | None) -> str:
    """How tables call a method (on a GNN), or a model (under ERM); GOODFormer is both."""
    wanted = model or method
    return next((row.title for row in PAPER if (row.model or row.method) == wanted), wanted)


def _names(dataset: str) -> list[str]:
    return [row.name for row in (*PAPER, *EXTRA) if row.available(dataset)]


def _place(row: Competitor) -> tuple[int, int]:
    """Groups in the paper's order, and rows in it; rows the paper does not have come last in theirs, as typed."""
    order = [one.name for one in (*PAPER, *EXTRA)]
    groups = (GENERAL, GRAPH, TRANSFORMER, OURS, OTHER)
    return groups.index(row.group), order.index(row.published) if row.published in order else len(order)
