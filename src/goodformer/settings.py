"""Settings: the keyword-only parameters of a constructor, described as plain data.

The annotations of a constructor give the type, the bounds and the help sentence of each setting. `describe` reads them
once; validation, ``methods show``, ``datasets show`` and the documentation all use the result. A description can be
stored as JSON, so a configuration can be validated without importing the class it is for.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from goodformer.errors import InputError, check_name, suggestion

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError, ValidationInfo

TYPES = {"int": int, "float": float, "str": str, "bool": bool}
SHAPES = ("one", "list", "either")
SHOWN = 100
"""Characters of a wrong value that an error message shows."""
MOST = 2**32
"""Largest integer of a setting without an upper bound; larger ones do not fit into tensors."""
SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
BOUNDS = (*SIGNS, "multiple_of", "min_length", "max_length", "pattern")
"""Arguments of pydantic's ``Field`` that a setting may use, besides ``description``."""


@dataclass(frozen=True)
class Computed:
    """A mark in an annotation: a function completes the setting from its value and the valid settings before it.

    Args:
        path: Import path of the function, ``package.module:name``; the module should import quickly.
    """

    path: str


@dataclass(frozen=True)
class Setting:
    """One setting as plain data.

    Attributes:
        name: The name of the parameter.
        type: ``int``, ``float``, ``str`` or ``bool``; of each value of a list.
        choices: The accepted values, if only some are.
        shape: ``one`` value, a ``list`` of values (one value alone is accepted), or ``either``.
        optional: Whether null is accepted.
        required: Whether there is no default.
        default: The value if none is given.
        bounds: Limits by their names in ``BOUNDS``, such as ``{"ge": 0}``.
        help: One sentence.
        computed: Import path of the function that completes the value; see `Computed`.
    """

    name: str
    type: str = "str"
    choices: tuple[str | int | bool, ...] = ()
    shape: str = "one"
    optional: bool = False
    required: bool = False
    default: Any = None
    bounds: Mapping[str, Any] = field(default_factory=dict)
    help: str = ""
    computed: str = ""

    def __post_init__(self) -> None:
        plain = (str, int, float, bool, types.NoneType)
        values = self.default if isinstance(self.default, tuple) else (self.default,)
        sound = (
            all(isinstance(text, str) for text in (self.name, self.type, self.shape, self.help, self.computed))
            and all(isinstance(flag, bool) for flag in (self.optional, self.required))
            and self.type in TYPES
            and self.shape in SHAPES
            and isinstance(self.choices, tuple)
            and all(isinstance(value, plain) for value in (*self.choices, *values))
            and isinstance(self.bounds, Mapping)
            and all(name in BOUNDS and isinstance(bound, int | float | str) for name, bound in self.bounds.items())
        )
        if not sound:
            raise InputError(f"setting {self.name!r} is not described by plain values.")

    @property
    def type_text(self) -> str:
        """The type as a user reads it, such as ``int | none`` or ``list of str``."""
        one = " | ".join(map(str, self.choices)) or self.type
        text = {"one": one, "list": f"list of {one}", "either": f"{one} or list of {one}"}[self.shape]
        return f"{text} | none" if self.optional else text

    @property
    def range_text(self) -> str:
        """The bounds of a number as a user reads them, such as ``>= 0, < 1``."""
        return ", ".join(f"{SIGNS[name]} {bound}" for name, bound in self.bounds.items() if name in SIGNS)

    @property
    def default_text(self) -> str:
        """The default as a user reads it."""
        if self.required:
            return "required"
        return ", ".join(map(str, self.default)) or "none" if isinstance(self.default, tuple) else str(self.default)


FLAGS = ("at_once", "seedless")
"""Class attributes of methods that configurations need to know without importing the class."""


@dataclass(frozen=True)
class Description:
    """What a registered class or function says about itself.

    Attributes:
        about: Its docstring.
        in_words: What it does and when to choose it, without a formula; empty if the class has no such text.
        settings: Its settings in the order of the parameters.
        flags: Which of its class attributes in `FLAGS` are true.
    """

    about: str
    in_words: str
    settings: tuple[Setting, ...]
    flags: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Description:
        """Return the description that `to_json` stored; raise an error if it is damaged."""
        settings = []
        for one in found["settings"]:
            fields: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in one.items()}
            settings.append(Setting(**fields))
        if not (isinstance(found["about"], str) and isinstance(found["in_words"], str)):
            raise InputError("the description has no text.")
        return cls(found["about"], found["in_words"], tuple(settings), tuple(map(str, found["flags"])))


def describe(build: Callable[..., Any]) -> Description:
    """Read the docstring and the settings of a class or function; the docstring of a base class does not count."""
    title = getattr(build, "__qualname__", str(build))
    try:
        hints = typing.get_type_hints(build.__init__ if inspect.isclass(build) else build, include_extras=True)
    except NameError as error:
        raise InputError(f"{title}: {error}; annotations need names that are imported at run time.") from None
    settings = []
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            try:
                settings.append(_setting(name, hints.get(name), parameter.default))
            except InputError as error:
                raise InputError(f"{title}: {error}") from None
    about = vars(build).get("__doc__") if inspect.isclass(build) else build.__doc__
    flags = tuple(name for name in FLAGS if getattr(build, name, False))
    return Description(inspect.cleandoc(about or ""), str(vars(build).get("in_words", "")), tuple(settings), flags)


