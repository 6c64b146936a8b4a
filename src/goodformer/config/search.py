"""What a search varies: the ranges of ``settings/search.yaml``, and the file that holds the settings it found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from goodformer import files
from goodformer.config.presets import read_settings
from goodformer.config.run import PARTS, RunConfig, read_yaml
from goodformer.errors import InputError, check_name
from goodformer.methods.members import BLEND

ANY = "any"
"""Entry of ``search.yaml`` for models without one of their own."""
KEYS = ("method", "model", "training", "preset")
"""Entries of a preset file."""
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Range:
    """Values that a search may give to one setting.

    Attributes:
        choices: The values, if they are listed.
        low: The smallest value otherwise.
        high: The largest value.
        log: Whether values are drawn on a logarithmic scale.
    """

    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether the values are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def holds(self, value: Any) -> bool:
        """Return whether a value is in the range."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high


def search_space(config: RunConfig) -> dict[str, Range]:
    """Return the range of each setting that a search varies, by names such as ``training.learning_rate``.

    A setting whose value lies outside its range is left alone, so that a search can begin with the preset itself.
    """
    method, model = config.method["name"], config.model["name"]
    if method == BLEND:
        raise InputError("a blend cannot be tuned; tune the method of its members, then fit with --members.")
    tree = read_settings("search")
    ranges = {**tree["models"].get(model, tree["models"][ANY]), **tree["methods"].get(method, {})}
    known = {
        name: Range(**{**one, "choices": tuple(one.get("choices", ()))})
        for name, one in ranges.items()
        if name.partition(".")[0] == "training" or name.partition(".")[2] in setting_names(config, name)
    }
    return {name: one for name, one in known.items() if one.holds(value_of(config, name))}


def setting_names(config: RunConfig, name: str) -> Mapping[str, Any]:
    """Return the settings of the part that a name such as ``model.dim`` belongs to."""
    return PARTS[part].settings(getattr(config, part)["name"]) if (part := name.partition(".")[0]) in PARTS else {}


def value_of(config: RunConfig, name: str) -> Any:
    """Return the value of a setting named ``part.setting``."""
    part, _, setting = name.partition(".")
    return config.to_dict()[part].get(setting)


def lines_of(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as overrides ``part.setting=value``."""
    return [f"{name}={json.dumps(value)}" for name, value in settings.items()]


def write_preset(path: Path, config: RunConfig, settings: Mapping[str, Any], about: str) -> None:
    """Write settings as a file that `read_preset` reads: method, model, preset, and what differs from the preset."""
    tree: dict[str, Any] = {part: {"name": getattr(config, part)["name"]} for part in ("method", "model")}
    tree |= {"training": {}, "preset": config.preset}
    for name, value in settings.items():
        part, _, setting = name.partition(".")
        tree[part][setting] = value
    files.write_text(path, f"# {about}\n{yaml.safe_dump(tree, sort_keys=False)}")


def is_preset_file(preset: str | Path) -> bool:
    """Return whether a preset is given by a file instead of a name."""
    return isinstance(preset, Path) or str(preset).endswith(SUFFIXES)


def read_preset(path: str | Path) -> tuple[str, str | None, str, list[str]]:
    """Return method, model, preset and overrides of a preset file, which is YAML like the file of ``train --config``.

    Args:
        path: The file: ``method`` and optionally ``model``, ``training`` and ``preset``.
    """
    tree = read_yaml(path)
    for key in tree:
        check_name(f"key in {path}", str(key), KEYS)
    parts = {key: {"name": tree.get(key)} if isinstance(tree.get(key), str) else tree.get(key) for key in KEYS[:2]}
    parts["training"] = tree.get("training")
    for key, part in parts.items():
        if not isinstance(part or {}, Mapping):
            raise InputError(f"{key} in {path} is {part!r}; write it as key: value lines.")
    method = (parts["method"] or {}).get("name")
    if not isinstance(method, str):
        raise InputError(f"{path} names no method; write for example 'method: {{name: erm}}'.")
    settings = {f"{key}.{name}": value for key, part in parts.items() for name, value in (part or {}).items()}
    lines = lines_of({name: value for name, value in settings.items() if not name.endswith(".name")})
    return method, (parts["model"] or {}).get("name"), str(tree.get("preset", "default")), lines
