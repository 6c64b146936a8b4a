"""What is known about a data set before its graphs are loaded: the headings of its docstring."""

from __future__ import annotations

import re

from goodformer.data import DATASETS

HEADINGS = ("Splits", "Input", "Label", "Task", "Domain", "Source", "Licence", "Statistics")
"""Headings in the docstring of a data set."""

HINTS = {
    "table": "give your file and the column to predict: "
    "goodformer datasets show table --set path=my.csv --set target=active",
    "memory": "goodformer.GraphClassifier().fit(graphs, labels) makes it in Python; for a file, use the data set table",
}
"""How to use the data sets that hold the user's own data."""


def sections(text: str) -> dict[str, str]:
    """Return the text under each of the `HEADINGS` of a docstring."""
    parts = re.split(rf"^({'|'.join(HEADINGS)})\b:?", text.replace("`", ""), flags=re.MULTILINE)
    return {heading: " ".join(body.split()) for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def glance(name: str) -> dict[str, str]:
    """Return one line about a data set: name, first sentence, domains, task and metric."""
    described = DATASETS.describe(name)
    found = sections(described.about)
    choices = next((one.choices for one in described.settings if one.name == "domain"), ())
    domains = ", ".join(map(str, choices)) or re.split(r"[.:;]", found.get("Domain", ""))[0]
    return {
        "name": name,
        "about": described.about.partition("\n")[0],
        "domains": domains[:1].lower() + domains[1:] or "see its card",
        "task": found.get("Task", "see its card").rstrip("."),
    }
