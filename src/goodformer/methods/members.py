"""The members of a blend as plain settings; imports no torch, so that configurations are checked quickly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.models import MODELS

BLEND = "blend"
"""The name of the method that combines members."""


def check_method(name: str, known: Mapping[str, Any]) -> str:
    """Return the name of the members' method; raise if it cannot have members."""
    METHODS.require(name)
    if name == BLEND:
        raise InputError("a blend cannot have blends as members; name another method.")
    return name


def check_members(names: Iterable[str], known: Mapping[str, Any]) -> list[str]:
    """Return further members, each once: ``method``, ``method:preset`` or ``method on model``, with a preset or not."""
    once = list(dict.fromkeys(" ".join(name.split()) for name in names))
    for name in once:
        method, model, _ = split_member(name)
        check_method(method, known)
        if model is not None:
            MODELS.require(model)
    return once


def split_member(name: str) -> tuple[str, str | None, str]:
    """Return method, model and preset of a member; the last is empty, and the model None, if they are left open."""
    row, _, preset = name.partition(":")
    method, _, model = row.partition(" on ")
    return method.strip(), model.strip() or None, preset.strip()


def check_settings(lines: Iterable[str], known: Mapping[str, Any]) -> list[str]:
    """Return the settings of the members' method that differ from its defaults, as sorted lines ``name=value``."""
    method = known.get("of")
    if method is None:  # the error is about the method
        return list(lines)
    defaults = {name: one.default for name, one in METHODS.settings(method).items()}
    checked = METHODS.check(method, read_settings(lines))
    return write_settings({name: value for name, value in checked.items() if value != defaults[name]})


def read_settings(lines: Iterable[str]) -> dict[str, Any]:
    """Read lines ``name=value``, where a value is JSON or plain text."""
    settings = {}
    for line in lines:
        name, equals, text = line.partition("=")
        if not equals:
            raise InputError(f"{line!r} is not a setting; write it as name=value.")
        try:
            settings[name.strip()] = json.loads(text)
        except ValueError:
            settings[name.strip()] = text
    return settings


def write_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as sorted lines ``name=value``."""
    return [f"{name}={json.dumps(settings[name])}" for name in sorted(settings)]
