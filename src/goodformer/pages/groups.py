"""Errors of a model by scaffold of molecules, or by domain of other graphs: where it fails, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goodformer.data.readers.values import counted
from goodformer.data.splits.domains import NO_RING
from goodformer.pages import page, statistics

SCAFFOLD = "scaffold"
HELD_OUT = ("test", "val", "id_test")
"""Parts that the model was not fitted to."""
LISTED = 12
"""Groups that are listed."""
ROWS = 5
"""Rows of a group that are named."""
CHANCE = 0.05
"""Probability from which a difference of errors may be chance."""


@dataclass
class Group:
    """Held-out rows with the same scaffold or domain.

    Attributes:
        name: The scaffold or the domain.
        errors: Error of each row, see `row_errors`.
        parts: Keys of the parts that the rows are from.
        rows: Where the rows with an error come from, with the error.
    """

    name: str
    errors: list[float] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    rows: list[tuple[float, int | str]] = field(default_factory=list)


def breakdown(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the table of groups that a page shows; None if the rows have no groups, or a single one.

    Groups are ordered by what they cost: the sum of their errors beyond that of as many average rows. Those with a
    single held-out row are not listed if others have more: their error says nothing about the group.

    Args:
        found: Evidence, see `goodformer.pages.evidence.gather`.
    """
    groups = list(gathered(found).values())
    if len(groups) < 2 or not found["grouped"]:
        return None
    classes = any(target["classes"] for target in found["targets"])
    whole = [error for group in groups for error in group.errors]
    mean = sum(whole) / len(whole)
    several = [group for group in groups if len(group.errors) > 1] or groups
    costly = sorted(several, key=lambda group: len(group.errors) * mean - sum(group.errors))[:LISTED]
    listed = [group for group in costly if sum(group.errors) > len(group.errors) * mean]
    others = [error for group in groups if group not in listed for error in group.errors]
    by = found["grouped"]
    return {
        "by": by,
        "what": "share wrong" if classes else "mean absolute error",
        "sentence": sentence(found, groups, classes),
        "drawn": by == SCAFFOLD and found["similarity"] != "distance",
        "rows": [row(found, group, classes) for group in listed],
        "unit": "Errors are in training standard deviations." if not classes and len(found["targets"]) > 1 else "",
        "others": f"The other {len(groups) - len(listed)} have {counted(len(others), 'row')}: {said(others, classes)}."
        if others and listed
        else "",
    }


def gathered(found: Mapping[str, Any]) -> dict[str, Group]:
    """Return the groups of the labelled held-out rows by name."""
    groups: dict[str, Group] = {}
    for part in HELD_OUT:
        table = found["parts"].get(part)
        if table is None or table["group"] is None:
            continue
        for name, error, where in zip(table["group"], row_errors(found, table), table["row"], strict=True):
            if error is not None:
                group = groups.setdefault(name, Group(name))
                group.errors.append(error)
                group.parts.add(part)
                if error > 0:
                    group.rows.append((error, where))
    return groups


def row_errors(found: Mapping[str, Any], table: Mapping[str, Any]) -> list[float | None]:
    """Return the error of each row, averaged over its labelled targets; None without a label.

    A wrong class counts 1. The error of a measured value is absolute, in training standard deviations if there are
    several targets.
    """
    targets, errors = found["targets"], []
    scale = found["scale"] if len(targets) > 1 else [1.0]
    for labels, answers in zip(zip(*table["label"], strict=True), zip(*table["predicted"], strict=True), strict=True):
        known = [
            float(label != answer) if target["classes"] else abs(label - answer) / size
            for target, size, label, answer in zip(targets, scale, labels, answers, strict=False)
            if label is not None and answer is not None
        ]
        errors.append(sum(known) / len(known) if known else None)
    return errors


def sentence(found: Mapping[str, Any], groups: Sequence[Group], classes: bool) -> str:
    """Return the error on groups that training has beside that on new ones."""
    by, before = found["grouped"], found["train_groups"]
    sides, compared = [], list[list[float]]()
    for words, new in ((f"whose {by} training has", False), (f"with a new {by}", True)):
        errors = [error for group in groups if (group.name not in before) == new for error in group.errors]
        if errors:
            sides.append(f"{counted(len(errors), 'row')} {words}: {said(errors, classes)}")
            compared.append(errors)
    chance = (
        " The difference may be chance." if len(sides) == 2 and may_be_chance(compared[0], compared[1], classes) else ""
    )
    return f"Held-out rows: {'; '.join(sides)}.{chance}"


def may_be_chance(some: Sequence[float], others: Sequence[float], classes: bool) -> bool:
    """Return whether a test at 5 % does not separate the errors of two groups of rows."""
    from scipy.stats import fisher_exact, mannwhitneyu

    if classes and {*some, *others} <= {0.0, 1.0}:
        table = [[sum(errors), len(errors) - sum(errors)] for errors in (some, others)]
        return bool(fisher_exact(table).pvalue >= CHANCE)
    return bool(mannwhitneyu(some, others).pvalue >= CHANCE)


def said(errors: Sequence[float], classes: bool) -> str:
    """Return an error in words, of classes with its interval."""
    mean = sum(errors) / len(errors)
    if not classes:
        return f"mean absolute error {page.number(mean)}"
    if not set(errors) <= {0.0, 1.0}:  # several targets
        return f"{mean:.1%} wrong"
    low, high = statistics.wilson(int(sum(errors)), len(errors))
    return f"{mean:.1%} wrong (95 % interval {low:.1%} to {high:.1%})"


def row(found: Mapping[str, Any], group: Group, classes: bool) -> dict[str, Any]:
    """Return one line of the table."""
    worst = [where for _, where in sorted(group.rows, key=lambda one: -one[0])]
    more = ", ..." if len(worst) > ROWS else ""
    drawn = found["grouped"] == SCAFFOLD and found["similarity"] != "distance" and group.name != NO_RING
    return {
        "name": group.name,
        "drawing": page.scaffold(group.name) if drawn else "",
        "rows": len(group.errors),
        "error": sum(group.errors) / len(group.errors),
        "training": found["train_groups"].get(group.name, 0),
        "parts": ", ".join(found["names"][part] for part in HELD_OUT if part in group.parts),
        "worst": ", ".join(map(str, worst[:ROWS])) + more,
    }
