"""Features, tasks, encodings and splits: plain values that data, models and methods share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from goodformer.errors import InputError, check_name
from goodformer.limits import check_limit

SPLIT_NAMES = {
    "train": "training",
    "id_val": "ID validation",
    "id_test": "ID test",
    "val": "OOD validation",
    "test": "OOD test",
}
"""The five splits of a benchmark and their names in tables, progress lines and documentation."""
SPLITS = tuple(SPLIT_NAMES)
"""The keys of the splits: ``id_*`` are distributed like ``train``, ``val`` and ``test`` are shifted."""

METRIC_NAMES = {"accuracy": "accuracy", "rocauc": "ROC-AUC"}
"""The metrics of tasks and their names in tables and progress lines."""


@dataclass(frozen=True)
class Features:
    """The features of nodes or of edges.

    Attributes:
        kind: ``constant`` (no features), ``continuous`` (real numbers) or ``categorical`` (codes).
        sizes: One entry per column: 1 for a continuous column, the number of codes for a categorical one.
    """

    kind: Literal["constant", "continuous", "categorical"] = "constant"
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_limit("columns", len(self.sizes), "a set of features")
        for size in self.sizes:
            check_limit("codes", size, "a feature")
        if any(size < 1 for size in self.sizes) or (self.kind == "constant") != (not self.sizes):
            raise InputError(f"{self.kind} features cannot have the sizes {self.sizes}; give one number per column.")

    @classmethod
    def continuous(cls, width: int) -> Features:
        """Return real-valued features of the given width."""
        return cls("continuous", (1,) * width)

    @classmethod
    def categorical(cls, *sizes: int) -> Features:
        """Return categorical features, given the number of codes of each column."""
        return cls("categorical", sizes)


@dataclass(frozen=True)
class FeatureSpec:
    """Node and edge features of a data set, which decide the input layers of a model."""

    node: Features = field(default_factory=Features)
    edge: Features = field(default_factory=Features)


@dataclass(frozen=True)
class Task:
    """What is predicted.

    Attributes:
        kind: ``multiclass`` (``y`` is a class index) or ``binary`` (``y`` holds 0, 1 or NaN for each target).
        outputs: Number of classes, or of binary targets.
        metric: The reported metric: ``accuracy``, or ``rocauc`` averaged over targets.
        num_envs: Number of training environments, filled in by the benchmark; ``batch.env`` is below it in training.
    """

    kind: Literal["multiclass", "binary"] = "multiclass"
    outputs: int = 3
    metric: Literal["accuracy", "rocauc"] = "accuracy"
    num_envs: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        check_name("kind of task", self.kind, ("multiclass", "binary"))
        check_name("metric of a task", self.metric, tuple(METRIC_NAMES))
        check_limit("classes", self.outputs, "a task")
        if self.outputs < 1 or self.num_envs < 0:
            raise InputError(f"a task with {self.outputs} outputs cannot be predicted; give at least one.")


@dataclass(frozen=True)
class Encoding:
    """A computed node attribute, written ``name:width``, e.g. ``laplacian:8``."""

    name: str
    width: int

    @classmethod
    def parse(cls, text: str) -> Encoding:
        """Read ``name:width``."""
        name, _, width = text.partition(":")
        if not width.isdigit() or int(width) < 1:
            raise InputError(f"encoding {text!r} has no width; write it as name:width, for example laplacian:8.")
        return cls(name, int(width))

    def __str__(self) -> str:
        return f"{self.name}:{self.width}"

    @property
    def attribute(self) -> str:
        """The name of the attribute in a batch."""
        return f"{self.name}_{self.width}"
