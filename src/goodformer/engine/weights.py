"""Weights on disk: ``model.json`` describes a method, ``weights.safetensors`` holds its tensors; neither holds code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import safetensors
import safetensors.torch
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.parameter import UninitializedParameter

import goodformer
from goodformer import files
from goodformer.config import history
from goodformer.engine.seeds import own_randomness
from goodformer.engine.store import MODEL
from goodformer.errors import InputError
from goodformer.limits import check_limit
from goodformer.methods import METHODS
from goodformer.methods.base import Method
from goodformer.methods.blend import Blend
from goodformer.models import MODELS
from goodformer.registry import Registry
from goodformer.settings import first_mistake
from goodformer.spec import FeatureSpec, Task

T = TypeVar("T")
FORMAT, VERSION = "goodformer-predictor", 1
WEIGHTS = "weights.safetensors"
DERIVED = ("sureness.json", "sureness.safetensors")
"""Files that were fitted to the weights beside them; new weights remove them, the description first."""


class MemberFile(BaseModel):
    """One member of a method that has several.

    Attributes:
        model: Name of its model and settings.
        method: Name of its method and settings.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    model: dict[str, Any]
    method: dict[str, Any]

    @field_validator("model", "method")
    @classmethod
    def _named(cls, part: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(part.get("name"), str):
            raise ValueError("a name is missing")
        return part


class ModelFile(MemberFile):
    """The content of ``model.json``: all that is needed to build a method.

    Attributes:
        model: Name of the model and its settings.
        method: Name of the method and its settings.
        features: What nodes and edges carry.
        task: What is predicted.
        members: The members of a blend, in the order of its weights; empty for other methods.
        about: Where the weights come from and what their answers mean.
        sha256: Checksum of the weights, empty before there are any.
    """

    features: FeatureSpec
    task: Task
    members: tuple[MemberFile, ...] = ()
    about: dict[str, Any] = {}
    sha256: str = ""

    def build(self) -> Method:
        """Return the method with fresh weights, drawn from the global generators."""

        def method(part: ModelFile | MemberFile) -> Method:
            return _built(METHODS, part.method, _built(MODELS, part.model, self.features), self.task)

        with _limited_size():
            if not self.members:
                return method(self)
            mean = self.method.get("mean", "probabilities")  # models of earlier versions do not say it
            return Blend.join(self.task, [method(one) for one in self.members], mean)


@contextmanager
def _limited_size() -> Iterator[None]:
    """Raise an error if a model has too many parameters, before their memory is used."""
    count = 0

    def note(module: nn.Module, name: str, value: Tensor | None) -> None:
        nonlocal count
        count += 0 if value is None or isinstance(value, UninitializedParameter) else value.numel()
        check_limit("parameters", count, "the model")

    hooks = [
        torch_module.register_module_parameter_registration_hook(note),
        torch_module.register_module_buffer_registration_hook(note),
    ]
    try:
        yield
    except RuntimeError as error:
        if "alloc" not in str(error) and "overflow" not in str(error):
            raise
        raise InputError("the model does not fit into memory; choose fewer layers or a smaller width.") from None
    finally:
        for hook in hooks:
            hook.remove()


def save_weights(folder: Path, file: ModelFile, state: Mapping[str, Tensor]) -> ModelFile:
    """Write a method's weights and description into a folder that `load_weights` reads."""
    files.make_folder(folder)
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    sha256 = write_tensors(folder / WEIGHTS, state)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "goodformer": goodformer.__version__,
        **file.model_dump(mode="json", exclude={"sha256", *([] if file.members else ["members"])}),
        "weights": {"file": WEIGHTS, "sha256": sha256},
    }
    files.write_json(folder / MODEL, files.sealed(description))
    return file.model_copy(update={"sha256": sha256})


def move_weights(source: Path, target: Path) -> None:
    """Move saved weights to another folder, file by file; a move that was interrupted can be repeated."""
    files.make_folder(target)
    for name in DERIVED:
        (target / name).unlink(missing_ok=True)
    for name in (WEIGHTS, MODEL):
        if (source / name).exists():
            files.move(source / name, target / name)
    source.rmdir()


def load_weights(folder: Path) -> tuple[Method, ModelFile]:
    """Read what `save_weights` wrote; nothing in the folder is ever executed."""
    file = read_description(folder)
    weights = read_tensors(folder / WEIGHTS, file.sha256)
    try:
        with own_randomness():
            method = file.build()
    except InputError as error:
        raise InputError(f"{folder / MODEL} describes a model that cannot be built: {error}") from None
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{folder / MODEL} describes a model that cannot be built ({reason}); restore it or train again."
        ) from None
    try:
        method.load_state_dict(weights)
    except RuntimeError:
        raise InputError(f"the weights in {folder} do not match its model.json; train again.") from None
    return method.eval(), file


def read_description(folder: Path) -> ModelFile:
    """Read and check ``model.json``."""
    path = folder / MODEL
    if not path.is_file():
        raise InputError(f"{folder} holds no saved model ({MODEL} is missing); give a folder that fit wrote.")
    found = read_format(path, FORMAT, VERSION, "give a folder best or last of a run")
    fields = {name: found.get(name) for name in ("model", "method", "features", "task")}
    for part in ("model", "method"):
        fields[part] = _today(part, found.get(part))
    members = found.get("members", [])
    if isinstance(members, list) and all(isinstance(one, dict) for one in members):
        members = [{part: _today(part, one.get(part)) for part in ("model", "method")} for one in members]
    weights = found.get("weights")
    sha256 = weights.get("sha256") if isinstance(weights, dict) else None
    try:
        return ModelFile(**fields, members=members, about=found.get("about", {}), sha256=sha256 or "")
    except ValidationError as error:
        raise InputError(f"{path} is damaged: {first_mistake(error)}") from None


def _today(part: str, settings: Any) -> Any:
    """Return settings under today's names, anything else as it is."""
    named = isinstance(settings, dict) and isinstance(settings.get("name"), str)
    return history.current(part, settings) if named else settings


def read_format(path: Path, name: str, version: int, advice: str) -> dict[str, Any]:
    """Read a JSON object that names its format and version; ``advice`` says what to do about any other file."""
    found = files.read_json(path)
    if not isinstance(found, dict) or found.get("format") != name:
        raise InputError(f"{path} was not written by goodformer; {advice}.")
    if found.get("version") != version:
        raise InputError(f"{path} has version {found.get('version')!r}; this goodformer reads version {version}.")
    return cast(dict[str, Any], files.unsealed(found, path))


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors into a safetensors file and return its checksum."""
    content = tensor_bytes(tensors)
    files.write_bytes(path, content)
    return hashlib.sha256(content).hexdigest()


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the content of a safetensors file."""
    return safetensors.torch.save({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})


def read_tensors(path: Path, sha256: str, advice: str = "restore it or train again") -> dict[str, Tensor]:
    """Read what `write_tensors` wrote; raise with ``advice`` if the file does not have this checksum."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); {advice}.") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path} is truncated or belongs to another model; {advice}.")
    try:
        return dict(safetensors.torch.load(content))
    except safetensors.SafetensorError:
        raise InputError(f"{path} is not a safetensors file; {advice}.") from None


def _built(registry: Registry[T], part: Mapping[str, Any], *more: Any) -> T:
    """Build what a part of a configuration describes."""
    return registry.build(part["name"], *more, **{name: value for name, value in part.items() if name != "name"})
