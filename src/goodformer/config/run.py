"""What a run is: data set, model, method, training and seed, all checked, named by a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goodformer.config import history
from goodformer.data import DATASETS
from goodformer.engine.average import Kind
from goodformer.engine.selection import Rule
from goodformer.methods import METHODS
from goodformer.models import MODELS
from goodformer.registry import InputError, Registry, first_mistake, unknown

PARTS: dict[str, Registry[Any]] = {"dataset": DATASETS, "model": MODELS, "method": METHODS}
LABELS = ("preset", "budget")
"""What a run is called, not what it does: these do not enter its hash."""


class Checked(BaseModel):
    """Settings that cannot be changed; a mistake raises ``InputError`` with one sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    where: ClassVar[str] = "settings"

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in type(self).model_fields:
                raise unknown(f"setting of {self.where}", name, type(self).model_fields)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(f"{self.where}: {first_mistake(error)}") from None


class TrainingConfig(Checked):
    """How weights are found and chosen, whatever the method."""

    where = "training"

    epochs: int = Field(20, ge=1, description="Passes over the training graphs.")
    batch_size: int = Field(64, ge=2, description="Graphs a training step, over all processes together.")
    eval_batch_size: int = Field(
        256, ge=1, description="Graphs a step of evaluation; the result does not depend on it."
    )
    learning_rate: float = Field(5e-4, gt=0, le=1, description="Step size of Adam.")
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="Whether the learning rate stays, or falls to zero along a cosine over the epochs."
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description="L2 penalty added to the gradient.")
    clip_norm: float | None = Field(None, gt=0, description="Largest norm of the gradient; null leaves it alone.")
    average: Kind = Field(
        "none", description="Average of the weights used for prediction: none, ema (every step) or swa (every epoch)."
    )
    average_decay: float = Field(0.99, ge=0, lt=1, description="Share of the average an ema step keeps.")
    patience: int | None = Field(
        None, ge=1, description="Stop after so many epochs without a better selection metric; null never stops early."
    )
    selection: Rule = Field(
        "ood_val", description="Epoch to report: best on ood_val (shifted validation), on id_val, or the last."
    )
    batches: Literal["random", "by_size"] = Field(
        "random",
        description="Graphs of a batch: any, or such of like size, which pads less where sizes differ much.",
    )
    drop_last: bool = Field(False, description="Leave out the last training batch of an epoch where it is not full.")
    train_eval_graphs: int = Field(
        3000, ge=1, description="At most so many training graphs, always the same, are used to measure the fit."
    )


class Hardware(Checked):
    """Where a run is computed; not part of its id.

    Threads and devices of one process change no more than the last digits. Several processes change more: each sees its
    share of a batch only, so BatchNorm and losses over all pairs of a batch are taken over that share.
    """

    where = "hardware"

    accelerator: Literal["cpu", "gpu", "auto"] = Field("cpu", description="Device that computes: cpu, gpu or auto.")
    devices: int = Field(1, ge=1, description="Processes that share a run, one a device.")
    threads: int = Field(1, ge=1, description="Threads of each process.")
    progress: bool = Field(True, description="Show a progress bar and a line an epoch.")
    test_epochs: bool = Field(
        True, description="Measure the test splits after every epoch, not at the chosen one alone; changes no result."
    )
    tensorboard: bool = Field(False, description="Also write the epochs' records for TensorBoard.")


