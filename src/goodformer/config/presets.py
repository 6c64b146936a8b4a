"""From names to a full configuration: a method, its preset, a data set, a budget.

Settings live in ``settings/<method>.yaml`` (a method without such a file has GIN and the defaults of everything), the
paper's figures beside them in ``settings/paper.yaml``; ``settings/budgets.yaml`` says what a budget cuts.

A configuration is built in layers, later ones winning: what the preset always sets, what it sets for the model, for the
benchmark and for that model on that benchmark (``benchmarks`` under the model), the same of the budget, and the
overrides given. Overrides that name a data set, a model, a method, a preset or a budget, or that set something of the
data set, decide which layers there are, so they are read first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any

import yaml

from goodformer.config.run import RunConfig, parse_assignment
from goodformer.data import DATASETS
from goodformer.methods import METHODS
from goodformer.registry import unknown

Tree = dict[str, Any]

PLAIN: Tree = {"model": "gin", "presets": {"default": {}}}
"""Settings of a method that has no file of its own."""


@cache
def read_settings(name: str) -> Tree:
    """What the settings file of a name holds."""
    text = resources.files("goodformer.config").joinpath("settings", f"{name}.yaml").read_text("utf-8")
    tree: Tree = yaml.safe_load(text)
    return tree


def presets(method: str) -> list[str]:
    """Names of the presets a method has."""
    return list(_settings(method)["presets"])


def budgets() -> list[str]:
    """Names of the budgets a run can be given."""
    return list(read_settings("budgets"))


def check_budget(name: str) -> None:
    """Refuse a name that is no budget's."""
    _budget(name)


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
    choice: Tree = {"dataset": dict(dataset), "method": method, "model": model, "preset": preset, "budget": budget}
    rest = _choose(choice, overrides)
    name = choice["model"] or default_model(choice["method"])
    tree: Tree = {"dataset": dict(choice["dataset"]), "model": {"name": name}, "method": {"name": choice["method"]}}
    tree["training"] = {}
    for settings in (*_preset(choice["method"], choice["preset"]), _budget(choice["budget"])):
        for layer in _layers(settings, name, choice["dataset"]):
            _merge(tree, layer, given=choice["dataset"])
    config = RunConfig(**tree, seed=seed, preset=choice["preset"], budget=choice["budget"])
    return config.with_overrides(rest)


def benchmark_keys(dataset: Mapping[str, Any]) -> list[str]:
    """Keys a settings file may use for a data set, general to special: ``good-motif``, ``good-motif/basis``."""
    name = dataset["name"]
    domain = DATASETS.check(name, {key: value for key, value in dataset.items() if key != "name"}).get("domain")
    return [name, f"{name}/{domain}"] if domain else [name]


def _choose(choice: Tree, overrides: Sequence[str]) -> list[str]:
    """Move overrides that decide the layers into the choice, in place; those that are left are returned.

    Another name leaves behind what was set before for the thing of the old name.
    """
    rest: list[str] = []
    for line in overrides:
        (part, *more), value = parse_assignment(line)
        if part == "dataset" and len(more) == 1 and more != ["name"]:
            choice["dataset"][more[0]] = value
        elif part in ("preset", "budget") and not more:
            choice[part] = str(value)
        elif part in ("dataset", "model", "method") and more in ([], ["name"]) and isinstance(value, str):
            rest = rest if value == _name(choice, part) else [one for one in rest if not one.startswith(f"{part}.")]
            _rename(choice, part, value)
        else:
            rest.append(line)
    return rest


def _name(choice: Tree, part: str) -> Any:
    """The name a part has so far."""
    if part == "dataset":
        return choice["dataset"].get("name")
    return choice[part] or default_model(choice["method"])


def _rename(choice: Tree, part: str, name: str) -> None:
    """Give a part of the choice a name; another data set has none of the settings of the old one."""
    if part != "dataset":
        choice[part] = name
    elif name != _name(choice, part):
        choice[part] = {"name": name}


def _layers(settings: Tree, model: str, dataset: Mapping[str, Any]) -> list[Tree]:
    """What a preset or a budget sets always, for a model, for a benchmark and for that model on that benchmark."""
    own = dict(settings.get("models", {}).get(model) or {})
    places = (settings.get("benchmarks", {}), own.pop("benchmarks", {}))
    special = [place.get(key) for place in places for key in benchmark_keys(dataset)]
    return [layer for layer in (settings.get("always"), own, *special) if layer]


def _preset(method: str, name: str) -> list[Tree]:
    """A preset's settings after those of the preset it changes, where it names one as its ``base``."""
    chosen = _pick("preset", name, _settings(method)["presets"])
    return [*(_preset(method, chosen["base"]) if "base" in chosen else []), chosen]


def _budget(name: str) -> Tree:
    return _pick("budget", name, read_settings("budgets"))


def _settings(method: str) -> Tree:
    METHODS[method]  # an unknown name gets the registry's suggestions
    try:
        return read_settings(method)
    except FileNotFoundError:
        return PLAIN


def _pick(kind: str, name: str, options: Mapping[str, Any]) -> Tree:
    if name not in options:
        raise unknown(kind, name, options)
    return dict(options[name] or {})


def _merge(tree: Tree, layer: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Write a layer over the tree in place; what the user gave of the data set is never overwritten."""
    for part, settings in layer.items():
        fresh = {k: deepcopy(v) for k, v in settings.items() if part != "dataset" or k not in given}
        tree[part].update(fresh)
