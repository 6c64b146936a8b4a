"""Features, tasks, encodings and splits: plain values that data, models and methods share."""

from __future__ import annotations

import math
from collections.abc import Collection
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
UNKNOWN_SHIFT = {**SPLIT_NAMES, "val": "validation", "test": "test"}
"""The same for a user's file if nobody knows whether validation and test shift, or if they do not."""
SPLITS = tuple(SPLIT_NAMES)
"""The keys of the splits: ``id_*`` are distributed like ``train``, ``val`` and ``test`` are shifted."""
ANSWER_PREFIX = "goodformer_"
"""Begins the names of all answer columns in a table if the user's columns have one of their plain names."""
SMILES = "smiles"
"""The column of SMILES unless another one is named; also that of predicted rows of SDF files."""
BECAUSE = "outside_because"
"""Column that says why a row is outside the domain."""

METRIC_NAMES = {"accuracy": "accuracy", "rocauc": "ROC-AUC", "rmse": "RMSE"}
"""The metrics of tasks and their names in tables and progress lines."""
FURTHER_METRICS = {"mae": "MAE", "r2": "R2", "spearman": "Spearman"}
"""Metrics of measured values beside RMSE, and their names; none of them selects an epoch."""
PERFECT = {"accuracy": 1.0, "rocauc": 1.0, "rmse": 0.0}
"""The best possible value of each metric of a task."""
LOWER_IS_BETTER = frozenset(("rmse",))
KINDS = ("multiclass", "binary", "regression")
REGRESSION = "regression"
RANDOM = "random"
"""What a split without shift goes by."""


def split_names(by: str, given: Collection[str] = ()) -> dict[str, str]:
    """Return the names of the splits of a user's file; only held-out domains make rows OOD.

    Args:
        by: What the split goes by, see `goodformer.data.splits.split.Split`.
        given: Splits that the user gave.
    """
    return UNKNOWN_SHIFT if given or by == RANDOM else SPLIT_NAMES


def worth(metric: str, value: float) -> float:
    """Return a value of a metric such that larger is better, whatever the metric."""
    return -value if metric in LOWER_IS_BETTER else value


def percent(metric: str | None) -> float:
    """Return the factor by which tables show a metric: 100 for shares, 1 for measured units."""
    return 1.0 if metric in LOWER_IS_BETTER else 100.0


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
        kind: ``multiclass`` (``y`` is a class index), ``binary`` (``y`` holds 0, 1 or NaN for each target) or
            ``regression`` (``y`` holds a measured value or NaN for each target).
        outputs: Number of classes, of binary targets, or of measured targets.
        metric: The reported metric: ``accuracy``, ``rocauc`` averaged over targets, or ``rmse``.
        num_envs: Number of training environments, filled in by the benchmark; ``batch.env`` is below it in training.
        centre: Mean of each measured target over the training graphs, filled in by the benchmark.
        scale: Standard deviation of each measured target over the training graphs. A method predicts standardised
            values z; the predicted value is ``centre + scale * z``.
    """

    kind: Literal["multiclass", "binary", "regression"] = "multiclass"
    outputs: int = 3
    metric: Literal["accuracy", "rocauc", "rmse"] = "accuracy"
    num_envs: int = field(default=1, compare=False)
    centre: tuple[float, ...] = field(default=(), compare=False)
    scale: tuple[float, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_name("kind of task", self.kind, KINDS)
        check_name("metric of a task", self.metric, tuple(METRIC_NAMES))
        check_limit("classes", self.outputs, "a task")
        if self.outputs < 1 or self.num_envs < 0:
            raise InputError(f"a task with {self.outputs} outputs cannot be predicted; give at least one.")
        if (self.kind == REGRESSION) != (self.metric == "rmse"):
            raise InputError(f"metric {self.metric} does not suit a {self.kind} task; use rmse for regression alone.")
        for name, numbers in (("centre", self.centre), ("scale", self.scale)):
            if len(numbers) not in (0, self.outputs) or not all(map(math.isfinite, numbers)):
                raise InputError(f"{name} of a task needs one finite number per target; got {numbers!r}.")
        if any(one <= 0 for one in self.scale):
            raise InputError(f"scale of a task must be positive; got {self.scale!r}.")

    @property
    def measured(self) -> bool:
        """Whether the targets are measured values."""
        return self.kind == REGRESSION

    @property
    def units(self) -> tuple[float, ...]:
        """What one unit of RMSE and of the members' spread is for each measured target.

        A single target is reported in its own unit. Several targets are reported in their training standard
        deviations, so that the unit of one does not decide the mean.
        """
        return self.scale if self.outputs > 1 and self.scale else (1.0,) * self.outputs


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
