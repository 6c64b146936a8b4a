"""The table of settings that ``methods show`` and ``datasets show`` print."""

from __future__ import annotations

from typing import Any

from goodformer.cli import output
from goodformer.settings import Description


def card(kind: str, name: str, described: Description) -> dict[str, Any]:
    """Return name, docstring and settings as JSON values."""
    rows = [
        {
            "name": one.name,
            "type": one.type_text,
            "range": one.range_text,
            "default": one.default,
            "required": one.required,
            "help": one.help,
        }
        for one in described.settings
    ]
    return {"kind": kind, "name": name, "about": described.about, "settings": rows}


def show_settings(described: Description) -> None:
    """Print one row per setting: name, type and bounds, default, help."""
    rows = [
        [one.name, f"{one.type_text} {one.range_text}".strip(), one.default_text, one.help]
        for one in described.settings
    ]
    if rows:
        output.table(["setting", "type", "default", "what it does"], rows)
