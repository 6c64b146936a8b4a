"""Sizes of generated benchmarks, as plain arithmetic that needs no tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def good_sizes(shift: str, graphs: int) -> dict[str, int]:
    """Return the number of graphs of each split of GOOD-Motif."""
    if shift == "concept":
        outside = round(0.2 * graphs)
        inside = round(0.15 * (graphs - 2 * outside))
    else:
        outside = inside = round(0.1 * graphs)
    train = graphs - 2 * outside - 2 * inside
    return {"train": train, "id_val": inside, "id_test": inside, "val": outside, "test": outside}


def sp_sizes(graphs: int) -> dict[str, int]:
    """Return the number of graphs of each split of SP-Motif."""
    third = round(graphs / 3)
    return {"train": graphs, "id_val": third, "id_test": third, "val": third, "test": 2 * third}


def generated_sizes(dataset: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the number of graphs of each split of a generated benchmark, None for other data.

    Args:
        dataset: All settings of a data set, with its name; None is also returned if a record lacks those that decide.
    """
    name, shift, graphs = (dataset.get(key) for key in ("name", "shift", "graphs"))
    if graphs is None:
        return None
    if name == "good-motif" and shift is not None:
        return good_sizes(shift, graphs)
    return sp_sizes(graphs) if name == "sp-motif" else None
