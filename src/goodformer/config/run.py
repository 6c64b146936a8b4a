"""The configuration of a run: data set, model, method, training and seed, all checked, identified by a hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from goodformer import files
from goodformer.config import history
from goodformer.data import DATASETS
from goodformer.errors import InputError, check_name, unknown
from goodformer.methods import METHODS
from goodformer.models import MODELS
from goodformer.registry import Registry
from goodformer.settings import first_mistake

Kind = Literal["none", "ema", "swa"]
"""How the weights are averaged along training."""
Rule = Literal["ood_val", "id_val", "last"]
"""Which epoch is reported."""
PARTS: dict[str, Registry[Any]] = {"dataset": DATASETS, "model": MODELS, "method": METHODS}
MOST = 1_000_000
"""Largest number of epochs, or of graphs in a batch."""
LABELS = ("preset", "budget")
"""Fields that name a run and do not change what it computes; they do not enter its hash."""


class Checked(BaseModel):
    """Settings that cannot be changed; a mistake raises ``InputError`` with one sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    where: ClassVar[str] = "settings"

    def __init__(self, **values: Any) -> None:
        for name in values:
            check_name(f"setting of {self.where}", name, type(self).model_fields)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(f"{self.where}: {first_mistake(error)}") from None


class TrainingConfig(Checked):
    """How weights are trained and chosen, for every method."""

    where = "training"

    epochs: int = Field(20, ge=1, le=MOST, description="Number of passes over the training graphs.")
    batch_size: int = Field(64, ge=2, le=MOST, description="Graphs per training step, over all processes together.")
    eval_batch_size: int = Field(
        256, ge=1, le=MOST, description="Most graphs per evaluation step; the result does not depend on it."
    )
    sampling: Literal["uniform", "balanced"] = Field(
        "uniform",
        description="Graphs of an epoch: each once, or classes equally often (balanced), rare ones repeated.",
    )
    teacher_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of each binary label that a random forest predicts for the training graph, out of bag; "
        "other labels stay as they are.",
    )
    optimizer: Literal["adam", "adamw"] = Field(
        "adam", description="Optimiser: adam (weight decay in the gradient) or adamw (decoupled from it)."
    )
    learning_rate: float = Field(5e-4, gt=0, le=1, description="Learning rate of Adam.")
    schedule: Literal["constant", "cosine", "plateau"] = Field(
        "constant",
        description="Learning rate over the epochs: constant, falling to zero along a cosine, or halved whenever the "
        "selected epoch is a third of the patience old (plateau).",
    )
    milestones: list[Annotated[int, Field(ge=1, le=MOST)]] = Field(
        [], description="Numbers of epochs after which the learning rate falls to a tenth; later ones are left out."
    )
    warmup: float = Field(
        0.0, ge=0, le=1, description="Share of the training steps over which the learning rate rises linearly from 0."
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description="Weight decay: an L2 penalty.")
    clip_norm: float | None = Field(None, gt=0, description="Largest norm of the gradient; null disables clipping.")
    average: Kind = Field(
        "none", description="Average of the weights used for prediction: none, ema (every step) or swa (every epoch)."
    )
    average_decay: float = Field(0.99, ge=0, lt=1, description="Share of the average that an ema step keeps.")
    patience: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="Stop after this many epochs without a better selection metric; null never stops early.",
    )
    perfect_patience: int | None = Field(
        None,
        ge=1,
        description="Stop after this many epochs with a perfect selection metric and a loss below 0.05; null never "
        "stops for this reason.",
    )
    stop_after: int | None = Field(
        None, ge=1, le=MOST, description="Stop after this many epochs of the schedule; null trains all epochs."
    )
    selection: Rule = Field(
        "ood_val", description="Epoch to report: best on OOD validation (ood_val), on ID validation (id_val), or last."
    )
    drop_last: bool = Field(False, description="Skip the last training batch of an epoch if it is not full.")
    train_eval_graphs: int = Field(
        3000, ge=1, description="Largest number of training graphs used for the training metric; always the same ones."
    )

    @model_validator(mode="after")
    def _leave_out_milestones(self) -> Self:
        """Keep the milestones that training reaches, in order, so that runs that compute the same are equal."""
        self.milestones[:] = sorted({number for number in self.milestones if number < self.epochs})
        return self


