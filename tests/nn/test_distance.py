"""Distances and ways against networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Batch, Data

from goodformer.nn.distance import components, hop_distances, path_means
from goodformer.nn.layout import Layout
from tests.transforms.graphs import awkward, packed, random_graph


def layout_of(graphs: list[nx.Graph]) -> Layout:
    parts = [Data(x=torch.ones(len(graph), 1), edge_index=packed([graph])[0]) for graph in graphs]
    return Layout(Batch.from_data_list(parts))


def expected_hops(graph: nx.Graph, cap: int, width: int) -> Tensor:
    """cap for pairs farther apart, cap + 1 for those not joined and for padding."""
    hops = torch.full((len(graph), width), cap + 1)
    for source, lengths in nx.all_pairs_shortest_path_length(graph):
        for target, length in lengths.items():
            hops[target, source] = min(length, cap)
    return hops


@pytest.mark.parametrize("cap", [1, 2, 4, 20])
def test_hops_equal_networkx_in_a_batch_of_awkward_graphs(cap: int) -> None:
    graphs = [*awkward(), nx.path_graph(45), nx.disjoint_union(nx.path_graph(30), nx.cycle_graph(9))]
    layout = layout_of(graphs)
    expected = torch.cat([expected_hops(graph, cap, layout.width) for graph in graphs])
    assert torch.equal(hop_distances(layout, cap), expected)


@settings(max_examples=40, deadline=None)
@given(random_graph())
def test_hops_of_any_graph(graph: nx.Graph) -> None:
    layout = layout_of([graph, nx.path_graph(3)])
    assert torch.equal(hop_distances(layout, 3)[: len(graph)], expected_hops(graph, 3, layout.width))


def test_edges_left_out_are_not_there() -> None:
    graph = nx.gnp_random_graph(25, 0.15, seed=1)
    layout = layout_of([graph])
    keep = torch.rand(layout.src.numel(), generator=torch.Generator().manual_seed(0)) > 0.3
    keep &= keep[[(layout.src == v).logical_and(layout.dst == u).nonzero().item() for u, v in _edges(layout)]]
    fewer = nx.empty_graph(25)
    fewer.add_edges_from((u, v) for (u, v), kept in zip(_edges(layout), keep.tolist(), strict=True) if kept)
    assert fewer.number_of_edges() < graph.number_of_edges()
    assert torch.equal(hop_distances(layout, 20, keep), expected_hops(fewer, 20, 25))


def _edges(layout: Layout) -> list[tuple[int, int]]:
    return list(zip(layout.src.tolist(), layout.dst.tolist(), strict=True))


def test_components_equal_networkx() -> None:
    graph = nx.disjoint_union_all([nx.path_graph(200), nx.gnp_random_graph(50, 0.02, seed=2), nx.star_graph(9)])
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(0))
    edges = order[packed([graph])[0]]
    label = components(len(graph), edges[0], edges[1])
    for part in nx.connected_components(graph):
        members = order[list(part)]
        assert (label[members] == members.min()).all()


def way_mean(graph: nx.Graph, edges: dict, maps: Tensor, source: int, target: int) -> Tensor:
    """Sum of W_k e_k, the mean over the last edges of shortest ways, by recursion."""
    hops = nx.shortest_path_length(graph, source, target)
    if hops == 0:
        return torch.zeros(maps.shape[1])
    before = [u for u in graph[target] if nx.shortest_path_length(graph, source, u) == hops - 1]
    return torch.stack(
        [way_mean(graph, edges, maps, source, u) + edges[u, target] @ maps[hops - 1] for u in before]
    ).mean(0)


def test_means_over_ways_equal_a_recursion_on_networkx() -> None:
    torch.manual_seed(0)
    graphs = [nx.gnp_random_graph(9, 0.3, seed=4), nx.ladder_graph(4), nx.empty_graph(2), nx.path_graph(7)]
    layout, maps = layout_of(graphs), torch.randn(4, 3, 3)
    features = torch.randn(layout.src.numel(), 3)
    got = path_means(features, maps, hop_distances(layout, 20), layout)
    table = {edge: features[k] for k, edge in enumerate(_edges(layout))}
    first = 0
    for graph in graphs:
        local = {(u - first, v - first): e for (u, v), e in table.items()}
        for source in range(layout.width):
            for target in graph:
                joined = source in graph and nx.has_path(graph, source, target)
                hops = nx.shortest_path_length(graph, source, target) if joined else 0
                expected = torch.zeros(3)
                if 0 < hops <= 4:
                    expected = way_mean(graph, local, maps, source, target) / hops
                torch.testing.assert_close(got[first + target, source], expected, atol=1e-5, rtol=1e-4)
        first += len(graph)


def test_on_a_tree_the_way_is_the_one_way() -> None:
    torch.manual_seed(0)
    tree = nx.balanced_tree(2, 3)
    layout, maps = layout_of([tree]), torch.randn(6, 2, 2)
    features = torch.randn(layout.src.numel(), 2)
    got = path_means(features, maps, hop_distances(layout, 20), layout)
    table = dict(zip(_edges(layout), features, strict=True))
    for source in tree:
        for target in set(tree) - {source}:
            way = nx.shortest_path(tree, source, target)
            steps = [table[edge] @ maps[k] for k, edge in enumerate(pairwise(way))]
            torch.testing.assert_close(got[target, source], torch.stack(steps).mean(0), atol=1e-5, rtol=1e-4)
