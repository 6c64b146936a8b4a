"""Names a user can type, the classes they stand for, and the settings each accepts.

A registry maps a name to an import path; the module is imported when the class is first needed. The keyword-only
parameters of a constructor *are* its settings. Their descriptions are kept in a catalogue in the cache folder, so that
listing methods or validating a configuration imports neither torch nor any class.

A module outside this package can register its own classes with ``METHODS.add(name, cls)``. It is imported because the
environment variable GOODFORMER_IMPORT (or the option ``--import``) names it, or because an installed package declares
it as an entry point of the group ``goodformer.plugins``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goodformer import files
from goodformer.errors import InputError, unknown
from goodformer.settings import Description, Setting, describe, load, settings_model, validate

if TYPE_CHECKING:
    from pydantic import BaseModel


T = TypeVar("T")
PACKAGE = Path(__file__).parent
REGISTRIES = ("goodformer.data:DATASETS", "goodformer.models:MODELS", "goodformer.methods:METHODS")
SOURCES = ("__init__.py", "registry.py", "settings.py", "spec.py", "transforms", "data", "nn", "models", "methods")
"""What the descriptions in the catalogue are read from: the packages with a registry and all they import."""
KEPT = 8
"""Catalogues of other versions that stay in the cache."""
VARIABLE, GROUP = "GOODFORMER_IMPORT", "goodformer.plugins"
OWN_MODULE = "If it comes from your own module, give --import MODULE before the command (in Python: import the module)."
"""What to do about an unknown name that a module outside this package registers."""

_loading: list[bool] = []


class Registry(Generic[T]):
    """Names of one kind (data sets, models or methods), in the order they are shown.

    Args:
        kind: What the names stand for.
        entries: The import path ``package.module:name`` of each.
    """

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self.kind = kind
        self.presets: dict[str, Mapping[str, Any] | Path] = {}
        self._entries: dict[str, str | Callable[..., T]] = dict(entries)
        self._own = frozenset(entries)
        self._descriptions: dict[str, Description] = {}
        self._models: dict[str, type[BaseModel]] = {}

    def add(
        self, name: str, entry: str | Callable[..., T], presets: Mapping[str, Any] | str | Path | None = None
    ) -> None:
        """Register a class or function.

        Args:
            name: What a user types.
            entry: The class or function, or its import path ``package.module:name``.
            presets: For a method: its usual model and its presets, as a mapping or a YAML file like
                ``goodformer/config/settings/erm.yaml``. Without them it runs on GIN with all defaults.
        """
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
            raise InputError(f"{name!r} is not a valid name; use lower-case letters, digits, '-', '_' and '.'.")
        if name in self._entries:
            raise InputError(f"{self.kind} {name!r} is already registered; choose another name.")
        if not (":" in entry if isinstance(entry, str) else callable(entry)):
            raise InputError(
                f"{self.kind} {name!r} cannot be {entry!r}; give a class, a function, or a path package.module:name."
            )
        self._entries[name] = entry
        if presets is not None:
            self.presets[name] = Path(presets) if isinstance(presets, str) else presets

    def remove(self, name: str) -> None:
        """Remove a name that `add` registered, for example to register a changed class in a notebook."""
        if name in self._own or name not in self._entries:
            raise InputError(f"{self.kind} {name!r} was not added, so it cannot be removed.")
        for known in (self._entries, self.presets, self._descriptions, self._models):
            known.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter(list(self._entries))

    def __contains__(self, name: object) -> bool:
        load_plugins()
        return name in self._entries

    def __getitem__(self, name: str) -> Callable[..., T]:
        entry = self._entry(name)
        if isinstance(entry, str):
            try:
                entry = load(entry)
            except (ImportError, AttributeError) as error:
                if name in self._own:
                    raise
                raise InputError(f"cannot load {self.kind} {name} from {entry} ({error}); correct its path.") from None
        return entry

    def _entry(self, name: str) -> str | Callable[..., T]:
        self.require(name)
        return self._entries[name]

    def require(self, name: str) -> None:
        """Raise an error unless a name is registered."""
        if name not in self:
            raise InputError(f"{unknown(self.kind, name, self._entries)} {OWN_MODULE}")

    def built_in(self, name: str) -> bool:
        """Return whether a name belongs to this package and was not added by another module."""
        return name in self._own

    def describe(self, name: str) -> Description:
        """Return the docstring and the settings of a registered class or function."""
        self._entry(name)
        if name not in self._descriptions:
            known = _catalogue().get(self.kind, {}) if name in self._own else {}
            self._descriptions[name] = known[name] if name in known else describe(self[name])
        return self._descriptions[name]

    def settings(self, name: str) -> dict[str, Setting]:
        """Return the settings that the named entry accepts."""
        return {one.name: one for one in self.describe(name).settings}

    def check(self, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Check the settings of the named entry and fill in the defaults."""
        if name not in self._models:
            self._models[name] = settings_model(name, self.describe(name).settings)
        return validate(self._models[name], settings, f"{self.kind} {name}", self.kind.replace(" ", ""))

    def build(self, name: str, *parts: Any, **settings: Any) -> T:
        """Build the named entry from ``parts`` under checked ``settings``."""
        return self[name](*parts, **self.check(name, settings))

    def __len__(self) -> int:
        load_plugins()
        return len(self._entries)