class RunConfig(Checked):
    """All that decides what a run computes, and two labels.

    Every part is checked, and all settings left out are filled in, so that equal configs are equal in every field
    and have one ``id``.
    """

    where = "a run"

    dataset: dict[str, Any] = Field(description="Name of a data set and its settings.")
    model: dict[str, Any] = Field(description="Name of a model and its settings.")
    method: dict[str, Any] = Field(description="Name of a method and its settings.")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="How weights are found and chosen.")
    seed: int = Field(0, ge=0, description="Decides the initial weights, the order of graphs and all noise.")
    preset: str = Field("default", description="Label: name of the settings this config was made from.")
    budget: str = Field("full", description="Label: name of the budget that cut its graphs and epochs.")

    def __init__(self, **values: Any) -> None:
        super().__init__(**_checked(values))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A config from plain values, as ``to_dict`` gives them."""
        if not isinstance(values, Mapping):
            raise InputError(f"the config of a run is {type(values).__name__}, not settings; restore the file.")
        parts = {name: history.current(name, part) for name, part in values.items() if isinstance(part, Mapping)}
        return cls(**{**values, **parts})

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """A config from a YAML file with the fields of this class."""
        return cls.from_dict(read_yaml(path))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON and YAML can hold."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return values

    def to_yaml(self) -> str:
        """The config as YAML text."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    def with_overrides(self, assignments: Iterable[str]) -> Self:
        """The config with settings replaced, each written ``model.dim=64``; the value is read as YAML.

        A new name (``model.name=gps`` or ``model=gps``) takes that thing's own defaults for all settings not given.
        """
        values = self.to_dict()
        for path, value in map(parse_assignment, assignments):
            _assign(values, path, value)
        return type(self).from_dict(values)

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that belong to this config alone, whatever its labels."""
        content = {name: value for name, value in self.to_dict().items() if name not in LABELS}
        for part in (*PARTS, "training"):
            content[part] = history.hashed(part, content[part])
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def folder_name(self) -> str:
        """Data set, its shift, method, model, seed and id, readable in a list of folders."""
        shift = [str(self.dataset[name]) for name in ("domain", "shift") if name in self.dataset]
        bias = [f"bias{self.dataset['bias']}"] if "bias" in self.dataset else []
        names = [self.dataset["name"], *shift, *bias, self.method["name"], self.model["name"]]
        return "-".join([*names, f"s{self.seed}", self.id])


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InputError(f"cannot read settings from {path} ({reason}); give a YAML file.") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not valid YAML ({' '.join(str(error).split())}); mend it.") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} holds {type(values).__name__}, not settings; write lines like 'seed: 1'.")
    return values


def parse_assignment(text: str) -> tuple[list[str], Any]:
    """Read ``a.b=value`` into a path and a value."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise InputError(f"{text!r} is not a setting; write it as name=value, for example model.dim=64.")
    try:
        return path.strip().split("."), _number(yaml.safe_load(value))
    except yaml.YAMLError:
        raise InputError(f"the value in {text!r} is not valid YAML; quote it if it holds special signs.") from None


def _number(value: Any) -> Any:
    """The value, a number where it reads as one: YAML 1.1 takes 1e-4 for text."""
    if isinstance(value, str) and value[:1] in "+-.0123456789":
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run with every part checked and filled in."""
    checked = dict(values)
    for name, registry in PARTS.items():
        if name not in checked:
            raise InputError(f"a run needs a {registry.kind}; give {name} as {{name: ...}}, {_choices(registry)}.")
        checked[name] = _checked_part(name, registry, checked[name])
    if isinstance(checked.get("training"), Mapping):
        checked["training"] = TrainingConfig(**checked["training"])
    return checked


def _checked_part(name: str, registry: Registry[Any], part: Any) -> dict[str, Any]:
    """One part, given by its name alone or with settings, as plain values with all settings filled in."""
    part = {"name": part} if isinstance(part, str) else part
    if not isinstance(part, Mapping) or not isinstance(part.get("name"), str):
        raise InputError(f"{name} = {part!r} has no name; give it as {{name: ...}}, {_choices(registry)}.")
    settings = registry.check(part["name"], {key: value for key, value in part.items() if key != "name"})
    plain: dict[str, Any] = json.loads(json.dumps({"name": part["name"], **settings}, default=_plain))
    return plain


def _plain(value: Any) -> Any:
    """A setting that JSON does not know as one it knows."""
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def _choices(registry: Registry[Any]) -> str:
    return f"one of {', '.join(registry.entries)}"


def _assign(values: dict[str, Any], path: list[str], value: Any) -> None:
    """Put one overriding value in its place among the plain fields of a config."""
    head, rest = path[0], path[1:]
    if head not in RunConfig.model_fields:
        raise unknown("setting", ".".join(path), [*_paths(values), *RunConfig.model_fields])
    if head in PARTS and rest in ([], ["name"]):
        values[head] = values[head] if value == values[head]["name"] else {"name": value}
    elif not rest and head != "training":
        values[head] = value
    elif len(rest) == 1 and isinstance(values[head], dict):
        values[head][rest[0]] = value
    else:
        raise unknown("setting", ".".join(path), _paths(values))


def _paths(values: Mapping[str, Any]) -> list[str]:
    """Every path that can be assigned."""
    parts = [f"{part}.{name}" for part, settings in values.items() if isinstance(settings, dict) for name in settings]
    return parts + [name for name, value in values.items() if not isinstance(value, dict)]
