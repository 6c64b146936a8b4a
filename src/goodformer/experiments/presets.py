"""From names to a full configuration: a method, its preset, a data set, a budget.

Settings live in ``settings/<method>.yaml``, the paper's figures beside them in ``settings/paper.yaml``;
``settings/budgets.yaml`` says what a budget cuts. A configuration is built in layers, later ones winning: what the
preset always sets, what it sets for the model, what it sets for the benchmark, the same of the budget, and the
overrides given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any

import yaml

from goodformer.data import DATASETS
from goodformer.engine.config import RunConfig
from goodformer.methods import METHODS
from goodformer.registry import unknown

Tree = dict[str, Any]


@cache
def read_settings(name: str) -> Tree:
    """What the settings file of a name holds."""
    text = resources.files("goodformer.experiments").joinpath("settings", f"{name}.yaml").read_text("utf-8")
    tree: Tree = yaml.safe_load(text)
    return tree


def presets(method: str) -> list[str]:
    """Names of the presets a method has."""
    return list(_settings(method)["presets"])


def budgets() -> list[str]:
    """Names of the budgets a run can be given."""
    return list(read_settings("budgets"))


def default_model(method: str) -> str:
    """The model a method runs on unless told otherwise."""
    name: str = _settings(method)["model"]
    return name


def configure(
    dataset: Mapping[str, Any],
    method: str = "goodformer",
    model: str | None = None,
    preset: str = "default",
    budget: str = "full",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> RunConfig:
    """The configuration of a run.

    Args:
        dataset: ``{"name": ..., **settings}``, for example ``{"name": "good-motif", "domain": "basis"}``.
        method: Name of a method.
        model: Name of a model; the method's usual one if not given.
        preset: Which of the method's presets to start from.
        budget: ``full``, or a smaller one that cuts graphs and epochs.
        seed: Of everything random in the run.
        overrides: ``part.setting=value``, for example ``training.epochs=5``.
    """
    name = model or default_model(method)
    tree: Tree = {"dataset": dict(dataset), "model": {"name": name}, "method": {"name": method}, "training": {}}
    for settings in (*_preset(method, preset), _pick("budget", budget, read_settings("budgets"))):
        for layer in _layers(settings, name, dataset):
            _merge(tree, layer, given=dataset)
    config = RunConfig(**tree, seed=seed, preset=preset, budget=budget)
    return config.with_overrides(overrides)


def benchmark_keys(dataset: Mapping[str, Any]) -> list[str]:
    """Keys a settings file may use for a data set, general to special: ``good-motif``, ``good-motif/basis``."""
    name = dataset["name"]
    domain = DATASETS.check(name, {key: value for key, value in dataset.items() if key != "name"}).get("domain")
    return [name, f"{name}/{domain}"] if domain else [name]


def _layers(settings: Tree, model: str, dataset: Mapping[str, Any]) -> list[Tree]:
    """What a preset or a budget sets always, for a model and for a benchmark, general to special."""
    special = [settings.get("benchmarks", {}).get(key) for key in benchmark_keys(dataset)]
    return [layer for layer in (settings.get("always"), settings.get("models", {}).get(model), *special) if layer]


def _preset(method: str, name: str) -> list[Tree]:
    """A preset's settings after those of the preset it changes, where it names one as its ``base``."""
    chosen = _pick("preset", name, _settings(method)["presets"])
    return [*(_preset(method, chosen["base"]) if "base" in chosen else []), chosen]


def _settings(method: str) -> Tree:
    METHODS[method]  # an unknown name gets the registry's suggestions
    return read_settings(method)


def _pick(kind: str, name: str, options: Mapping[str, Any]) -> Tree:
    if name not in options:
        raise unknown(kind, name, options)
    return dict(options[name] or {})


def _merge(tree: Tree, layer: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Write a layer over the tree in place; what the user gave of the data set is never overwritten."""
    for part, settings in layer.items():
        fresh = {k: deepcopy(v) for k, v in settings.items() if part != "dataset" or k not in given}
        tree[part].update(fresh)
