"""The configuration of a run from a settings file and command-line options; options win over the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.config.presets import configure
from goodformer.config.run import PARTS, RunConfig, read_yaml
from goodformer.errors import InputError, check_name


def configure_from(
    file: Path | None = None, typed: Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
) -> RunConfig:
    """Return the configuration of a run from a file, options and overrides; later ones win.

    Args:
        file: YAML file with any fields of `RunConfig`; the ``config.json`` of a run is such a file.
        typed: Options under the same keys, None where nothing was given.
        overrides: Lines ``part.setting=value``.
    """
    typed = typed or {}
    read = read_yaml(file) if file else {}
    for key in read:
        check_name(f"key in {file}", str(key), RunConfig.model_fields)
    parts = {key: _merge(read.get(key), typed.get(key)) for key in PARTS}
    if "name" not in parts["dataset"]:
        raise InputError("no data set was named; write for example: goodformer train good-motif --domain basis.")
    training = read.get("training") or {}
    if not isinstance(training, Mapping):
        raise InputError(f"training is {training!r}; write it as key: value lines.")
    settings = {
        "method": parts["method"],
        "model": parts["model"],
        "training": {**training, **(typed.get("training") or {})},
    }
    lines = [
        f"{part}.{key}={json.dumps(value)}"
        for part, some in settings.items()
        for key, value in some.items()
        if key != "name"
    ]
    plain = {**read, **{key: value for key, value in typed.items() if value is not None}}
    chosen: dict[str, Any] = {key: str(plain[key]) for key in ("preset", "budget") if key in plain}
    chosen |= {"seed": plain["seed"]} if "seed" in plain else {}
    chosen |= {key: parts[key]["name"] for key in ("method", "model") if "name" in parts[key]}
    return configure(parts["dataset"], **chosen, overrides=[*lines, *overrides])


def _merge(read: Any, typed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge one part of the file with its options; a different name in the options drops the file's settings."""
    part = {"name": read} if isinstance(read, str) else read or {}
    if not isinstance(part, Mapping):
        raise InputError(f"a part of the settings file is {part!r}; write it as key: value lines.")
    if not isinstance(part.get("name", ""), str):
        raise InputError(f"a part of the settings file has the name {part['name']!r}; give text.")
    given = {key: value for key, value in (typed or {}).items() if value is not None}
    renamed = "name" in part and "name" in given and part["name"] != given["name"]
    return given if renamed else {**part, **given}