# Catalogue ------------------------------------------------------------------------------------------------------------


@cache
def _catalogue() -> dict[str, dict[str, Description]]:
    """Return the descriptions of everything this package registers, by kind and name.

    They come from the cache if they were read from the same sources, else from the classes themselves, which are then
    imported once and written to the cache. Like a compiled module, the file is never required and never out of date.
    """
    registries: list[Registry[Any]] = [load(path) for path in REGISTRIES]
    path = files.cache_folder() / "catalogue" / f"{sources_key()}.json"
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged
        found = json.loads(path.read_text(encoding="utf-8"))
        found = files.unsealed(found, path) if files.CHECKSUM in found else {}
        return {
            one.kind: {name: Description.from_json(found[one.kind][name]) for name in one._own} for one in registries
        }
    fresh = {one.kind: {name: describe(one[name]) for name in one._own} for one in registries}
    with suppress(OSError, InputError):  # the cache cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = {kind: {name: one.to_json() for name, one in known.items()} for kind, known in fresh.items()}
        files.write_text(path, json.dumps(files.sealed(plain)))
        for old in sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    return fresh


def sources_key(package: Path = PACKAGE) -> str:
    """Return a digest of the Python version and of all source files that the catalogue depends on."""
    digest = hashlib.sha256(f"1 {sys.version_info[:2]}".encode())
    for name in SOURCES:
        top = package / name
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:32]


# Plugins --------------------------------------------------------------------------------------------------------------


def load_plugins() -> None:
    """Import, once, the modules that GOODFORMER_IMPORT and the entry points of installed packages name."""
    if _loading:
        return
    _loading.append(True)  # before the imports: a plugin uses the registries, too
    from importlib.metadata import entry_points

    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        import_plugin(module)
    for point in entry_points(group=GROUP):
        import_plugin(point.value, f", the plugin {point.name} of {point.dist.name if point.dist else 'a package'}")


def import_plugin(module: str, whose: str = "") -> None:
    """Import a module that registers something; an error becomes one sentence, and what it registered is removed."""
    if not whose and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    registries: list[Registry[Any]] = [load(path) for path in REGISTRIES]
    before = [set(one._entries) for one in registries]
    try:
        _import(module, whose)
    except BaseException:
        for registry, names in zip(registries, before, strict=True):
            for name in set(registry._entries) - names:
                registry.remove(name)
        raise


def _import(module: str, whose: str) -> None:
    """Import a module; an error becomes one sentence."""
    try:
        import_module(module)
    except InputError as error:
        raise InputError(f"{module}{whose}: {error}") from None
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"there is no module {module!r}{whose}; give the name of a module that is installed or lies in this "
                "folder, such as my_package.my_method."
            ) from None
        raise InputError(f"cannot import {module}{whose}: it needs {error.name}, which is not installed.") from None
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise InputError(f"cannot import {module}{whose}: {type(error).__name__}: {error.msg} ({where}).") from error
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}"
        raise InputError(f"cannot import {module}{whose}: {type(error).__name__}: {error} ({where}).") from error
