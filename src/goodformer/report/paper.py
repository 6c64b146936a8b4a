"""Published numbers: those of the paper and of the GOOD leaderboard, from ``paper.yaml``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

Pair = tuple[float, float]
"""Mean and standard deviation; accuracies and ROC-AUC in %."""

PAPER_SETTINGS: dict[str, Mapping[str, Any]] = {
    "drugood": {"measurement": "ic50", "noise": "core"},
    "good-sst2": {"vectors": "bert"},
    "good-twitter": {"vectors": "bert"},
}
"""Settings under which a data set is the paper's; its numbers do not apply to other settings."""


@cache
def read_numbers(file: str = "paper.yaml") -> dict[str, Any]:
    """Return the mapping in a YAML file of this package."""
    tree: dict[str, Any] = _read(file)
    return tree


@cache
def read_list(file: str) -> list[dict[str, Any]]:
    """Return the list in a YAML file of this package."""
    entries: list[dict[str, Any]] = _read(file)
    return entries


def _read(file: str) -> Any:
    text = resources.files("goodformer.report").joinpath(file).read_text("utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def published(metric: str, dataset: Mapping[str, Any], row: str) -> Pair | None:
    """Return the number in the paper, None if it has none.

    Args:
        metric: ``ood_test`` or ``precision_at_10``.
        dataset: All settings of a data set, with its name.
        row: Name of a row of the paper's tables.
    """
    theirs = {"shift": "covariate", **PAPER_SETTINGS.get(dataset["name"], {})}
    if any(dataset.get(name, value) != value for name, value in theirs.items()):
        return None
    return _pair(metric, dataset, row)


PREDICTOR = "goodformer:mlp-predictor"
"""The row of the paper's table of predictors, beside GOODFormer; other presets are rows of its ablations."""


def is_whole_table(metric: str, dataset: Mapping[str, Any], rows: Collection[str]) -> bool:
    """Return whether some rows are all rows of one of the paper's tables: the best of a selection need not be the best.

    Args:
        metric: ``ood_test`` or ``precision_at_10``; all others are never whole, as the GOOD leaderboard has more rows.
        dataset: All settings of a data set, with its name.
        rows: Names of rows whose published numbers are shown.
    """
    known = set(read_numbers().get(metric, {}).get(_key(dataset), ()))
    variants = {row for row in known if ":" in row}
    tables = (known - variants, {"goodformer", *variants} - {PREDICTOR}, {"goodformer", PREDICTOR} & known)
    return metric != "concept" and set(rows) in tables


def leaderboard(dataset: Mapping[str, Any], row: str) -> Pair | None:
    """Return the number of the GOOD leaderboard for concept shift, None if it has none."""
    return _pair("concept", dataset, row) if dataset.get("shift") == "concept" else None


def seconds(dataset: Mapping[str, Any], row: str, what: str) -> float | None:
    """Return the paper's seconds per epoch of ``training`` or ``inference``."""
    found: dict[str, float] = read_numbers()["seconds_per_epoch"].get(_key(dataset), {}).get(row, {})
    return found.get(what)


def training_graphs(dataset: Mapping[str, Any]) -> int | None:
    """Return the paper's number of training graphs of a data set."""
    found: int | None = read_numbers()["training_graphs"].get(_key(dataset))
    return found


def _pair(table: str, dataset: Mapping[str, Any], row: str) -> Pair | None:
    found = read_numbers()[table].get(_key(dataset), {}).get(row)
    return None if found is None else (found[0], found[1])


def _key(dataset: Mapping[str, Any]) -> str:
    """Return the key of a benchmark in ``paper.yaml``: its name and its domain or bias."""
    return f"{dataset['name']}/{dataset.get('domain', dataset.get('bias'))}"
