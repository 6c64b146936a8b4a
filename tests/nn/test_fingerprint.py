"""Counts of environments and the edges they cover, against plain loops."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.nn import layout
from goodformer.nn.fingerprint import Balls, Pairs, count, fold, signs
from goodformer.nn.layout import Layout
from goodformer.transforms.environments import counts
from tests.nn.graphs import batch


def ball_edges(data: Batch, centre: int, radius: int) -> set[tuple[int, int]]:
    """Edges with an end less than ``radius`` steps from the centre."""
    graph = nx.Graph(data.edge_index.T.tolist())
    graph.add_nodes_from(range(data.num_nodes))
    near = nx.single_source_shortest_path_length(graph, centre, cutoff=radius - 1) if radius else {centre: 0}
    return {(min(u, v), max(u, v)) for u, v in graph.edges if u in near or v in near}


def test_counts_are_those_of_the_encoding() -> None:
    data = batch()
    codes = data.environments_2
    found = count(fold(codes, 64), data.batch, data.num_graphs, 64)
    np.testing.assert_array_equal(found.numpy(), counts(codes, data.ptr, 64).toarray())
    assert (codes < 0).any()  # some environments are missing


def test_the_value_of_an_environment_is_shared_among_its_edges() -> None:
    data = batch((9, 1, 6), p=0.35, seed=2)
    values = torch.randn(data.num_nodes, 4, generator=torch.Generator().manual_seed(0)).double()
    expected: dict[tuple[int, int], float] = {}
    for node in range(data.num_nodes):
        for radius in range(4):
            edges = ball_edges(data, node, radius)
            for edge in edges:
                expected[edge] = expected.get(edge, 0.0) + float(values[node, radius]) / len(edges)
    found = Balls(data.edge_index, data.num_nodes, 3).spread(values)
    wanted = [expected[min(u, v), max(u, v)] for u, v in data.edge_index.T.tolist()]
    torch.testing.assert_close(found, torch.tensor(wanted).double())


def test_an_environment_weighs_the_product_of_its_edges() -> None:
    data = batch((9, 1, 6), p=0.35, seed=2)
    u, v = data.edge_index
    weight = (torch.minimum(u, v) * 31 + torch.maximum(u, v)).remainder(7) / 7  # the same in both directions
    by_edge = {(min(a, b), max(a, b)): float(w) for (a, b), w in zip(data.edge_index.T.tolist(), weight, strict=True)}
    found = Balls(data.edge_index, data.num_nodes, 2).weights(weight, 2)
    for node in range(data.num_nodes):
        products = [np.prod([by_edge[edge] for edge in ball_edges(data, node, radius)]) for radius in (1, 2)]
        torch.testing.assert_close(found[node], torch.tensor([1.0, *products]).float(), atol=1e-6, rtol=1e-5)
    assert (weight == 0).any()


def test_no_edges() -> None:
    data = batch((1, 3), p=0.0)
    balls = Balls(data.edge_index, 4, 2)
    assert balls.spread(torch.ones(4, 3)).shape == (0,)
    assert torch.equal(balls.weights(torch.ones(0), 2), torch.ones(4, 3))


def test_signs_are_balanced_and_uncorrelated() -> None:
    made: Tensor = signs(2048, 64)
    assert set(made.unique().tolist()) == {-1.0, 1.0}
    products = made.T @ made / 2048
    assert (products - torch.eye(64)).abs().max() < 0.1
    assert made[:2, :6].tolist() == signs(2048, 64)[:2, :6].tolist()


def near(data: Batch, reach: int) -> dict[tuple[int, int], list[list[int]]]:
    """All shortest paths of at most ``reach`` edges between two nodes, by networkx."""
    graph = nx.Graph(data.edge_index.T.tolist())
    graph.add_nodes_from(range(data.num_nodes))
    hops = dict(nx.all_pairs_shortest_path_length(graph, cutoff=reach))
    ends = [(u, v) for u in hops for v in hops[u] if u < v]
    return {(u, v): list(nx.all_shortest_paths(graph, u, v)) for u, v in ends}


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give graphs of different sizes buckets of their own, however small they are."""
    monkeypatch.setattr(layout, "ROW_COST", 0)
    monkeypatch.setattr(layout, "BUCKET_COST", 0)


@pytest.mark.usefixtures("buckets")
def test_pairs_of_equal_nodes_at_equal_distance_share_a_column() -> None:
    data = batch((12, 1, 7, 30), p=0.2, seed=4)
    codes = torch.arange(data.num_nodes).remainder(3) * 2654435761
    found, paths = Pairs(Layout(data), codes, 3, 1 << 16).count(), near(data, 3)
    kinds: dict[int, Counter[tuple[int, ...]]] = {graph: Counter() for graph in range(data.num_graphs)}
    for (u, v), path in paths.items():
        kinds[int(data.batch[u])][*sorted((int(codes[u]), int(codes[v]))), len(path[0])] += 1
    for graph, counted in kinds.items():
        assert sorted(found[graph][found[graph] > 0].tolist()) == sorted(counted.values())
    assert int((found > 0).any(0).sum()) == len(set().union(*kinds.values()))  # one column per kind in all graphs
    assert {kind[-1] for counted in kinds.values() for kind in counted} == {2, 3, 4}
    assert len(Layout(data).parts()) > 1  # more than one bucket
    assert torch.equal(Pairs(Layout(data), codes, 3, 64).count().sum(1), found.sum(1))


@pytest.mark.usefixtures("buckets")
def test_a_pair_weighs_the_best_product_along_its_shortest_paths() -> None:
    data = batch((12, 1, 7, 9), p=0.3, seed=5)
    u, v = data.edge_index
    weight = ((torch.minimum(u, v) * 31 + torch.maximum(u, v)).remainder(7) / 7).double().requires_grad_()
    by_edge = {tuple(ends): w for ends, w in zip(data.edge_index.T.tolist(), weight.tolist(), strict=True)}
    pairs, paths = Pairs(Layout(data), torch.zeros(data.num_nodes, dtype=torch.long), 4, 64), near(data, 4)
    found, expected = pairs.count(weight).sum(1), torch.zeros(data.num_graphs, dtype=torch.double)
    for (first, _), some in paths.items():
        products = [np.prod([by_edge[ends] for ends in pairwise(path)]) for path in some]
        expected[data.batch[first]] += max(products)
    torch.testing.assert_close(found, expected)
    assert max(len(some) for some in paths.values()) > 1  # several shortest paths
    found.sum().backward()
    assert weight.grad is not None
    assert weight.grad.abs().sum() > 0


@pytest.mark.usefixtures("buckets")
def test_the_value_of_a_pair_is_shared_by_its_nodes() -> None:
    data = batch((6, 4, 30), p=0.2, seed=1)
    codes = torch.arange(data.num_nodes)
    pairs = Pairs(Layout(data), codes, 2, 1 << 16)
    expected = torch.zeros(data.num_nodes)
    for u, v in near(data, 2):
        expected[[u, v]] += (data.batch[u] + 1) / 2
    values = (torch.arange(3.0) + 1)[:, None].expand(3, 1 << 16)
    torch.testing.assert_close(pairs.spread(values), expected)
