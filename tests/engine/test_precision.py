from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

from goodformer.engine.precision import edge_auc, graph_precision, node_scores


def naive(scores: list[float], truth: list[bool], k: int) -> float:
    """Expected hits of one graph over all orders of tied edges, by trying tied edges one by one."""
    if not any(truth):
        return math.nan
    ranked = sorted(zip(scores, truth, strict=True), key=lambda pair: -pair[0])
    hits, free = 0.0, k
    for _, group in itertools.groupby(ranked, key=lambda pair: pair[0]):
        tied = [hit for _, hit in group]
        taken = min(free, len(tied))
        hits += taken * sum(tied) / len(tied)
        free -= taken
    return hits / k


edges = st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.25, 0.5, 1.0, -3.0]), st.booleans())


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(edges, max_size=60), k=st.integers(1, 12))
def test_precision_is_that_of_a_plain_loop(rows: list[tuple[int, float, bool]], k: int) -> None:
    graph = torch.tensor([row[0] for row in rows], dtype=torch.long)
    scores, truth = torch.tensor([row[1] for row in rows]), torch.tensor([row[2] for row in rows], dtype=torch.bool)
    found = graph_precision(scores, truth, graph, 6, k)
    expected = [naive([r[1] for r in rows if r[0] == g], [r[2] for r in rows if r[0] == g], k) for g in range(6)]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.double), equal_nan=True)


def sample(ties: bool) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(500, generator=generator)
    truth = torch.rand(500, generator=generator) < 0.3
    return (scores.round() if ties else scores), truth


@pytest.mark.parametrize("ties", [False, True])
def test_edge_auc_is_scikit_learns(ties: bool) -> None:
    scores, truth = sample(ties)
    assert edge_auc(scores, truth) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)


def test_edge_auc_needs_both_kinds_of_edges() -> None:
    assert math.isnan(edge_auc(torch.rand(4), torch.ones(4)))
    assert math.isnan(edge_auc(torch.empty(0), torch.empty(0)))


def test_a_perfect_score_reaches_one_and_a_constant_one_the_base_rate() -> None:
    truth = torch.arange(40) < 12
    graph = torch.zeros(40, dtype=torch.long)
    assert float(graph_precision(truth.float(), truth, graph, 1)) == 1.0
    assert float(graph_precision(torch.zeros(40), truth, graph, 1)) == pytest.approx(12 / 40)
    assert float(graph_precision(torch.full((40,), torch.nan), truth, graph, 1)) == pytest.approx(12 / 40)


def test_few_edges_are_still_divided_by_k() -> None:
    assert float(graph_precision(torch.rand(4), torch.ones(4), torch.zeros(4, dtype=torch.long), 1)) == 0.4


def test_a_node_scores_the_mean_of_its_highest_edge_and_of_their_average() -> None:
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    found = node_scores(torch.tensor([1.0, 3.0, 2.0, -1.0]), index, 4)
    assert found[:3].tolist() == [(3 + 2) / 2, (3 + 1.25) / 2, (2 + 0.5) / 2]
    assert found[3].isnan()


def test_a_self_loop_counts_once() -> None:
    assert node_scores(torch.tensor([4.0, 1.0]), torch.tensor([[0, 0], [0, 1]]), 2).tolist() == [3.25, 1.0]


def test_a_node_without_edges_is_below_all_others() -> None:
    assert edge_auc(torch.tensor([-5.0, torch.nan]), torch.tensor([True, False])) == 1.0
    assert edge_auc(torch.tensor([torch.nan, -5.0]), torch.tensor([True, False])) == 0.0