def _setting(name: str, annotation: Any, default: Any) -> Setting:
    """Read one setting from the annotation and the default of its parameter."""
    found: dict[str, Any] = {"name": name, "bounds": {}}

    def refuse(what: Any) -> InputError:
        accepted = f"int, float, str, bool, Literal, a list of one of these, or with | None, e.g. {name}: float = 1.0"
        return InputError(f"setting {name} uses {what}, which is not supported; annotate it with {accepted}.")

    def read(part: Any) -> None:
        """Take in one part of the annotation."""
        origin, arguments = typing.get_origin(part), typing.get_args(part)
        if origin is typing.Annotated:
            for mark in arguments[1:]:
                read_mark(mark)
            read(arguments[0])
        elif origin in (typing.Union, types.UnionType):
            for one in arguments:
                read(one)
            if len([one for one in arguments if one is not types.NoneType]) > 1:
                found["shape"] = "either"
        elif origin in (list, tuple, Sequence) and arguments[1:] in ((), (...,)) and "shape" not in found:
            found["shape"] = "list"
            read(arguments[0])
        elif part is types.NoneType:
            found["optional"] = True
        else:
            values = arguments if origin is typing.Literal else ()
            kind = type(values[0]).__name__ if values else getattr(part, "__name__", "")
            if kind not in TYPES or found.get("type", kind) != kind:
                raise refuse(part)
            found["type"], found["choices"] = kind, values

    def read_mark(mark: Any) -> None:
        """Take in one object of ``Annotated``: a ``Field`` of pydantic, one of its limits, or `Computed`."""
        if isinstance(mark, Computed):
            found["computed"] = mark.path
            return
        found["help"] = getattr(mark, "description", None) or found.get("help", "")
        limits = {key: value for key in BOUNDS if (value := getattr(mark, key, None)) is not None}
        inner = getattr(mark, "metadata", None)
        if not limits and inner is None:
            raise refuse(mark)
        found["bounds"] |= limits
        for one in inner or ():
            read_mark(one)

    if name == "name":
        raise InputError("a setting cannot be called 'name', which is the name of the part itself; rename it.")
    if annotation is None:
        raise InputError(f"setting {name} has no type; annotate it, e.g. {name}: float = 1.0.")
    read(annotation)
    if default is inspect.Parameter.empty:
        found["required"] = True
    else:
        found["default"] = tuple(default) if isinstance(default, list | tuple) else default
    return Setting(**found)


def settings_model(title: str, settings: Iterable[Setting]) -> type[BaseModel]:
    """Build the pydantic model that validates some settings."""
    from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for one in settings:
        kind: Any = typing.Literal[one.choices] if one.choices else TYPES[one.type]
        if one.shape == "list":
            kind = typing.Annotated[list[kind], BeforeValidator(_as_list)]
        elif one.shape == "either":
            kind = kind | tuple[kind, ...]
        if one.optional:
            kind = kind | None
        default = ... if one.required else one.default
        whole = one.type == "int" and one.shape == "one" and not one.choices
        bounds = one.bounds if not whole or {"le", "lt"} & set(one.bounds) else {**one.bounds, "le": MOST}
        fields[one.name] = (kind, Field(default, **bounds, validate_default=bool(one.computed)))
        if one.computed:
            fields[one.name] = (typing.Annotated[kind, AfterValidator(_completion(one.computed))], fields[one.name][1])
    return create_model(title, __config__=ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False), **fields)


def _as_list(given: Any) -> Any:
    """Turn one value into a list of one."""
    return [given] if isinstance(given, str | int | float) else given


def _completion(path: str) -> Callable[[Any, ValidationInfo], Any]:
    """Return the validator that completes a computed setting."""
    return lambda value, info: load(path)(value, info.data)


def validate(model: type[BaseModel], settings: Mapping[str, Any], where: str, part: str) -> dict[str, Any]:
    """Check settings and fill in the defaults; the first mistake becomes one sentence.

    Args:
        model: The accepted settings.
        settings: The given ones.
        where: What they belong to, for the sentence.
        part: Part of a configuration that holds them: dataset, method or model.
    """
    from pydantic import ValidationError

    for name in settings:
        check_name(f"setting of {where}", name, model.model_fields)
    if missing := [name for name, field in model.model_fields.items() if field.is_required() and name not in settings]:
        options = " ".join(f"--set {part}.{name}={name.upper()}" for name in missing)
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        raise InputError(f"{where}: {' and '.join(missing)} {are} missing; give {them} with {options}.")
    try:
        return dict(model.model_validate(dict(settings)))
    except ValidationError as error:
        raise InputError(f"{where}: {first_mistake(error)}") from None


def first_mistake(error: ValidationError) -> str:
    """Return one sentence for the first mistake a validation found."""
    mistake = error.errors()[0]
    name = ".".join(str(part) for part in mistake["loc"]) or "value"
    if mistake["type"] == "missing":
        return f"{name} is missing."
    got = repr(mistake["input"])
    got = got if len(got) <= SHOWN else f"{got[:SHOWN]}..."
    if mistake["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", mistake["ctx"]["expected"])
        return f"{name} = {got} is not accepted; {suggestion(str(mistake['input']), words)}"
    return f"{name} = {got} is not accepted ({mistake['msg']})."


def load(path: str) -> Any:
    """Return the object that an import path ``package.module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
