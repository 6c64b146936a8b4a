"""Counts of environments and the edges they cover, against plain loops."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.nn.fingerprint import Balls, count, fold, signs
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
