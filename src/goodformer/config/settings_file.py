"""The configuration of a run from a settings file and what was typed, which beats what the file says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.config.presets import configure
from goodformer.config.run import RunConfig, read_yaml
from goodformer.registry import InputError, unknown

PARTS = ("dataset", "method", "model")
KEYS = (*PARTS, "training", "seed", "preset", "budget")


def configure_from(
    file: Path | None = None, typed: Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
) -> RunConfig:
    """The configuration of a run from a file, what was typed, and overrides, later ones winning.

    Args:
        file: YAML file with any of ``KEYS``; a run's own ``config.json`` is one, too.
        typed: The same keys, None where nothing was given.
        overrides: ``part.setting=value``, which come last.
    """
    typed = typed or {}
    read = _read(file) if file else {}
    parts = {key: _merge(read.get(key), typed.get(key)) for key in PARTS}
    if "name" not in parts["dataset"]:
        raise InputError("no data set was named; write for example: goodformer train good-motif --domain basis.")
    plain = {**read, **{key: value for key, value in typed.items() if value is not None}}
    chosen: dict[str, Any] = {key: str(plain[key]) for key in ("preset", "budget") if key in plain}
    chosen |= {"seed": plain["seed"]} if "seed" in plain else {}
    lines = [*_lines("method", parts["method"]), *_lines("model", parts["model"])]
    lines += _lines("training", {**_mapping(read.get("training"), "training"), **(typed.get("training") or {})})
    chosen |= {key: parts[key]["name"] for key in ("method", "model") if "name" in parts[key]}
    return configure(parts["dataset"], **chosen, overrides=[*lines, *overrides])


def _read(file: Path) -> dict[str, Any]:
    """The settings a YAML file holds, its keys checked."""
    read = read_yaml(file)
    for key in read:
        if key not in KEYS:
            raise unknown(f"key in {file}", str(key), KEYS)
    return read


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The value, if it is a mapping or nothing."""
    if not isinstance(value, Mapping | None):
        raise InputError(f"{where} holds {value!r}; it must hold key: value lines.")
    return value or {}


def _merge(read: Any, typed: Mapping[str, Any] | None) -> dict[str, Any]:
    """One part of the settings; another name on the command line leaves the file's settings of the old one behind."""
    part = {"name": read} if isinstance(read, str) else dict(_mapping(read, "a part of the settings file"))
    given = {key: value for key, value in (typed or {}).items() if value is not None}
    if not isinstance(part.get("name", ""), str):
        raise InputError(f"a part of the settings file is named {part['name']!r}; give a word.")
    if part.get("name", given.get("name")) != given.get("name", part.get("name")):
        part = {}
    return {**part, **given}


def _lines(prefix: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Settings as ``prefix.key=value`` lines; the name is not a setting."""
    for key, value in settings.items():
        if key != "name":
            yield f"{prefix}.{key}={json.dumps(value)}"
