"""The rows of a comparison: a method on a model, under a name a user can type.

Every registered method is a row under its own name, every registered model a row under ERM, and any pair is a row
written ``METHOD on MODEL``. ``NAME:PRESET`` is a row under another preset of its method. ``NAME alike`` is a row with
the inputs, aggregation and weight averaging of GOODFormer's default. The fourteen rows of the paper are listed in
``PAPER``: their titles, their groups and their order.

GOODFormer has three versions that tables keep apart: ours (the preset ``default``), the paper's (``paper``) and that of
the published code (``as_published``). The paper's own number for GOODFormer belongs to the second alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goodformer.config.presets import configure, default_model, root_preset
from goodformer.config.run import PARTS, RunConfig
from goodformer.errors import InputError, unknown
from goodformer.registry import OWN_MODULE

METHODS, MODELS = PARTS["method"], PARTS["model"]
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
PLAIN_ROWS = {"ciga": ("good-hiv", "good-sst2", "good-twitter", "drugood"), "imold": ("drugood",)}
"""Further benchmarks on which a method's published runs have no virtual node."""
ALIKE = " alike"
SHARED = ("model.inputs", "model.aggregation", "training.average", "training.average_decay")
"""Settings of GOODFormer's default that do not depend on the method; a row ``NAME alike`` takes them over."""
GOODFORMER = "goodformer"
VERSIONS = {
    "paper": "GOODFormer (paper)",
    "as_published": "GOODFormer (published code)",
    "default": "GOODFormer (ours)",
}
"""Titles of the presets that are GOODFormer itself; all others change a part of one of these."""
THEIRS = "paper"
"""The preset of GOODFormer that the paper's numbers are for."""


@dataclass(frozen=True)
class Row:
    """One row of a comparison: what is trained, and its name.

    Args:
        name: What a user types.
        title: What a table shows.
        group: The block of the table it belongs to.
        method: Name of a method.
        model: Name of a model; None stands for the GNN of the benchmark.
        preset: The method's preset.
        borrowed: Settings taken from GOODFormer's default, such as ``model.inputs``, if the model has them.
        overrides: Settings of this row alone, ``part.setting=value``.
    """

    name: str
    title: str
    group: str
    method: str
    model: str | None = None
    preset: str = "default"
    borrowed: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def published(self) -> str:
        """Return the name of the row in ``paper.yaml``; a row that the paper does not have is not there.

        The paper's number for GOODFormer is that of the preset ``paper``: neither ours nor the published code's.
        """
        plain, _, _ = self.name.partition(":")
        if plain == GOODFORMER:
            return plain if self.preset == THEIRS else f"{plain}:{self.preset}"
        return plain if self.preset in VERSIONS else self.name

    def model_on(self, dataset: str) -> str:
        """Return the model the row uses on a data set."""
        plain = dataset in (*WITHOUT_VIRTUAL_NODE, *PLAIN_ROWS.get(self.method, ()))
        return self.model or (PLAIN_GNN if plain else GNN)

    def configure(
        self, dataset: Mapping[str, Any], budget: str = "full", seed: int = 0, overrides: Sequence[str] = ()
    ) -> RunConfig:
        """Return the configuration of the row's run with a seed."""
        model = self.model_on(dataset["name"])
        ours = configure(dataset).to_dict() if self.borrowed else {}
        lines = []
        for path in self.borrowed:
            part, _, setting = path.partition(".")
            if part != "model" or setting in MODELS.settings(model):
                lines.append(f"{path}={json.dumps(ours[part][setting])}")
        return configure(dataset, self.method, model, self.preset, budget, seed, [*lines, *self.overrides, *overrides])


PAPER = (
    Row("erm", "ERM", GENERAL, "erm"),
    Row("irm", "IRM", GENERAL, "irm"),
    Row("vrex", "VREx", GENERAL, "vrex"),
    Row("dir", "DIR", GRAPH, "dir"),
    Row("grea", "GREA", GRAPH, "grea"),
    Row("gil", "GIL", GRAPH, "gil"),
    Row("gsat", "GSAT", GRAPH, "gsat"),
    Row("ciga", "CIGA", GRAPH, "ciga"),
    Row("imold", "iMoLD", GRAPH, "imold"),
    Row("cal-plus", "CAL+", GRAPH, "cal-plus"),
    Row("graphormer", "Graphormer", TRANSFORMER, "erm", "graphormer"),
    Row("gps", "GraphGPS", TRANSFORMER, "erm", "gps"),
    Row("exphormer", "Exphormer", TRANSFORMER, "erm", "exphormer"),
    Row(GOODFORMER, VERSIONS["default"], OURS, GOODFORMER, GOODFORMER),
)
"""The rows of the paper's main table, in its order."""

