"""Stability over seeds against scipy and plain loops."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.explain.agreement import agreement, chance
from goodformer.explain.subgraph import score_edges
from tests.explain.test_fidelity import sample


def drawn(graphs: GraphSet, runs: int, ties: bool, seed: int) -> list[list[Tensor]]:
    """Random scores of each directed edge from several runs."""
    generator = torch.Generator().manual_seed(seed)
    counts = graphs.edge_ptr.diff().tolist()
    rows = [[torch.rand(count, generator=generator) for count in counts] for _ in range(runs)]
    return [[score.round(decimals=1) if ties else score for score in row] for row in rows]


def overlap(index: Tensor, a: Tensor, b: Tensor, k: int | None) -> float:
    first, second = ({tuple(pair) for pair in score_edges(index, one, k).subgraph.T.tolist()} for one in (a, b))
    return len(first & second) / len(first | second) if first | second else math.nan


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), ties=st.booleans(), runs=st.integers(2, 4), k=st.sampled_from([1, 3, 50, None]))
def test_it_is_that_of_scipy_pair_by_pair(seed: int, ties: bool, runs: int, k: int | None) -> None:
    graphs, _ = sample((6, 1, 9, 2, 4), seed)
    scores = drawn(graphs, runs, ties, seed)
    found = agreement(graphs, scores, k)
    for place, graph in enumerate(graphs):
        index, edges = graph.edge_index, graph.num_edges // 2
        pairs = list(combinations([row[place].double() for row in scores], 2))
        both = [overlap(index, a, b, k) for a, b in pairs]
        if np.isnan(both).all():  # no edges, or all scores of each run are equal
            assert math.isnan(found.overlap[place])
            assert math.isnan(found.chance[place])
            continue
        assert float(found.overlap[place]) == pytest.approx(np.nanmean(both))
        means = [[score_edges(index, one).scores.numpy() for one in pair] for pair in pairs]
        if edges < 2 or any(len(np.unique(one)) == 1 for pair in means for one in pair):
            assert math.isnan(found.correlation[place])
        else:
            expected = np.mean([spearmanr(a, b).statistic for a, b in means])
            assert float(found.correlation[place]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("edges", "a", "b"), [(6, 2, 2), (10, 7, 7), (5, 5, 5), (9, 1, 4), (40, 13, 6)])
def test_chance_is_that_of_random_choices(edges: int, a: int, b: int) -> None:
    several = [torch.tensor(row) for row in ([edges, 3], [a, 1], [b, 2])]
    expected = float(chance(*several)[0])
    rng = np.random.default_rng(0)
    draws = [len(set(rng.choice(edges, a, False)) & set(rng.choice(edges, b, False))) for _ in range(4000)]
    assert expected == pytest.approx(np.mean([common / (a + b - common) for common in draws]), abs=0.02)
    assert float(chance(*(row[:1] for row in several))[0]) == pytest.approx(expected)


def test_equal_scores_agree_wholly_and_reversed_ones_not_at_all() -> None:
    graphs, scores = sample((8, 8))
    same = agreement(graphs, [scores, scores, [2 * one + 1 for one in scores]]).summary()
    assert same["correlation"] == pytest.approx(1)
    assert same["overlap"] == pytest.approx(1)
    assert same["chance"] < 0.5
    assert agreement(graphs, [scores, [-one for one in scores]]).summary()["correlation"] == pytest.approx(-1)


def test_random_scores_agree_by_chance() -> None:
    graphs, _ = sample((12,) * 60)
    summary = agreement(graphs, drawn(graphs, 4, False, 3)).summary()
    assert summary["correlation"] == pytest.approx(0, abs=0.03)
    assert summary["overlap"] == pytest.approx(summary["chance"], abs=0.02)
    assert summary["graphs"] == 60


def test_graphs_without_edges_have_no_agreement() -> None:
    graphs, scores = sample((1, 1))
    assert agreement(graphs, [scores, scores]).summary() == {
        "graphs": 0,
        "correlation": None,
        "overlap": None,
        "chance": None,
    }


def test_one_run_is_not_enough() -> None:
    graphs, scores = sample()
    with pytest.raises(InputError, match="two or more"):
        agreement(graphs, [scores])
    with pytest.raises(InputError, match="one score per edge"):
        agreement(graphs, [scores, scores[:1]])
