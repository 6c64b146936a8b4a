"""The figures of the paper, to stand beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

Figure = tuple[float, float]
"""Mean and standard deviation; accuracies and ROC-AUC in %."""

THEIRS: dict[str, Mapping[str, Any]] = {
    "drugood": {"measurement": "ic50", "noise": "core"},
    "good-sst2": {"vectors": "bert"},
    "good-twitter": {"vectors": "bert"},
}
"""Settings under which a data set is the paper's; beside other data its figures do not stand."""


@cache
def _figures() -> dict[str, Any]:
    """What ``paper.yaml`` holds."""
    text = resources.files("goodformer.report").joinpath("paper.yaml").read_text("utf-8")
    tree: dict[str, Any] = yaml.safe_load(text)
    return tree


def published(figure: str, dataset: Mapping[str, Any], row: str) -> Figure | None:
    """What the paper reports, None where it reports nothing.

    Args:
        figure: ``ood_test`` or ``precision_at_10``.
        dataset: All settings of a data set, with its name.
        row: Name of a row of the paper's tables.
    """
    theirs = {"shift": "covariate", **THEIRS.get(dataset["name"], {})}
    if any(dataset.get(name, value) != value for name, value in theirs.items()):
        return None
    return _figure(figure, dataset, row)


def leaderboard(dataset: Mapping[str, Any], row: str) -> Figure | None:
    """What the leaderboard of the GOOD benchmark reports for concept shift, None where it reports nothing."""
    return _figure("concept", dataset, row) if dataset.get("shift") == "concept" else None


def seconds(dataset: Mapping[str, Any], row: str, what: str) -> float | None:
    """Seconds an epoch that the paper reports for ``training`` or ``inference``."""
    found: dict[str, float] = _figures()["seconds_per_epoch"].get(_key(dataset), {}).get(row, {})
    return found.get(what)


def training_graphs(dataset: Mapping[str, Any]) -> int | None:
    """The number of training graphs that the paper reports of a data set."""
    found: int | None = _figures()["training_graphs"].get(_key(dataset))
    return found


def _figure(table: str, dataset: Mapping[str, Any], row: str) -> Figure | None:
    """Mean and deviation in a table of the file of figures."""
    found = _figures()[table].get(_key(dataset), {}).get(row)
    return None if found is None else (found[0], found[1])


def _key(dataset: Mapping[str, Any]) -> str:
    """A benchmark as the file of figures names it: with its domain, or with its bias."""
    return f"{dataset['name']}/{dataset.get('domain', dataset.get('bias'))}"
