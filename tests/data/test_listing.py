"""What is known about a data set before it is loaded."""

from __future__ import annotations

import pytest

from goodformer.data import DATASETS, load_benchmark
from goodformer.data.listing import HEADINGS, HINTS, glance, sections


def test_headings_of_a_docstring() -> None:
    text = (
        "A thing: in short.\n\nSplits:\n    covariate: one\n    and two.\nLabel: yes\n    or `no`.\n\n"
        "Statistics (all): 3 graphs,\n4 nodes."
    )
    assert sections(text) == {
        "Splits": "covariate: one and two.",
        "Label": "yes or no.",
        "Statistics": "(all): 3 graphs, 4 nodes.",
    }


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_data_set_documents_itself(name: str) -> None:
    found = sections(DATASETS.describe(name).about)
    assert set(HEADINGS) - {"Task"} <= set(found)
    assert all(found.values())
    row = glance(name)
    assert row["about"].endswith(".")
    assert row["domains"]
    assert all(setting.help.endswith(".") for setting in DATASETS.settings(name).values())


@pytest.mark.parametrize("name", ["good-motif", "sp-motif"])
def test_the_task_in_the_list_is_the_task_that_is_loaded(name: str) -> None:
    task = load_benchmark(name, graphs=150).task
    assert glance(name)["task"] == f"{task.outputs} classes, {task.metric}"


def test_domains_are_choices_or_come_from_the_docstring() -> None:
    assert glance("good-motif")["domains"] == "basis, size"
    assert glance("sp-motif")["domains"] == "the kind of base"


def test_hints_are_for_registered_names() -> None:
    assert set(HINTS) <= set(DATASETS)
