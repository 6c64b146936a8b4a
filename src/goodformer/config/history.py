"""Settings that were added, renamed or removed after the first records, so that old records keep their run ids.

A run keeps its id as long as it computes the same. A setting added later does not enter the hash while it has the value
that stands for what was computed before. A renamed setting is hashed under its old name and value, and old names are
read as new ones. A removed setting is dropped if it has the value that stands for what is computed now. A value that
was added to an existing setting needs no entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goodformer.errors import InputError
from goodformer.methods import METHODS

_ENVIRONMENTS: dict[str, Any] = {"environments": 0, "environment_table": 2048, "environment_dropout": 0.0}

ADDED: dict[tuple[str, str | None], dict[str, Any]] = {
    ("dataset", "table"): {
        **{"val": "", "test": "", "val_sha256": "", "test_sha256": "", "standardise": "none"},
        "task": "auto",
    },
    ("training", None): {
        "sampling": "uniform",
        "optimizer": "adam",
        "milestones": [],
        "warmup": 0.0,
        "perfect_patience": None,
        "stop_after": None,
        "teacher_share": 0.0,
    },
    ("model", "goodformer"): {
        "edge_vector": False,
        "local_width": 1,
        "attention_start": "linear",
        "half": "sum",
        "halves": "together",
        "message_weight": "mask",
        "encoder": "residual",
        "encoder_noise": "shared",
        "second_readout": True,
        "explained_by": "first",
        **_ENVIRONMENTS,
    },
    **{("model", name): _ENVIRONMENTS for name in ("gin", "gin-vn", "graphormer", "gps", "exphormer")},
    ("model", "fingerprint"): {"pairs": 0, "properties": 0, "reach": 10},
    ("method", "goodformer"): {"edge_score": "logits"},
    ("method", "dir"): {"generator": "network", "scorer": "mlp"},
    ("method", "ciga"): {"generator": "network", "scorer": "mlp"},
    ("method", "imold"): {"head": "linear"},
    ("method", "blend"): {"shift": False, "mean": "probabilities"},
    **{("method", name): {"sharing": 0.0} for name in ("forest", "linear")},
}
"""Settings added later, by part and name, with the value that stands for what was computed before."""

RENAMED: dict[tuple[str, str | None], dict[str, tuple[str, dict[Any, Any]]]] = {
    ("method", "goodformer"): {
        "variant_gradient": ("variant_path", {1.0: "flowing", 0.0: "cut", -1.0: "reversed"}),
    },
}
"""Settings renamed later, by part and name: old name to new name, and each old value to its new one."""

REMOVED: dict[tuple[str, str | None], dict[str, tuple[Any, str]]] = {
    ("training", None): {"batches": ("random", "attention now groups the graphs of a batch by size itself")},
}
"""Settings removed later, by part and name: the value that stands for what is computed now, and why it was removed."""


def current(part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one part of a configuration under today's names.

    An old value of a renamed setting without a new one stays under its old name, which the check of the settings then
    refuses.
    """
    today = dict(settings)
    for old, (value, reason) in REMOVED.get((part, today.get("name")), {}).items():
        if old in today and today.pop(old) != value:
            raise InputError(f"{part}: {old} = {settings[old]!r} is no longer accepted: {reason}; remove this setting.")
    for old, (new, values) in RENAMED.get((part, today.get("name")), {}).items():
        if old in today and isinstance(today[old], float | int | str) and today[old] in values:
            today[new] = values[today.pop(old)]
    return today


def hashed(part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one part of a configuration in the form that its run id is computed from."""
    key = (part, settings.get("name"))
    added = ADDED.get(key, {})
    form = {name: value for name, value in settings.items() if added.get(name, ...) != value}
    for old, (new, values) in RENAMED.get(key, {}).items():
        before = {today: value for value, today in values.items()}
        if form.get(new) in before:
            form[old] = before[form.pop(new)]
    return form


def at_once(name: object) -> bool:
    """Return whether a method of that name is fitted at once.

    Of the settings of training, its results depend on the selection alone.
    """
    return isinstance(name, str) and name in METHODS and "at_once" in METHODS.describe(name).flags
