"""Blends as configurations: one run stands for the runs of all its members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goodformer.config.run import RunConfig, parse_assignment
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.members import BLEND, read_settings, write_settings

SEEDS = 100
"""Seeds of one blend: member k of a blend with seed s has the seed 100 s + k, so no two seeds share one."""

MOLECULES, MEASURED = "molecules", "measured"
"""Presets for molecules and for measured values, of GOODFormer and of blends that contain it."""
FAST, FAST_MEASURED = "fast", "fast-measured"
"""Presets of blends without networks for classes and for measured values."""
MANY_CLASSES, MANY_VALUES = 2000, 500
"""Training rows from which networks join the blend for classes and for measured values (docs/tried.md)."""


def gains_from_networks(measured: bool, rows: int) -> bool:
    """Return whether networks are part of the default blend for molecules.

    Args:
        measured: Whether values are predicted instead of classes.
        rows: Training rows.
    """
    return rows >= (MANY_VALUES if measured else MANY_CLASSES)


def blend_preset(measured: bool, networks: bool) -> str:
    """Return the preset of the blend for molecules, with networks or without."""
    if measured:
        return MEASURED if networks else FAST_MEASURED
    return MOLECULES if networks else FAST


def blend_of(config: RunConfig, preset: str | None = None, **settings: Any) -> RunConfig:
    """Return the blend whose members are runs like the given one.

    Args:
        config: Dataset, model, method and training of the members.
        preset: Preset of the blend; by default that of the members.
        **settings: Settings of the blend, for example ``members=5``.
    """
    method = {key: value for key, value in config.method.items() if key != "name"}
    blend = {"name": BLEND, "of": config.method["name"], "settings": write_settings(method), **settings}
    return RunConfig(**{**_fields(config), "method": blend, "preset": preset or config.preset})


def with_members(method: str, members: int, overrides: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return method and overrides of a blend with so many members, of the given method or as the given blend says."""
    if method == BLEND:
        return BLEND, [*overrides, f"method.members={members}"]
    if members == 1:
        return method, list(overrides)
    return BLEND, [f"method.of={method}", "method.others=[]", *overrides, f"method.members={members}"]


def check_seeds(config: RunConfig) -> None:
    """Raise an error if a blend has several members that differ in their seed only, of a method that ignores it."""
    of = config.method["of"]
    if config.method["members"] > 1 and "seedless" in METHODS.describe(of).flags:
        raise InputError(f"{of} gives almost the same model for every seed; leave out members, or name another method.")


def is_blend(config: RunConfig) -> bool:
    """Return whether a run has members."""
    return bool(config.method["name"] == BLEND)


def alike_configs(config: RunConfig, preset: str) -> list[RunConfig]:
    """Return the runs of those members of a blend that differ in their seed only; their label is ``preset``."""
    blend = config.method
    method = {"name": blend["of"], **read_settings(blend["settings"])}
    alike = RunConfig(**{**_fields(config), "method": method, "preset": preset})
    return [alike.with_seed(SEEDS * config.seed + number) for number in range(blend["members"])]


def split_overrides(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of the blend itself among some overrides, and the overrides that are left for its members."""
    own, rest = {}, []
    for line in overrides:
        path, value = parse_assignment(line)
        if path[0] == "method" and path[1:] and path[1] in METHODS.settings(BLEND):
            own[path[1]] = value
        else:
            rest.append(line)
    return own, rest


def _fields(config: RunConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in RunConfig.model_fields}
