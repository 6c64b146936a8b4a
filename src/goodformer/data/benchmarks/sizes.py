"""Sizes of generated benchmarks, as plain arithmetic that needs no tensor library."""

from __future__ import annotations


def good_sizes(shift: str, graphs: int) -> dict[str, int]:
    """Return the number of graphs of each split of GOOD-Motif."""
    if shift == "concept":
        outside = round(0.2 * graphs)
        inside = round(0.15 * (graphs - 2 * outside))
    else:
        outside = inside = round(0.1 * graphs)
    train = graphs - 2 * outside - 2 * inside
    return {"train": train, "id_val": inside, "id_test": inside, "val": outside, "test": outside}
