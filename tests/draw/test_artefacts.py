"""Which graphs the picture of explanations shows."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from goodformer.data import load_benchmark
from goodformer.draw.artefacts import _examples

DATASET: dict[str, Any] = {"name": "good-motif", "domain": "basis", "graphs": 300}


@pytest.mark.usefixtures("own_cache")
def test_examples_are_the_first_of_each_class_before_the_second_ones() -> None:
    """Against a plain loop over the graphs that are not the largest."""
    test = load_benchmark(**DATASET).splits["test"]
    median = float(test.sizes.float().median())
    places: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for place in range(len(test)):
        if int(test.sizes[place]) <= median:
            places[int(test.graph["y"].flatten()[place])].append(place)
    expected = [places[kind][turn] for turn in range(2) for kind in range(3)][:5]
    run = SimpleNamespace(config=SimpleNamespace(dataset=DATASET))
    found = _examples(cast(Any, run), 5)
    assert [graph.edge_index.tolist() for graph in found] == [test[place].edge_index.tolist() for place in expected]
