"""Precision@10 of the inputs alone, against a loop over graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from goodformer.data import load_benchmark
from goodformer.transforms import encode
from lab.inputs import measure


def test_edges_are_ranked_by_the_smaller_input_of_their_ends() -> None:
    dataset: dict[str, Any] = {"name": "good-motif", "domain": "basis", "graphs": 150}
    graphs = load_benchmark(**dataset).splits["test"]
    walks = encode("cycle_walks:6", graphs.structure()).sum(1)
    random, hits = np.random.default_rng(0), []
    for graph in range(len(graphs)):
        edges = slice(int(graphs.edge_ptr[graph]), int(graphs.edge_ptr[graph + 1]))
        ends = walks[graphs.edge_index[:, edges]].amin(0)
        truth = graphs.edge["truth"][edges]
        draws = []
        for _ in range(200):  # ties in random order
            best = torch.from_numpy(np.lexsort((random.random(len(ends)), -ends.numpy()))[:10])
            draws.append(float(truth[best].sum()) / 10)
        hits.append(np.mean(draws))
    found = measure(dataset)
    assert found["graphs"] == len(graphs)
    assert found["precision_at_10"] == pytest.approx(np.mean(hits), abs=0.01)
