"""Eigenvectors are judged by what they satisfy, never entry by entry: repeated eigenvalues leave them free."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.transforms import Structure, encode
from goodformer.transforms.laplacian import canonical_signs
from tests.transforms.graphs import awkward, packed, random_graph


def encoded(graph: nx.Graph, width: int) -> np.ndarray:
    return encode(f"laplacian:{width}", Structure(*packed([graph]))).double().numpy()


def laplacian_matrix(graph: nx.Graph) -> np.ndarray:
    matrix = nx.to_numpy_array(graph)
    return np.diag(matrix.sum(1)) - matrix


def assert_first_nontrivial_eigenvectors(graph: nx.Graph, width: int) -> None:
    matrix, n = laplacian_matrix(graph), graph.number_of_nodes()
    kept = min(width, n - 1)
    vectors = encoded(graph, width)
    assert not vectors[:, kept:].any()
    vectors = vectors[:, :kept]
    values = np.linalg.eigvalsh(matrix)[1 : kept + 1]
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-5 * max(1, n))
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(kept), atol=1e-5)
    np.testing.assert_allclose(vectors.sum(0), 0, atol=1e-5)


@pytest.mark.parametrize("position", range(len(awkward())))
@pytest.mark.parametrize("width", [1, 8, 50])
def test_eigen_equation_and_orthonormality_on_awkward_graphs(position: int, width: int) -> None:
    assert_first_nontrivial_eigenvectors(awkward()[position], width)


@settings(max_examples=60, deadline=None)
@given(random_graph(), st.integers(1, 10))
def test_eigen_equation_and_orthonormality_on_any_graph(graph: nx.Graph, width: int) -> None:
    assert_first_nontrivial_eigenvectors(graph, width)


def test_a_graph_of_600_nodes() -> None:
    assert_first_nontrivial_eigenvectors(nx.random_regular_graph(3, 600, seed=0), 8)


@settings(max_examples=60, deadline=None)
@given(random_graph(), st.randoms(use_true_random=False))
def test_relabelling_nodes_permutes_the_space_the_vectors_span(graph: nx.Graph, random) -> None:
    n = graph.number_of_nodes()
    order = random.sample(range(n), n)
    values = np.append(np.linalg.eigvalsh(laplacian_matrix(graph)), np.inf)
    vectors, moved = encoded(graph, n), encoded(_relabelled(graph, order), n)[order]
    for width in range(1, n):
        if values[width + 1] - values[width] > 1e-2:  # a repeated eigenvalue's vectors are all in or all out
            projector, other = vectors[:, :width] @ vectors[:, :width].T, moved[:, :width] @ moved[:, :width].T
            np.testing.assert_allclose(other, projector, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_relabelling_nodes_permutes_single_vectors_with_their_signs(seed: int) -> None:
    graph = nx.gnp_random_graph(15, 0.3, seed=seed)
    order = np.random.default_rng(seed).permutation(15).tolist()
    values, vectors = np.linalg.eigvalsh(laplacian_matrix(graph)), encoded(graph, 14)
    clear = np.minimum(np.diff(values)[:-1], np.diff(values)[1:]) > 1e-2  # columns 0 .. 12
    clear &= np.abs((vectors**3).sum(0))[:-1] > 1e-3
    assert clear.sum() > 5
    moved = encoded(_relabelled(graph, order), 14)[order]
    np.testing.assert_allclose(moved[:, :-1][:, clear], vectors[:, :-1][:, clear], atol=1e-4)


def _relabelled(graph: nx.Graph, order: list[int]) -> nx.Graph:
    """Node i becomes node order[i], nodes listed in ascending order."""
    new = nx.empty_graph(len(order))
    new.add_edges_from((order[u], order[v]) for u, v in graph.edges)
    return new


def test_the_sum_of_cubes_is_never_negative() -> None:
    edge_index, ptr = packed(awkward())
    encoding = encode("laplacian:8", Structure(edge_index, ptr)).double()
    cubes = torch.zeros(len(ptr) - 1, 8, dtype=torch.double)
    cubes.index_add_(0, torch.repeat_interleave(ptr.diff()), encoding**3)
    assert (cubes > -1e-5).all()


def test_where_the_cubes_cancel_the_first_entry_decides() -> None:
    vector = np.array([-0.5, 0.5, 0.5, -0.5])[None, :, None]
    np.testing.assert_array_equal(canonical_signs(vector), -vector)
    np.testing.assert_array_equal(canonical_signs(-vector), -vector)
    np.testing.assert_array_equal(canonical_signs(np.zeros((1, 3, 2))), 0)


def test_signs_of_either_input_end_alike() -> None:
    vectors = np.random.default_rng(0).normal(size=(20, 7, 4))
    np.testing.assert_array_equal(canonical_signs(vectors), canonical_signs(-vectors))


def test_a_graph_has_one_eigenvector_less_than_nodes() -> None:
    graphs = awkward()
    edge_index, ptr = packed(graphs)
    batch = torch.repeat_interleave(ptr.diff())
    encoding = encode("laplacian:8", Structure(edge_index, ptr))
    norms = torch.zeros(len(graphs), 8).index_add_(0, batch, encoding**2)
    expected = torch.arange(8) < (ptr.diff() - 1)[:, None]
    torch.testing.assert_close(norms, expected.float())


@pytest.mark.parametrize("position", range(len(awkward())))
def test_eigenvalues_belong_to_the_eigenvectors(position: int) -> None:
    graph = awkward()[position]
    values = encode("eigenvalues:8", Structure(*packed([graph]))).double().numpy()
    vectors, kept = encoded(graph, 8), min(8, graph.number_of_nodes() - 1)
    assert (values == values[:1]).all()
    np.testing.assert_allclose(laplacian_matrix(graph) @ vectors, vectors * values[:1], atol=1e-4)
    assert not values[:, kept:].any()
