"""The rows of a comparison: a method on a model, under a name a user can type.

The fourteen rows of the paper's main table have names of their own. Any other pair is a row, too, written
``METHOD on MODEL``; ``NAME:PRESET`` is a row under other settings of its method, and ``NAME alike`` one with what
GOODFormer has beside its method.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goodformer.config.presets import configure
from goodformer.config.run import RunConfig
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
ALIKE = " alike"
SHARED = ("model.inputs", "model.aggregation", "training.average", "training.average_decay")
"""What GOODFormer has by default that any row can have, too, whatever its method: a row ``NAME alike`` takes it."""
WHOLE = ("default", "paper", "as_published")
"""Presets that are the method itself; all others change something of it."""


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
        borrowed: Settings that are taken from GOODFormer's default, as ``model.inputs``, where its model has them.
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
        return self.name.partition(":")[0] if self.preset in WHOLE else self.name

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
        model = self.model_on(dataset["name"])
        lines = [*self._taken(dataset, model), *overrides]
        return configure(dataset, self.method, model, self.preset, budget, seed, lines)

    def _taken(self, dataset: Mapping[str, Any], model: str) -> Iterator[str]:
        """GOODFormer's values of what is borrowed, as overrides; what the model does not have is left out."""
        ours = configure(dataset).to_dict() if self.borrowed else {}
        for path in self.borrowed:
            part, _, setting = path.partition(".")
            if part != "model" or setting in MODELS.settings(model).model_fields:
                yield f"{path}={json.dumps(ours[part][setting])}"


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
    # GOODFormer reads cycle walks beside the node features; this row shows what they alone do for GraphGPS.
    Competitor("gps-inputs", "GraphGPS, GOODFormer's inputs", OTHER, "erm", "gps", borrowed=("model.inputs",)),
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
    """The row a user typed: a name or ``METHOD on MODEL``, `` alike`` and ``:PRESET`` behind it where wanted."""
    name, colon, preset = word.partition(":")
    plain = name.removesuffix(ALIKE)
    row = _pair(plain, dataset) if " on " in plain else _named(plain, dataset)
    if plain != name:
        row = replace(row, name=f"{row.name}{ALIKE}", title=f"{row.title}{ALIKE}", borrowed=SHARED)
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
