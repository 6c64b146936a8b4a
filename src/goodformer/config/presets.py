"""From names to a full configuration: a method, its preset, a data set, a budget.

Settings lie in ``settings/<method>.yaml``; ``settings/budgets.yaml`` says what a budget cuts. A method registered from
outside the package passes its own to ``METHODS.add``. A method without settings runs on GIN with all defaults.

A configuration is built in layers, and later layers win: what the preset always sets, what it sets for the model, for
the benchmark and for that model on that benchmark (``benchmarks`` under the model), then the same layers of the budget,
then the overrides. An override that names a data set, a model, a method, a preset or a budget, or that sets something
of the data set, decides which layers there are, so it is read first. ``steps`` under ``fit`` is the number of training
steps on a user's own data.

A blend has the presets of ``settings/blend.yaml`` and those of its first member's method, whose default model it has,
too. Settings of that method are given like those of the method itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from goodformer.config.history import at_once
from goodformer.config.members import SEEDS, alike_configs, blend_of, check_seeds, is_blend, split_overrides
from goodformer.config.run import RunConfig, assign, parse_assignment, read_yaml
from goodformer.data import DATASETS
from goodformer.errors import InputError, check_name
from goodformer.methods import METHODS
from goodformer.methods.members import BLEND, split_member

Tree = dict[str, Any]

PLAIN: Tree = {"model": "gin", "presets": {"default": {}}}
"""Settings of a method that has no file of its own."""
LENGTH = ("selection", "epochs", "patience", "perfect_patience")
"""Settings of training that networks have from the blend of which they are members."""


def presets(method: str) -> list[str]:
    """Return the names of a method's presets."""
    return list(_settings(method)["presets"])


def budgets() -> list[str]:
    """Return the names of the budgets."""
    return list(read_settings("budgets"))


def check_budget(name: str) -> None:
    """Raise an error if there is no budget of that name."""
    check_name("budget", name, read_settings("budgets"))


def default_model(method: str, preset: str = "default") -> str:
    """Return the model that a method runs on unless another one is given; that of a blend depends on its preset."""
    name: str = _settings(_blended(preset)[0] if method == BLEND else method)["model"]
    return name


def root_preset(method: str, name: str) -> str:
    """Return the preset that a preset changes, directly or through others; itself if it changes none."""
    check_name("preset", name, _settings(method)["presets"])
    base = (_settings(method)["presets"][name] or {}).get("base")
    return name if base is None else root_preset(method, base)


