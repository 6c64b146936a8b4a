from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.explain.explanation import edge_record
from goodformer.explain.subgraph import Undirected, score_edges, shades
from tests.nn.graphs import random_graph

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3], [1, 0, 2, 1, 3, 2, 3, 0]])  # a square
SCORES = torch.tensor([1.0, 3.0, 0.0, 0.0, 5.0, 5.0, 1.0, 2.0])


def test_the_two_directions_of_an_edge_are_averaged() -> None:
    found = score_edges(EDGES, SCORES)
    assert found.ends.T.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert found.scores.tolist() == [2.0, 1.5, 0.0, 5.0]


def test_the_best_edges_come_first_with_their_nodes() -> None:
    found = score_edges(EDGES, SCORES, 2)
    assert found.subgraph.T.tolist() == [[2, 3], [0, 1]]
    assert found.scores[found.order].tolist() == [5.0, 2.0, 1.5, 0.0]
    assert found.chosen.tolist() == [True, False, False, True]
    assert found.nodes.tolist() == [0, 1, 2, 3]
    assert score_edges(EDGES, SCORES, 1).nodes.tolist() == [2, 3]


def test_more_edges_than_there_are_gives_all() -> None:
    assert score_edges(EDGES, SCORES, 99).subgraph.shape == (2, 4)
    nothing = score_edges(torch.empty(2, 0, dtype=torch.long), torch.empty(0), 3)
    assert nothing.subgraph.shape == (2, 0)
    assert nothing.nodes.numel() == 0


def test_too_few_scores_are_an_input_error() -> None:
    with pytest.raises(InputError, match="3 scores for 8 edges"):
        score_edges(EDGES, SCORES[:3], 1)


def test_nodes_are_scored_by_the_averages_of_both_directions() -> None:
    found = score_edges(EDGES, SCORES).node_scores(5)
    pairs = [(2.0, 1.5), (2.0, 0.0), (0.0, 5.0), (1.5, 5.0)]
    assert found[:4].tolist() == pytest.approx([(max(one) + sum(one) / 2) / 2 for one in pairs])
    assert found[4].isnan()


def test_shades_are_stretched_to_the_unit_interval() -> None:
    assert shades(torch.tensor([3.0, torch.nan, 1.0, 2.0])).tolist() == [1.0, 0.0, 0.0, 0.5]
    assert shades(torch.tensor([2.0, 2.0, torch.nan])).tolist() == [0.0, 0.0, 0.0]
    assert shades(torch.empty(0)).tolist() == []


def plain_size(scores: list[float], k: float | None) -> int:
    """How many edges are chosen: ``k`` of them or a share, or by Otsu's threshold; equal scores stay together."""
    row, count = sorted(scores, reverse=True), len(scores)
    if count < 2 or row[0] - row[-1] <= 1e-5 * max(abs(row[0]), abs(row[-1])) or k == 0:
        return 0
    ends = [s for s in range(1, count) if row[s - 1] - row[s] > 1e-5 * (row[0] - row[-1])]
    if k is not None:
        wanted = k if isinstance(k, int) else math.ceil(k * count)
        return min((s for s in ends if s >= wanted), default=count)
    half = [s for s in ends if s <= count / 2] or ends[:1]

    def between(s: int) -> float:
        return s * (count - s) * (fmean(row[:s]) - fmean(row[s:])) ** 2

    largest = max(map(between, half))
    return max(s for s in half if between(s) >= largest * (1 - 1e-9))


def test_the_scores_choose_the_size_and_equal_scores_stay_together() -> None:
    star = torch.tensor([[0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    assert score_edges(star, torch.tensor([9.0, 0.1, 8.5, 0.2, 0.0, 0.3])).nodes.tolist() == [0, 1, 3]
    like = torch.tensor([1.0, 0.2, 1.0, 0.0, 1.0 + 1e-9, 0.1])  # three symmetric edges
    for k in (None, 1, 2, 3, 0.1, 0.5):
        assert score_edges(star, like, k).chosen.tolist() == [True, False, True, False, True, False]
    assert score_edges(star, torch.full((6,), 0.7), 2).size == 0  # no order, no choice
    assert score_edges(star, torch.arange(6.0), 0.33).size == 2


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(0, 12) | st.none() | st.floats(0.01, 0.99),
    ties=st.booleans(),
    known=st.booleans(),
)
def test_many_graphs_at_once_against_a_plain_loop(seed: int, k: float | None, ties: bool, known: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = [Data(edge_index=random_graph(n, 0.5, generator), num_nodes=n) for n in (6, 1, 9, 2)]
    for row in rows:  # one edge is stored twice, of another a direction is missing
        row.edge_index = torch.cat((row.edge_index[:, 1:], row.edge_index[:, :1], row.edge_index[:, -1:]), 1)
        if known:
            row.edge_truth = (row.edge_index < 4).all(0)
    graphs = GraphSet.from_list(rows)
    scores = torch.rand(int(graphs.edge_ptr[-1]), generator=generator).double()
    scores = (4 * scores).round() / 4 if ties else scores
    pairs = Undirected.of(graphs)
    mean = pairs.mean(scores)
    sizes = pairs.sizes(mean, k, graphs.edge.get("truth"))
    chosen = pairs.best(mean, sizes)
    start = 0
    for place, (row, score) in enumerate(zip(rows, scores.split(graphs.edge_ptr.diff().tolist()), strict=True)):
        by_pair: dict[tuple[int, ...], list[float]] = {}
        for (u, v), value in zip(row.edge_index.T.tolist(), score.tolist(), strict=True):
            by_pair.setdefault((min(u, v), max(u, v)), []).append(value)
        means = {pair: sum(by_pair[pair]) / len(by_pair[pair]) for pair in sorted(by_pair)}
        wanted = plain_size(list(means.values()), sum(v < 4 for _, v in means) if known and k is None else k)
        best = sorted(means, key=lambda pair: (-means[pair], pair))[:wanted]
        stretch = slice(start, start + len(means))
        start += len(means)
        assert (pairs.ends[:, stretch] - graphs.node_ptr[place]).T.tolist() == [list(pair) for pair in means]
        assert mean[stretch].tolist() == pytest.approx(list(means.values()))
        assert (int(sizes[place]), int(pairs.counts[place])) == (wanted, len(means))
        alone = score_edges(row.edge_index, score, k, row.get("edge_truth"))
        assert alone.size == wanted
        assert [one for one, taken in zip(means, chosen[stretch].tolist(), strict=True) if taken] == sorted(best)
        if wanted and not ties:
            assert alone.subgraph.T.tolist() == [list(pair) for pair in best]


def test_a_record_keeps_the_inputs_own_numbers() -> None:
    graph = Data(edge_index=EDGES, num_nodes=5)
    record = edge_record(graph, SCORES, k=1)
    assert record["edges"] == [[2, 3], [0, 1], [0, 3], [1, 2]]
    assert record["scores"] == [5.0, 2.0, 1.5, 0.0]
    assert (record["k"], record["subgraph_nodes"], record["num_nodes"]) == (1, [2, 3], 5)
    assert record["node_scores"] == [1.875, 1.5, 3.75, 4.125, None]
    assert record["node_shades"] == pytest.approx([1 / 7, 0.0, 6 / 7, 1.0, 0.0], abs=1e-5)
    assert edge_record(graph, SCORES)["k"] == 1  # 5 stands out from 2, 1.5 and 0
    lonely = edge_record(Data(edge_index=EDGES[:, :0], num_nodes=1), SCORES[:0])
    assert (lonely["edges"], lonely["k"], lonely["node_scores"]) == ([], 0, [None])
