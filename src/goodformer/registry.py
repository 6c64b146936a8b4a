"""Names a user can type, what they stand for, and the settings each accepts.

A registry maps a name to a class. The keyword-only parameters of the class's constructor *are* its settings: their
annotations give type, range and help sentence, so the same line serves Python, the command line and the documentation.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

T = TypeVar("T")


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one sentence that says what to do."""


LISTED = 24
"""Names that a sentence can list; of more, only the nearest are told."""


def unknown(kind: str, got: str, accepted: Iterable[str]) -> InputError:
    """The error for a name that is not known, with those that are."""
    return InputError(f"unknown {kind} {got!r}; {_hint(got, accepted)}")


def _hint(got: str, accepted: Iterable[str]) -> str:
    """The names that are accepted, and before them the nearest one."""
    names = sorted(accepted)
    short = len(names) <= LISTED
    near = difflib.get_close_matches(got, names, n=1 if short else 3)
    listed = f"accepted: {', '.join(names) or 'none'}"
    return f"did you mean {' or '.join(near)}?{f' ({listed})' if short else ''}" if near else f"{listed}."


@cache
def settings_model(build: Callable[..., Any]) -> type[BaseModel]:
    """A pydantic model of the keyword-only parameters of ``build``."""
    hints = get_type_hints(build.__init__ if inspect.isclass(build) else build, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(build).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    title = getattr(build, "__name__", "settings")
    return create_model(title, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def validate(model: type[BaseModel], settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Checked settings with defaults filled in; the first mistake becomes one sentence."""
    for name in settings:
        if name not in model.model_fields:
            raise unknown(f"setting of {where}", name, model.model_fields)
    try:
        return dict(model.model_validate(dict(settings)))
    except ValidationError as error:
        raise InputError(f"{where}: {first_mistake(error)}") from None


def first_mistake(error: ValidationError) -> str:
    """One sentence for the first thing a validation found wrong."""
    mistake = error.errors()[0]
    name = ".".join(str(part) for part in mistake["loc"]) or "value"
    if mistake["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", mistake["ctx"]["expected"])
        return f"{name} = {mistake['input']!r} is not accepted; {_hint(str(mistake['input']), words)}"
    return f"{name} = {mistake['input']!r} is not accepted ({mistake['msg']})."


class Registry(Generic[T]):
    """Names of one kind (data sets, models or methods), in the order they are shown."""

    def __init__(self, kind: str, entries: Mapping[str, Callable[..., T]]) -> None:
        self.kind = kind
        self.entries = dict(entries)

    def __iter__(self) -> Iterable[str]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> Callable[..., T]:
        if name not in self.entries:
            raise unknown(self.kind, name, self.entries)
        return self.entries[name]

    def settings(self, name: str) -> type[BaseModel]:
        """The settings the named thing accepts."""
        return settings_model(self[name])

    def check(self, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of the named thing, checked, defaults filled in."""
        return validate(self.settings(name), settings, f"{self.kind} {name}")

    def build(self, name: str, *parts: Any, **settings: Any) -> T:
        """The named thing, made of ``parts`` under checked ``settings``."""
        return self[name](*parts, **self.check(name, settings))