EXTRA = (
    # GOODFormer reads cycle walks beside the node features; this row shows what they alone do for GraphGPS.
    Row("gps-inputs", "GraphGPS, GOODFormer's inputs", OTHER, "erm", "gps", borrowed=("model.inputs",)),
)
"""Named rows that are not in the paper; they run only on request."""

BASELINE = PAPER[0].name
"""The row whose training time is the unit for all others."""


def rows(words: str, dataset: str) -> list[Row]:
    """Return the named rows, the paper's first and in its order; ``all`` stands for the rows of the paper.

    Args:
        words: Names separated by commas, such as ``erm,gsat,goodformer`` or ``all,erm on goodformer,goodformer:paper``.
        dataset: Name of the data set, which decides the GNN.
    """
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names:
        raise InputError(f"no row was named; give some of {', '.join(_known())}, or {ALL}.")
    chosen: dict[str, Row] = {}
    for name in names:
        chosen |= {one.name: one for one in (PAPER if name == ALL else [row(name, dataset)])}
    order, versions = [one.name for one in (*PAPER, *EXTRA)], list(VERSIONS)
    groups = (GENERAL, GRAPH, TRANSFORMER, OURS, OTHER)

    def place(one: Row) -> tuple[int, int, int]:
        plain = one.name.partition(":")[0]
        own = versions if plain == GOODFORMER else ["default"]
        version = own.index(one.preset) if one.preset in own else len(own)
        return groups.index(one.group), order.index(plain) if plain in order else len(order), version

    return sorted(chosen.values(), key=place)


def row(word: str, dataset: str) -> Row:
    """Return the row a user typed: a name or ``METHOD on MODEL``, then `` alike`` and ``:PRESET`` if wanted."""
    name, colon, preset = word.partition(":")
    plain = name.removesuffix(ALIKE)
    if " on " in plain:
        method, model = (" ".join(part.split()) for part in plain.split(" on ", 1))
        found = _pair(method, model, dataset)
    elif plain in _known():
        found = _known()[plain]
    elif plain in MODELS:
        found = _pair("erm", plain, dataset)
    else:
        raise InputError(f"{unknown('row', plain, [*_known(), *MODELS, ALL])} {OWN_MODULE}")
    if plain != name:
        found = replace(found, name=f"{found.name}{ALIKE}", title=f"{found.title}, same inputs", borrowed=SHARED)
    if not colon or preset == found.preset:
        return found
    title = version_title(preset) if found.name == GOODFORMER else f"{found.title} ({preset})"
    found = replace(found, name=f"{found.name}:{preset}", title=title, preset=preset)
    usual = found.model == default_model(found.method)
    return replace(found, model=default_model(found.method, preset)) if usual else found


def version_title(preset: str) -> str:
    """Return the title of GOODFormer under a preset: that of its version, and what the preset changes in it."""
    if preset in VERSIONS:
        return VERSIONS[preset]
    try:
        whole = VERSIONS[root_preset(GOODFORMER, preset)]
    except (InputError, KeyError):  # a preset that no longer exists, or one that is based on none of the versions
        return f"GOODFormer ({preset})"
    return f"{whole}, {preset.removeprefix('default-').replace('-', ' ')}"


def _known() -> dict[str, Row]:
    """Return the rows that have a name of their own: those listed above and every other registered method."""
    listed = {one.name: one for one in (*PAPER, *EXTRA)}
    models = {name: default_model(name) for name in METHODS if name not in listed}
    return listed | {
        name: Row(name, name, OTHER, name, None if model == PLAIN_GNN else model) for name, model in models.items()
    }


def _pair(method: str, model: str, dataset: str) -> Row:
    """Return the row of a method on a model; the one with a name of its own if that is the same pair."""
    METHODS.describe(method), MODELS.describe(model)  # unknown names get the suggestions of the registries
    for one in _known().values():
        if (one.method, one.model_on(dataset)) == (method, model) and not one.borrowed:
            return one
    title_of = {one.model or one.method: one.title for one in PAPER} | {GOODFORMER: "GOODFormer"}
    title = f"{title_of.get(method, method)} on {title_of.get(model, model)}"
    return Row(f"{method} on {model}", title, OTHER, method, model)
