"""From a file, names and ``--set`` to the settings of a run; what is typed beats what the file says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodformer.registry import InputError, unknown

if TYPE_CHECKING:
    from goodformer.engine.config import RunConfig

PARTS = ("dataset", "method", "model")
KEYS = (*PARTS, "training", "seed", "preset", "budget")


def run_config(file: Path | None, typed: Mapping[str, Any], overrides: Sequence[str] | None) -> RunConfig:
    """The checked settings of a run.

    Args:
        file: YAML file with any of ``KEYS``; a run's own ``config.json`` is one, too.
        typed: The same keys as given on the command line, None where nothing was given.
        overrides: Lines ``a.b=value``, which come last.
    """
    from goodformer.experiments.presets import configure

    read = read_settings(file) if file else {}
    parts = {key: _merge(read.get(key), typed.get(key)) for key in PARTS}
    if "name" not in parts["dataset"]:
        raise InputError("no data set was named; write for example: goodformer train good-motif --domain basis.")
    plain = {**read, **{key: value for key, value in typed.items() if value is not None}}
    chosen: dict[str, Any] = {key: plain[key] for key in ("preset", "budget", "seed") if key in plain}
    lines = [*_lines("method", parts["method"]), *_lines("model", parts["model"])]
    lines += _lines("training", {**_mapping(read.get("training"), "training"), **(typed.get("training") or {})})
    chosen |= {key: parts[key]["name"] for key in ("method", "model") if "name" in parts[key]}
    return configure(parts["dataset"], **chosen, overrides=[*lines, *(overrides or [])])


def read_settings(file: Path) -> dict[str, Any]:
    """The settings a YAML file holds, its keys checked."""
    from goodformer.engine.config import read_yaml

    read = read_yaml(file)
    for key in read:
        if key not in KEYS:
            raise unknown(f"key in {file}", str(key), KEYS)
    return read


def dataset_settings(overrides: Sequence[str] | None) -> dict[str, Any]:
    """Settings of a data set from lines ``key=value``."""
    from goodformer.engine.config import parse_assignment

    return {".".join(path).removeprefix("dataset."): value for path, value in map(parse_assignment, overrides or [])}


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The value, if it is a mapping or nothing."""
    if not isinstance(value, Mapping | None):
        raise InputError(f"{where} holds {value!r}; it must hold key: value lines.")
    return value or {}


def _merge(read: Any, typed: Mapping[str, Any] | None) -> dict[str, Any]:
    """One part of the settings; another name on the command line leaves the file's settings of the old one behind."""
    part = {"name": read} if isinstance(read, str) else dict(_mapping(read, "a part of the settings file"))
    given = {key: value for key, value in (typed or {}).items() if value is not None}
    if part.get("name", given.get("name")) != given.get("name", part.get("name")):
        part = {}
    return {**part, **given}


def _lines(prefix: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Settings as ``prefix.key=value`` lines; the name is not a setting."""
    for key, value in settings.items():
        if key != "name":
            yield f"{prefix}.{key}={json.dumps(value)}"
