"""Return probabilities against plain matrix powers, closed walks against enumeration."""

from __future__ import annotations

import tracemalloc

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.transforms import Structure, encode
from goodformer.transforms.adjacency import Chunk, chunks
from goodformer.transforms.closed_walks import closed_walk_counts, cycle_walk_counts
from goodformer.transforms.random_walk import return_probabilities
from tests.transforms.graphs import awkward, packed, random_graph

WALKS = ("closed_walks", "cycle_walks")


def encoded(name: str, graph: nx.Graph, width: int) -> np.ndarray:
    return encode(f"{name}:{width}", Structure(*packed([graph]))).double().numpy()


def returns_by_powers(graph: nx.Graph, width: int) -> np.ndarray:
    matrix = nx.to_numpy_array(graph)
    step = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    return np.stack([np.diag(np.linalg.matrix_power(step, s)) for s in range(2, width + 2)], 1)


def walks_by_enumeration(name: str, graph: nx.Graph, width: int) -> np.ndarray:
    """Every walk that never turns back at once is walked; those that end at their start are counted by length."""
    counts = np.zeros((graph.number_of_nodes(), width))

    def walk(*nodes: int) -> None:
        closed = len(nodes) > 3 and nodes[0] == nodes[-1]
        if closed and (name == "closed_walks" or nodes[1] != nodes[-2]):
            counts[nodes[0], len(nodes) - 4] += 1
        if len(nodes) < width + 3:
            for following in graph[nodes[-1]]:
                if following != (nodes[-2] if len(nodes) > 1 else -1):
                    walk(*nodes, following)

    for start in graph:
        walk(start)
    return counts


@pytest.mark.parametrize("position", range(len(awkward())))
@pytest.mark.parametrize("width", [1, 2, 7, 16])
def test_return_probabilities_equal_matrix_powers(position: int, width: int) -> None:
    graph = awkward()[position]
    np.testing.assert_allclose(encoded("random_walk", graph, width), returns_by_powers(graph, width), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(random_graph(), st.integers(1, 12))
def test_return_probabilities_of_any_graph(graph: nx.Graph, width: int) -> None:
    np.testing.assert_allclose(encoded("random_walk", graph, width), returns_by_powers(graph, width), atol=1e-6)


@pytest.mark.parametrize("name", WALKS)
@settings(max_examples=60, deadline=None)
@given(graph=random_graph(most=6), width=st.integers(1, 5))
def test_closed_walks_equal_enumeration(name: str, graph: nx.Graph, width: int) -> None:
    counts = np.expm1(encoded(name, graph, width))
    np.testing.assert_allclose(counts, walks_by_enumeration(name, graph, width), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("seed", range(3))
def test_closed_walks_equal_enumeration_on_sparse_graphs(name: str, seed: int) -> None:
    graph = nx.gnm_random_graph(14, 19, seed=seed)
    counts = np.expm1(encoded(name, graph, 7))
    np.testing.assert_allclose(counts, walks_by_enumeration(name, graph, 7), rtol=1e-5, atol=1e-5)


def test_walks_without_a_tail_are_blind_off_the_cycles() -> None:
    graph = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4))  # a triangle with a path at node 0
    graph.add_edge(0, 3)
    near, on = encoded("closed_walks", graph, 6), encoded("cycle_walks", graph, 6)
    assert near[3].any()
    assert not on[3:].any()
    np.testing.assert_allclose(np.expm1(on[:3]), np.tile([2, 0, 0, 2, 0, 0], (3, 1)), atol=1e-6)


def test_a_tail_is_walked_out_and_back_but_a_cycle_alone_counts_each_way() -> None:
    cycle = np.expm1(encoded("closed_walks", nx.cycle_graph(5), 6))
    np.testing.assert_allclose(cycle, np.tile([0, 0, 2, 0, 0, 0], (5, 1)), atol=1e-6)
    with_tail = nx.cycle_graph(3)
    with_tail.add_edge(0, 3)
    tail = np.expm1(encoded("closed_walks", with_tail, 6))[3]
    np.testing.assert_allclose(tail, [0, 0, 2, 0, 0, 2], atol=1e-6)  # 3-0-1-2-0-3, and twice around


@pytest.mark.parametrize("tree", [nx.balanced_tree(3, 3), nx.path_graph(30), nx.star_graph(70)])
def test_trees_have_no_closed_walks_exactly(tree: nx.Graph) -> None:
    assert not encoded("closed_walks", tree, 12).any()
    assert not encoded("cycle_walks", tree, 12).any()


@pytest.mark.parametrize("name", ["random_walk", *WALKS])
@settings(max_examples=40, deadline=None)
@given(graph=random_graph(), random=st.randoms(use_true_random=False))
def test_relabelling_nodes_permutes_the_rows(name: str, graph: nx.Graph, random) -> None:
    n = graph.number_of_nodes()
    order = random.sample(range(n), n)
    moved = nx.empty_graph(n)
    moved.add_edges_from((order[u], order[v]) for u, v in graph.edges)
    np.testing.assert_allclose(encoded(name, moved, 6)[order], encoded(name, graph, 6), atol=1e-6)


def test_columns_taken_a_few_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (chunk,) = chunks(*packed([nx.gnp_random_graph(50, 0.1, seed=1)]))
    whole = return_probabilities(chunk, 7), closed_walk_counts(chunk, 7), cycle_walk_counts(chunk, 7)
    few = Chunk.unit_columns
    monkeypatch.setattr(Chunk, "unit_columns", lambda self: few(self, chunk_bytes=8 * 50 * 7))
    np.testing.assert_allclose(return_probabilities(chunk, 7), whole[0], atol=1e-12)
    np.testing.assert_array_equal(closed_walk_counts(chunk, 7), whole[1])
    np.testing.assert_array_equal(cycle_walk_counts(chunk, 7), whole[2])


@pytest.mark.parametrize("chunk_bytes", [1, 10_000, 2**20])
def test_chunks_hold_every_node_once_and_stay_small(chunk_bytes: int) -> None:
    edge_index, ptr = packed(awkward() * 3)
    parts = list(chunks(edge_index, ptr, chunk_bytes))
    assert sorted(np.concatenate([part.nodes for part in parts])) == list(range(int(ptr[-1])))
    assert sum(part.adjacency.nnz for part in parts) == edge_index.shape[1]
    for part in parts:
        assert len(part.nodes) == part.size or len(part.nodes) * part.size * 8 <= chunk_bytes
        assert (np.diff(part.nodes.reshape(-1, part.size)) == 1).all()


@pytest.mark.parametrize("name", ["random_walk", *WALKS])
def test_a_large_graph_needs_little_memory(name: str) -> None:
    edge_index, ptr = packed([nx.ladder_graph(2000)])
    tracemalloc.start()
    encode(f"{name}:4", Structure(edge_index, ptr))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20  # one dense 4,000 x 4,000 matrix alone has 122 MB