def configure(
    dataset: Mapping[str, Any],
    method: str = "goodformer",
    model: str | None = None,
    preset: str = "default",
    budget: str = "full",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> RunConfig:
    """Return the configuration of a run.

    Args:
        dataset: ``{"name": ..., **settings}``, for example ``{"name": "good-motif", "domain": "basis"}``.
        method: Name of a method.
        model: Name of a model; the method's default model if not given.
        preset: Name of one of the method's presets.
        budget: ``full``, or a smaller one that cuts graphs and epochs.
        seed: Seed of everything random in the run.
        overrides: Lines ``part.setting=value``, for example ``training.epochs=5``.
    """
    choice: Tree = {"dataset": dict(dataset), "method": method, "model": model, "preset": preset, "budget": budget}
    rest = _choose(choice, overrides)
    given, method = choice["dataset"], choice["method"]
    if method == BLEND:
        own, rest = split_overrides(rest)
        lines = [f"method.{line}" for line in own.pop("settings", ())]
        of, own_preset, settings = _blended(choice["preset"], own.pop("of", None))
        first = configure(given, of, choice["model"], own_preset, choice["budget"], seed, [*lines, *rest])
        made = blend_of(first, preset=choice["preset"], **{**settings, **own})
        check_seeds(made)
        return _with_length(made, rest)
    name = choice["model"] or default_model(method)
    tree: Tree = {"dataset": dict(given), "model": {"name": name}, "method": {"name": method}, "training": {}}
    tree |= {"seed": seed, "preset": choice["preset"], "budget": choice["budget"]}
    keys = benchmark_keys(given)
    check_budget(choice["budget"])
    limits = read_settings("budgets")[choice["budget"]] or {}
    for settings in (*_preset(method, choice["preset"]), limits):
        own = dict(settings.get("models", {}).get(name) or {})
        places = (settings.get("benchmarks", {}), own.pop("benchmarks", {}))
        for layer in (settings.get("always"), own, *(place.get(key) for place in places for key in keys)):
            for part, values in (layer or {}).items():  # what the user says about the data set always wins
                more = {k: v for k, v in values.items() if part != "dataset" or k not in given}
                if settings is limits and "epochs" in more:  # a budget never lengthens a run
                    more["epochs"] = min(more["epochs"], tree["training"].get("epochs", more["epochs"]))
                tree[part] |= more
    for line in rest:
        assign(tree, line)
    return RunConfig(**tree)


def fit_steps(config: RunConfig) -> int | None:
    """Return how many training steps `fit` gives the preset of a run; None for the usual number."""
    layers = _preset(config.method["name"], config.preset)
    return {name: value for settings in layers for name, value in settings.get("fit", {}).items()}.get("steps")


def member_configs(config: RunConfig) -> list[RunConfig]:
    """Return the runs of all members of a blend; none if the run is not a blend."""
    if not is_blend(config):
        return []
    _, own_preset, _ = _blended(config.preset, config.method["of"])
    found = alike_configs(config, own_preset)
    for member in config.method["others"]:
        seed = SEEDS * config.seed + len(found)
        shared = LENGTH[:1] if at_once(split_member(member)[0]) else LENGTH  # networks learn as long as the blend says
        lines = [f"training.{name}={json.dumps(getattr(config.training, name))}" for name in shared]
        found.append(_further(config, member, seed, lines))
    return found


def _further(config: RunConfig, member: str, seed: int, lines: Sequence[str]) -> RunConfig:
    """Return the run of a further member of a blend.

    Without a preset it has the one with the name of the blend's preset, if its method has such a preset.
    """
    method, model, preset = split_member(member)
    preset = preset or (config.preset if config.preset in presets(method) else "default")
    if at_once(method) and model not in (None, default_model(method)):
        raise InputError(f"member {member!r}: {method} has no other model than {default_model(method)}; name it alone.")
    return configure(config.dataset, method, model, preset, config.budget, seed, lines)


def _with_length(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return a blend that trains as long as its first network if its first member is fitted at once."""
    networks = [member for member in config.method["others"] if not at_once(split_member(member)[0])]
    if not at_once(config.method["of"]) or not networks:
        return config
    own = _further(config, networks[0], config.seed, ()).training
    given = {".".join(parse_assignment(line)[0]) for line in overrides}
    names = [name for name in LENGTH[1:] if f"training.{name}" not in given]
    return config.with_overrides([f"training.{name}={json.dumps(getattr(own, name))}" for name in names])


def networks_of(config: RunConfig) -> list[RunConfig]:
    """Return what is trained by gradients: the run itself, or members of a blend; none if all is fitted at once."""
    return [one for one in member_configs(config) or [config] if not at_once(one.method["name"])]


def ignored_epochs(config: RunConfig, assignments: Iterable[str]) -> str:
    """Return a sentence if assignments, such as ``training.epochs=5``, name epochs for a run that has none."""
    names = {line.partition("=")[0].strip() for line in assignments}
    if "training.epochs" not in names or networks_of(config):
        return ""
    return f"the number of epochs is ignored: {config.method['name']} is fitted at once."


def member_name(member: Mapping[str, Any]) -> str:
    """Return the name of a member in the record of its blend: method, model and preset, as in a comparison."""
    method, model, preset = (str(member.get(name) or "") for name in ("method", "model", "preset"))
    row = method if model in ("", default_model(method)) else f"{method} on {model}"
    return row if preset in ("", "default") else f"{row}:{preset}"


def member_table(members: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> tuple[list[str], list[list[Any]]]:
    """Return the heads and rows of a table of members: their weights and metrics on the splits of those names."""
    entries = {"id_val": "id_val", "val": "ood_val", "id_test": "id_test", "test": "ood_test"}
    rows = [
        [
            member_name(one),
            one["seed"],
            one["weight"],
            one["temperature"],
            *(one.get(entry) for entry in entries.values()),
        ]
        for one in members
    ]
    return ["member", "seed", "weight", "temperature", *(names[split] for split in entries)], rows


def benchmark_keys(dataset: Mapping[str, Any]) -> list[str]:
    """Return the keys of a data set in a settings file, general to special: ``good-motif``, ``good-motif/basis``."""
    name = dataset["name"]
    domain = DATASETS.check(name, {key: value for key, value in dataset.items() if key != "name"}).get("domain")
    return [name, f"{name}/{domain}"] if domain else [name]


def _choose(choice: Tree, overrides: Sequence[str]) -> list[str]:
    """Move the overrides that decide the layers into the choice, in place, and return the others.

    A new name drops what was set before for the part under its old name.
    """
    rest: list[str] = []
    for line in overrides:
        (part, *more), value = parse_assignment(line)
        if part == "dataset" and len(more) == 1 and more != ["name"]:
            choice["dataset"][more[0]] = value
        elif part in ("preset", "budget") and not more:
            choice[part] = str(value)
        elif part in ("dataset", "model", "method") and more in ([], ["name"]) and isinstance(value, str):
            of_dataset = part == "dataset"
            named = choice[part].get("name") if of_dataset else choice[part] or default_model(choice["method"])
            if value != named:
                rest = [one for one in rest if not one.startswith(f"{part}.")]
            if value != named or not of_dataset:
                choice[part] = {"name": value} if of_dataset else value
        else:
            rest.append(line)
    return rest


def _preset(method: str, name: str) -> list[Tree]:
    """Return the settings of a preset after those of the preset it names as its ``base``, if any."""
    known = _settings(method)["presets"]
    check_name("preset", name, known)
    chosen: Tree = dict(known[name] or {})
    return [*(_preset(method, chosen["base"]) if "base" in chosen else []), chosen]


def _settings(method: str) -> Tree:
    """Return the default model and the presets of a method; those registered with it are checked."""
    METHODS.require(method)
    if method == BLEND:
        first = _settings(_blended()[0])
        return {**first, "presets": {**first["presets"], **read_settings(BLEND)["presets"]}}
    if method not in METHODS.presets:
        try:
            return read_settings(method)
        except FileNotFoundError:
            return PLAIN
    given = METHODS.presets[method]
    read = read_yaml(given) if isinstance(given, Path) else dict(given)
    for key in read:
        check_name(f"key in the presets of method {method}", str(key), PLAIN)
    settings = {**PLAIN, **read}
    if not isinstance(settings["presets"], Mapping) or "default" not in settings["presets"]:
        raise InputError(f"method {method} has no preset 'default'; add one, which may be empty.")
    return settings


def _blended(preset: str = "default", of: str | None = None) -> tuple[str, str, Tree]:
    """Return method and preset of a blend's first member, and the settings of the blend, under a preset of the blend.

    Args:
        preset: Preset of the blend.
        of: Method of the first member if it is given; a preset of blends with another one is a preset of that method.
    """
    settings = dict(read_settings(BLEND)["presets"].get(preset, {}))
    method, _, own = str(settings.pop("of", "")).partition(":")
    if method and of in (None, method):
        return method, own or "default", settings
    if method and of is not None and preset not in _settings(of)["presets"]:
        raise InputError(f"blends of preset {preset!r} are of {method}, not of {of}; choose another preset.")
    return of or METHODS.settings(BLEND)["of"].default, preset, {}


@cache
def read_settings(name: str) -> Tree:
    """Read a settings file of this package."""
    text = resources.files("goodformer.config").joinpath("settings", f"{name}.yaml").read_text("utf-8")
    tree: Tree = yaml.safe_load(text)
    return tree
