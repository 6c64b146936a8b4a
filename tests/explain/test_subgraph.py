from __future__ import annotations

import pytest
import torch

from goodformer.explain.subgraph import symmetric_scores, top_subgraph
from goodformer.registry import InputError

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3], [1, 0, 2, 1, 3, 2, 3, 0]])  # a square
SCORES = torch.tensor([1.0, 3.0, 0.0, 0.0, 5.0, 5.0, 1.0, 2.0])


def test_the_two_directions_of_an_edge_are_averaged() -> None:
    edges, scores = symmetric_scores(EDGES, SCORES)
    assert edges.T.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert scores.tolist() == [2.0, 1.5, 0.0, 5.0]


def test_the_best_edges_come_first_with_their_nodes() -> None:
    found = top_subgraph(EDGES, SCORES, 2)
    assert found.edges.T.tolist() == [[2, 3], [0, 1]]
    assert found.scores.tolist() == [5.0, 2.0]
    assert found.nodes.tolist() == [0, 1, 2, 3]
    assert top_subgraph(EDGES, SCORES, 1).nodes.tolist() == [2, 3]


def test_more_edges_than_there_are_gives_all() -> None:
    assert top_subgraph(EDGES, SCORES, 99).edges.shape == (2, 4)
    nothing = top_subgraph(torch.empty(2, 0, dtype=torch.long), torch.empty(0), 3)
    assert nothing.edges.shape == (2, 0)
    assert nothing.nodes.numel() == 0


def test_bad_requests_are_input_errors() -> None:
    with pytest.raises(InputError, match="k = 1 or more"):
        top_subgraph(EDGES, SCORES, 0)
    with pytest.raises(InputError, match="one score an edge"):
        top_subgraph(EDGES, SCORES[:3], 1)
