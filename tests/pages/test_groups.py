"""Errors by scaffold or domain, against numbers counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goodformer.data.molecule import featurise
from goodformer.data.splits.domains import NO_RING
from goodformer.pages import evidence, groups
from goodformer.spec import SPLIT_NAMES

CLASSES = [{"name": "y", "classes": ["no", "yes"]}]


def part(group: list[str], label: list[Any], predicted: list[Any]) -> dict[str, Any]:
    return {"group": group, "label": [label], "predicted": [predicted], "row": list(range(1, len(group) + 1))}


def found(parts: dict[str, Any], targets: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    known = {"grouped": "size", "similarity": "distance", "train_groups": {"a": 7}, "scale": [1.0, 2.0]}
    return {**known, "names": SPLIT_NAMES, "targets": targets, "parts": parts, **more}


def test_groups_are_ordered_by_what_they_cost_and_rows_without_label_do_not_count() -> None:
    test = part(list("aaaabbbcd"), [1, 1, 1, 1, 1, 1, 1, 0, None], [0, 1, 1, 1, 0, 0, 1, 1, 1])
    val = part(list("b"), [1], [0])
    made = groups.breakdown(found({"test": test, "val": val}, CLASSES))
    assert made is not None
    (row,) = made["rows"]  # 5 of 9 are wrong; b: 3 of 4; a: 1 of 4; c and d have a single row
    assert (row["name"], row["rows"], row["error"], row["training"]) == ("b", 4, 0.75, 0)
    assert (row["parts"], row["worst"]) == ("OOD test, OOD validation", "5, 6, 1")
    assert "4 rows whose size training has: 25.0% wrong" in made["sentence"]
    assert "5 rows with a new size: 80.0% wrong" in made["sentence"]
    assert "The other 2 have 5 rows: 40.0% wrong" in made["others"]


def test_single_rows_are_listed_if_no_group_has_more() -> None:
    made = groups.breakdown(found({"test": part(list("abc"), [1, 1, 0], [1, 0, 0])}, CLASSES))
    assert made is not None
    assert [row["name"] for row in made["rows"]] == ["b"]


@pytest.mark.parametrize("grouped", ["", "size"])
def test_rows_without_groups_or_with_a_single_one_have_no_table(grouped: str) -> None:
    names = list("ab") if not grouped else list("aa")
    assert groups.breakdown(found({"test": part(names, [1, 0], [0, 0])}, CLASSES, grouped=grouped)) is None


def test_measured_values_have_absolute_errors_in_standard_deviations_if_there_are_several() -> None:
    targets = [{"name": name, "classes": []} for name in "xy"]
    table = {"group": ["a", "b"], "row": [1, 2], "label": [[1.0, 2.0], [4.0, None]]}
    table["predicted"] = [[1.5, 2.0], [0.0, 3.0]]
    assert groups.row_errors(found({}, targets), table) == [(0.5 + 4.0 / 2) / 2, 0.0]
    single = {**table, "label": table["label"][1:], "predicted": table["predicted"][1:]}
    assert groups.row_errors(found({}, targets[1:]), single) == [4.0, None]


def test_a_page_of_molecules_shows_the_errors_of_scaffolds(opened: Callable[..., Any], nitro: dict[str, Any]) -> None:
    kept = evidence.load(Path(nitro["folder"]))
    table = kept["parts"]["test"]
    assert table["group"] == [one or NO_RING for one in featurise(table["smiles"]).parsed.scaffolds()]
    made = groups.breakdown(kept)
    assert made is not None
    with opened(Path(nitro["page"])) as page:
        assert made["sentence"] in page.inner_text("main")
        rows = page.query_selector_all("#group-table tbody tr")
        assert [row.query_selector_all("td")[1].inner_text() for row in rows] == [row["name"] for row in made["rows"]]
        drawn = [row.query_selector("svg.drawing") is not None for row in rows]
        assert drawn == [row["name"] != NO_RING for row in made["rows"]]


def test_one_auroc_per_part_on_the_page_and_in_the_report(nitro: dict[str, Any]) -> None:
    kept = evidence.load(Path(nitro["folder"]))
    for name, one in kept["separation"].items():
        known = nitro["distance"]["parts"][name]
        assert (one["auroc"], one["nearest"]) == (known["auroc"], known["nearest_mean"])
        assert one["nearest"] == pytest.approx(
            sum(kept["parts"][name]["nearest"]) / len(kept["parts"][name]["row"]), abs=1e-3
        )


def test_a_difference_between_groups_may_be_chance() -> None:
    few, many = ([1.0] * 4 + [0.0] * 6, [1.0] * 2 + [0.0] * 8), ([1.0] * 40 + [0.0] * 60, [1.0] * 20 + [0.0] * 80)
    assert groups.may_be_chance(*few, classes=True)
    assert not groups.may_be_chance(*many, classes=True)
    assert groups.may_be_chance([0.1, 0.5, 0.3], [0.2, 0.4, 0.6], classes=False)
    assert not groups.may_be_chance([0.1 * n for n in range(20)], [5 + 0.1 * n for n in range(20)], classes=False)