class Hardware(Checked):
    """Where a run is computed; not part of its id.

    Threads and the device of one process change only the last digits of a result. Several processes change more: each
    sees only its share of a batch, so BatchNorm and losses over all pairs of a batch use that share.
    """

    where = "hardware"

    accelerator: Literal["cpu", "gpu", "auto"] = Field("cpu", description="Device: cpu, gpu or auto.")
    devices: int = Field(1, ge=1, le=1024, description="Processes of each node that share a run, one per device.")
    nodes: int = Field(1, ge=1, le=1024, description="Machines that share a run; each of them runs the same command.")
    threads: int = Field(1, ge=1, le=1024, description="Threads of each process.")
    progress: bool = Field(True, description="Show a progress bar and one line per epoch.")
    test_epochs: bool = Field(
        True, description="Measure the test splits after every epoch, not only at the chosen one; changes no result."
    )
    tensorboard: bool = Field(False, description="Also write epoch metrics for TensorBoard.")


class RunConfig(Checked):
    """Everything that decides what a run computes, and two labels.

    Every part is checked and every omitted setting is filled in, so equal configurations are equal in every field and
    have the same ``id``.
    """

    where = "a run"

    dataset: dict[str, Any] = Field(description="Name of a data set and its settings.")
    model: dict[str, Any] = Field(description="Name of a model and its settings.")
    method: dict[str, Any] = Field(description="Name of a method and its settings.")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="How weights are trained and chosen.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the initial weights, the order of graphs and all noise.")
    preset: str = Field("default", description="Label: name of the settings this configuration was made from.")
    budget: str = Field("full", description="Label: name of the budget that limits graphs and epochs.")

    def __init__(self, **values: Any) -> None:
        for name, registry in PARTS.items():
            values[name] = _checked_part(name, registry, values.get(name))
        if isinstance(values.get("training"), Mapping):
            values["training"] = TrainingConfig(**history.current("training", values["training"]))
        super().__init__(**values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a configuration from plain values, as `to_dict` returns them."""
        if not isinstance(values, Mapping):
            raise InputError(
                f"the configuration of a run is a {type(values).__name__} instead of settings; restore the file."
            )
        return cls(**values)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a configuration from a YAML file with the fields of this class."""
        return cls.from_dict(read_yaml(path))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON and YAML can hold."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return values

    def to_yaml(self) -> str:
        """Return the configuration as YAML text."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    def with_seed(self, seed: int) -> RunConfig:
        """Return the configuration with another seed; nothing else is checked again."""
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed = {seed!r} is not accepted; give an integer of 0 or more.")
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return RunConfig.model_construct(**{**fields, "seed": seed})

    def with_overrides(self, assignments: Iterable[str]) -> Self:
        """Return the configuration with settings replaced, each written ``model.dim=64``; the value is read as YAML.

        A new name (``model.name=gps`` or ``model=gps``) takes its own defaults for all settings not given.
        """
        values = self.to_dict()
        for line in assignments:
            assign(values, line)
        return self.from_dict(values)

    @cached_property
    def id(self) -> str:
        """Twelve hexadecimal digits that identify what the run computes, whatever its labels."""
        content = {name: value for name, value in self.to_dict().items() if name not in LABELS}
        for part in (*PARTS, "training"):
            content[part] = history.hashed(part, content[part])
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def result_id(self) -> str:
        """The id, or for a method that is fitted at once the same for all runs whose results are equal.

        Budgets change settings of training, such as epochs or the split that selects one, that these methods do not
        read; runs with other values have ids of their own, because records keep their ids.
        """
        if not history.at_once(self.method["name"]):
            return self.id
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return RunConfig.model_construct(**{**fields, "training": TrainingConfig(epochs=1)}).id

    @property
    def folder_name(self) -> str:
        """Data set, shift, method, model, seed and id, readable in a list of folders."""
        shift = [str(self.dataset[name]) for name in ("domain", "shift") if name in self.dataset]
        bias = [f"bias{self.dataset['bias']}"] if "bias" in self.dataset else []
        names = [self.dataset["name"], *shift, *bias, self.method["name"], self.model["name"]]
        return "-".join([*names, f"s{self.seed}", self.id])


def _checked_part(name: str, registry: Registry[Any], part: Any) -> dict[str, Any]:
    """Check one part, given by its name alone or with settings; return plain values with all settings filled in."""
    choices = f"give {name} as {{name: ...}}, one of {', '.join(registry)}."
    if part is None:
        raise InputError(f"a run needs a {registry.kind}; {choices}")
    part = {"name": part} if isinstance(part, str) else part
    if not isinstance(part, Mapping) or not isinstance(part.get("name"), str):
        raise InputError(f"{name} = {part!r} has no name; {choices}")
    given = history.current(name, part)
    settings = registry.check(part["name"], {key: value for key, value in given.items() if key != "name"})
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    return {"name": part["name"], **plain}


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read the mapping in a YAML file."""
    text = files.read_text(Path(path), "give a YAML file")
    try:
        values = _loaded(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not valid YAML ({' '.join(str(error).split())}); correct it.") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} contains a {type(values).__name__} instead of settings; write lines like 'seed: 1'.")
    return values


def parse_assignment(text: str) -> tuple[list[str], Any]:
    """Read ``a.b=value`` into a path and a value."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise InputError(f"{text!r} is not a setting; write it as name=value, for example model.dim=64.")
    try:
        return path.strip().split("."), deepcopy(_yaml_value(value))
    except yaml.YAMLError:
        raise InputError(
            f"the value in {text!r} is not valid YAML; quote it if it contains special characters."
        ) from None


class _OneLine(yaml.SafeLoader):
    """Reads values of the command line: ``1e-4`` is a number, as in YAML 1.2, although YAML 1.1 takes it for text.

    Files are read as YAML 1.1, because `RunConfig.to_yaml` writes that.
    """


_OneLine.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def _loaded(text: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """Read YAML; everything that is wrong with it is a ``YAMLError``.

    Aliases are refused: a few of them can stand for a value that does not fit into memory.
    """
    try:
        if "*" in text and any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)):
            raise yaml.YAMLError("aliases are not supported")
        return yaml.load(text, loader)
    except yaml.YAMLError:
        raise
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    except Exception as error:  # PyYAML raises anything from KeyError to AttributeError on values with a wrong tag
        raise yaml.YAMLError(f"a value cannot be read: {error}") from None


@lru_cache(maxsize=4096)
def _yaml_value(text: str) -> Any:
    """Read a value of the command line as YAML."""
    return _loaded(text, _OneLine)


def assign(values: dict[str, Any], line: str) -> None:
    """Write one override ``part.setting=value`` into the plain fields of a configuration, in place."""
    path, value = parse_assignment(line)
    head, rest = path[0], path[1:]
    if head in PARTS and rest in ([], ["name"]):
        values[head] = values[head] if value == values[head]["name"] else {"name": value}
    elif head in RunConfig.model_fields and not rest and head != "training":
        values[head] = value
    elif len(rest) == 1 and isinstance(values.get(head), dict):
        values[head][rest[0]] = value
    else:
        known = RunConfig.from_dict(values).to_dict()
        paths = [f"{part}.{name}" for part, some in known.items() if isinstance(some, dict) for name in some]
        raise unknown("setting", ".".join(path), [*paths, *(name for name in known if name != "training")])
