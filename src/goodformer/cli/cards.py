"""What a registered thing says of itself: its docstring and the table of its settings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

import typer
from pydantic.fields import FieldInfo

from goodformer.cli import output
from goodformer.registry import settings_model


def sentence(build: Callable[..., Any]) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(build) or "").partition("\n")[0]


def card(kind: str, name: str, build: Callable[..., Any]) -> dict[str, Any]:
    """Name, docstring and settings."""
    return {"kind": kind, "name": name, "about": inspect.getdoc(build) or "", "settings": settings(build)}


def settings(build: Callable[..., Any]) -> list[dict[str, Any]]:
    """One row a setting: name, type, range, default, what it does."""
    return [
        {
            "name": name,
            "type": _type(field.annotation),
            "range": _range(field),
            "default": None if field.is_required() else field.default,
            "required": field.is_required(),
            "help": field.description or "",
        }
        for name, field in settings_model(build).model_fields.items()
    ]


def show(one: dict[str, Any]) -> None:
    """Print a card, plain words before the formula."""
    words = f"{one['in_words']}\n\n" if one.get("in_words") else ""
    typer.echo(f"{one['kind']} {one['name']}\n\n{words}{one['about']}\n")
    show_settings(one["settings"])


def show_settings(rows: list[dict[str, Any]]) -> None:
    """Print the table of settings."""
    shown = [[row["name"], " ".join((row["type"], row["range"])).strip(), _default(row), row["help"]] for row in rows]
    if shown:
        output.table(["setting", "type", "default", "what it does"], shown)


def _default(row: dict[str, Any]) -> str:
    """What a setting is where nothing is said."""
    if row["required"]:
        return "required"
    value = row["default"]
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _type(annotation: Any) -> str:
    """A type as a user would write it."""
    if typing.get_origin(annotation) is typing.Literal:
        return " | ".join(str(value) for value in typing.get_args(annotation))
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, tuple, Sequence):
        return f"list of {_type(parts[0])}"
    if parts and type(None) in parts:
        return " | ".join("none" if part is type(None) else _type(part) for part in parts)
    return annotation.__name__ if isinstance(annotation, type) and not parts else str(annotation).replace("typing.", "")


def _range(field: FieldInfo) -> str:
    """The bounds of a number, e.g. ``>= 0, < 1``."""
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [(signs[key], getattr(rule, key)) for rule in field.metadata for key in signs if hasattr(rule, key)]
    return ", ".join(f"{sign} {bound}" for sign, bound in bounds)
