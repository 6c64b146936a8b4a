"""Settings that were added or renamed after the first records, so that old records keep their run ids.

A run keeps its id as long as it computes the same. A setting added later does not enter the hash while it has the value
that stands for what was computed before. A renamed setting is hashed under its old name and value, and old names are
read as new ones. A value that was added to an existing setting needs no entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ENVIRONMENTS: dict[str, Any] = {"environments": 0, "environment_table": 2048, "environment_dropout": 0.0}

ADDED: dict[tuple[str, str | None], dict[str, Any]] = {
    ("training", None): {"batches": "random"},
    ("model", "goodformer"): {
        "edge_vector": False,
        "local_width": 1,
        "attention_start": "linear",
        "half": "sum",
        "halves": "together",
        "encoder": "residual",
        "encoder_noise": "shared",
        "second_readout": True,
        "explained_by": "first",
        **_ENVIRONMENTS,
    },
    **{("model", name): _ENVIRONMENTS for name in ("gin", "gin-vn", "graphormer", "gps", "exphormer")},
    ("method", "goodformer"): {"edge_score": "logits"},
}
"""Settings added later, by part and name, with the value that stands for what was computed before."""

RENAMED: dict[tuple[str, str | None], dict[str, tuple[str, dict[Any, Any]]]] = {
    ("method", "goodformer"): {
        "variant_gradient": ("variant_path", {1.0: "flowing", 0.0: "cut", -1.0: "reversed"}),
    },
}
"""Settings renamed later, by part and name: old name to new name, and each old value to its new one."""


def current(part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one part of a configuration under today's names.

    An old value without a new one stays under its old name, which the check of the settings then refuses.
    """
    today = dict(settings)
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
