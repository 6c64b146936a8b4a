"""Expanders: degrees, spectral gaps, and that they belong to the graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.nn.expander import expander_edges
from goodformer.nn.layout import Layout
from tests.nn.graphs import graphs, relabelled
from tests.nn.test_distance import layout_of

SIZES = [12, 30, 77, 200]


def several() -> list[nx.Graph]:
    """Random graphs and such as refinement sees little in."""
    random = [nx.gnm_random_graph(n, n + 4, seed=seed) for n in SIZES for seed in range(5)]
    return random + [make(n) for n in SIZES for make in (nx.path_graph, nx.cycle_graph, nx.empty_graph)]


def expander(layout: Layout, cycles: int, **settings: int) -> Tensor:
    return expander_edges(layout, torch.ones(layout.num_nodes, 1), cycles, **settings)[0]


def matrices(layout: Layout, edges: Tensor) -> list[np.ndarray]:
    """The adjacency matrix of each graph's expander, entries counting edges."""
    found = [np.zeros((int(n), int(n))) for n in layout.sizes]
    for u, v in edges.T.tolist():
        assert layout.graph[u] == layout.graph[v]
        found[int(layout.graph[u])][int(layout.local[u]), int(layout.local[v])] += 1
    return found


@pytest.mark.parametrize("cycles", [1, 3, 5])
def test_every_node_has_two_neighbours_a_cycle_and_none_is_itself(cycles: int) -> None:
    layout = layout_of(several())
    for matrix in matrices(layout, expander(layout, cycles)):
        assert (matrix == matrix.T).all()
        assert not matrix.diagonal().any()
        assert (matrix.sum(1) == min(2 * cycles, len(matrix) - 1)).all()


def test_one_cycle_goes_through_all_nodes() -> None:
    layout = layout_of(several())
    for matrix in matrices(layout, expander(layout, 1)):
        assert nx.is_connected(nx.from_numpy_array(matrix))


@pytest.mark.parametrize("cycles", [2, 3, 5])
def test_the_spectral_gap_is_nearly_the_best_there_is(cycles: int) -> None:
    """The authors redraw until the second eigenvalue is at least d - 2 sqrt(d - 1) - 0.1; here a draw is enough."""
    layout, degree = layout_of(several()), 2 * cycles
    gaps = np.array([np.linalg.eigvalsh(np.diag(m.sum(1)) - m)[1] for m in matrices(layout, expander(layout, cycles))])
    bound = degree - 2 * np.sqrt(degree - 1) - 0.1
    assert (gaps > bound).mean() > 0.9
    assert gaps.min() > bound - 0.25


def test_small_graphs_are_joined_completely() -> None:
    layout = layout_of([nx.path_graph(n) for n in (1, 2, 5, 7, 8)])
    found = matrices(layout, expander(layout, 3))
    for matrix in found[:4]:
        assert (matrix == 1 - np.eye(len(matrix))).all()
    assert (found[4].sum(1) == 6).all()
    assert expander(layout, 0).shape == (2, 0)
    assert expander(layout_of([nx.empty_graph(1)]), 2).shape == (2, 0)


def test_a_graph_has_its_expander_alone_in_a_batch_and_twice() -> None:
    parts, state = several(), torch.get_rng_state()
    layout = layout_of(parts)
    together = matrices(layout, expander(layout, 2))
    assert torch.equal(expander(layout, 2), expander(layout, 2))
    assert torch.equal(state, torch.get_rng_state())
    for position in range(0, len(parts), 5):
        alone = layout_of([parts[position]])
        assert (matrices(alone, expander(alone, 2))[0] == together[position]).all()


def test_other_graphs_and_other_seeds_have_other_expanders() -> None:
    layout = layout_of([nx.gnm_random_graph(40, 44, seed=seed) for seed in range(4)])
    found = matrices(layout, expander(layout, 2))
    assert all((found[a] != found[b]).any() for a in range(4) for b in range(a))
    other = matrices(layout, expander(layout, 2, seed=1))
    assert all((a != b).any() for a, b in zip(found, other, strict=True))


def test_cycles_are_independent_of_each_other() -> None:
    layout = layout_of([nx.path_graph(60)])
    edges = expander(layout, 4)[:, : 4 * 60].T.reshape(4, 60, 2)
    pairs = [{tuple(sorted(edge)) for edge in cycle.tolist()} for cycle in edges]
    assert all(len(cycle) == 60 for cycle in pairs)
    assert all(len(pairs[a] & pairs[b]) < 12 for a in range(4) for b in range(a))


def test_expanders_move_along_when_nodes_are_renumbered() -> None:
    graph = graphs((25,))[0]
    order = torch.randperm(25, generator=torch.Generator().manual_seed(3))
    one, two = (Batch.from_data_list([part]) for part in (graph, relabelled(graph, order)))
    first = expander_edges(Layout(one), one.x, 3)[0]
    second = expander_edges(Layout(two), two.x, 3)[0]
    assert sorted(map(tuple, first.T.tolist())) == sorted(map(tuple, order[second].T.tolist()))
