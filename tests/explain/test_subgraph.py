from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from goodformer.data.graphs import GraphSet
from goodformer.explain.record import edge_record
from goodformer.explain.subgraph import (
    Undirected,
    node_scores,
    shades,
    subgraph_size,
    subgraph_sizes,
    symmetric_scores,
    top_subgraph,
)
from goodformer.registry import InputError
from tests.nn.graphs import random_graph

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


def test_a_node_scores_the_mean_of_its_edges_and_nothing_without_one() -> None:
    found = node_scores(EDGES, SCORES, 5)
    assert found[:4].tolist() == pytest.approx([(2.0 + 1.5) / 2, (2.0 + 0.0) / 2, (0.0 + 5.0) / 2, (1.5 + 5.0) / 2])
    assert found[4].isnan()
    loop = node_scores(torch.tensor([[0, 0], [0, 1]]), torch.tensor([4.0, 2.0]), 2)
    assert loop.tolist() == [3.0, 2.0]


def test_shades_are_stretched_to_the_unit_interval() -> None:
    assert shades(torch.tensor([3.0, torch.nan, 1.0, 2.0])).tolist() == [1.0, 0.0, 0.0, 0.5]
    assert shades(torch.tensor([2.0, 2.0, torch.nan])).tolist() == [0.0, 0.0, 0.0]
    assert shades(torch.empty(0)).tolist() == []


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(0, 12), ties=st.booleans())
def test_many_graphs_at_once_are_those_one_by_one(seed: int, k: int, ties: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = [Data(edge_index=random_graph(n, 0.5, generator), num_nodes=n) for n in (6, 1, 9, 2)]
    for row in rows:  # an edge stored twice and one of which a direction is missing are edges all the same
        row.edge_index = torch.cat((row.edge_index[:, 1:], row.edge_index[:, :1], row.edge_index[:, -1:]), 1)
    graphs = GraphSet.from_list(rows)
    scores = torch.rand(int(graphs.edge_ptr[-1]), generator=generator)
    scores = scores.round(decimals=1) if ties else scores
    pairs = Undirected.of(graphs)
    mean, chosen = pairs.mean(scores), pairs.best(pairs.mean(scores), torch.full((4,), k))
    start = 0
    for place, (row, score) in enumerate(zip(rows, scores.split(graphs.edge_ptr.diff().tolist()), strict=True)):
        edges, alone = symmetric_scores(row.edge_index, score)
        stretch = slice(start, start + len(alone))
        assert int(pairs.counts[place]) == edges.shape[1]
        torch.testing.assert_close(mean[stretch], alone)
        best = top_subgraph(row.edge_index, score, k).places.tolist() if k else []
        assert chosen[stretch].nonzero()[:, 0].tolist() == sorted(best)
        start += len(alone)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("k", [None, 0, 2, 99])
def test_sizes_of_many_graphs_are_those_one_by_one(known: bool, k: int | None) -> None:
    generator = torch.Generator().manual_seed(1)
    rows = [Data(edge_index=random_graph(n, 0.5, generator), num_nodes=n) for n in (6, 1, 9, 2)]
    if known:
        for row in rows:
            row.edge_truth = (row.edge_index < 4).all(0)
    graphs = GraphSet.from_list(rows)
    most = Undirected.of(graphs).counts.tolist()
    expected = [min(subgraph_size(row, k), count) for row, count in zip(rows, most, strict=True)]
    assert subgraph_sizes(graphs, k).tolist() == expected


def test_a_record_keeps_the_inputs_own_numbers() -> None:
    graph = Data(edge_index=EDGES, num_nodes=5)
    record = edge_record(graph, SCORES, k=1)
    assert record["edges"] == [[2, 3], [0, 1], [0, 3], [1, 2]]
    assert record["scores"] == [5.0, 2.0, 1.5, 0.0]
    assert (record["k"], record["subgraph_nodes"], record["num_nodes"]) == (1, [2, 3], 5)
    assert record["node_scores"] == [1.75, 1.0, 2.5, 3.25, None]
    assert record["node_shades"] == pytest.approx([1 / 3, 0.0, 2 / 3, 1.0, 0.0], abs=1e-5)
    assert edge_record(graph, SCORES)["k"] == 2  # a third of four, rounded up
    lonely = edge_record(Data(edge_index=EDGES[:, :0], num_nodes=1), SCORES[:0])
    assert (lonely["edges"], lonely["k"], lonely["node_scores"]) == ([], 0, [None])
