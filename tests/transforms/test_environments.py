"""Environments against RDKit's Morgan generator and against a plain implementation."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.spec import Features, FeatureSpec
from goodformer.transforms import Structure, encode
from goodformer.transforms import environments as module
from goodformer.transforms.environments import DROPPED, counts, environments
from tests.transforms.graphs import awkward, packed, random_graph

SMILES = (
    "C",
    "CO",
    "CC",
    "[Na+].[Cl-]",
    "[NH4+].CC(=O)[O-]",
    "C1CCCCC1",
    "c1ccccc1",
    "CC(C)(C)C",
    "O=C1N(C)C(=N[C@@]1(c1cc(ccc1)-c1cccnc1)c1cc(ncc1)C)N",
    "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "FC(F)(F)c1cc(ccc1[N+](=O)[O-])S(=O)(=O)N2CCOCC2",
    "C1CC2CCC1CC2",
    "C12C3C4C1C5C2C3C45",
    "[Fe+2].c1cc[cH-]c1.c1cc[cH-]c1",
    "OCC#CC=C=CN=[N+]=[N-]",
    "CCCCCCCCCCCCCCCC(=O)OCC(O)COP(=O)([O-])OCC[N+](C)(C)C",
)


def of_molecules(smiles: tuple[str, ...] = SMILES, radius: int = 2) -> tuple[Tensor, Tensor]:
    """Codes and node bounds of molecules."""
    graphs = featurise(smiles).graphs
    return encode(f"environments:{radius}", graphs.structure(FEATURES)), graphs.node_ptr


def occurrences(codes: Tensor) -> Counter[int]:
    """How often each code occurs."""
    return Counter(codes[codes != DROPPED].tolist())


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_molecules_have_the_identifiers_of_rdkit(radius: int) -> None:
    codes, ptr = of_molecules(radius=radius)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius)
    for text, low, high in zip(SMILES, ptr[:-1], ptr[1:], strict=True):
        wanted = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(text)).GetNonzeroElements()
        assert occurrences(codes[low:high]) == wanted, text


def test_isotopes_are_the_one_difference_from_rdkit() -> None:
    heavy, light = (of_molecules((text,))[0] for text in ("C[13CH2]O", "CCO"))
    assert torch.equal(heavy, light)


def test_counts_are_the_folded_fingerprints_of_rdkit() -> None:
    codes, ptr = of_molecules()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=512)
    wanted = np.stack([generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in SMILES])
    assert np.array_equal(counts(codes, ptr, 512).toarray(), wanted)
    smaller = counts(codes[:, :2], ptr, 512).toarray()
    assert (smaller <= wanted).all()
    assert smaller.sum() < wanted.sum()


def test_no_graphs_have_no_counts() -> None:
    assert counts(torch.empty(0, 3, dtype=torch.long), torch.tensor([0]), 16).shape == (0, 16)


def dropping(graph: nx.Graph, codes: dict[int, list[int]], radius: int) -> Counter[int]:
    """Morgan's rule on one graph: the codes that are kept, given all codes of each node."""
    found = Counter(codes[node][0] for node in graph)
    alive, seen = {node for node in graph if graph.degree(node)}, set()
    for r in range(1, radius + 1):
        rows = []
        for node in alive:
            near = nx.single_source_shortest_path_length(graph, node, r - 1)
            rows.append((frozenset(frozenset(edge) for edge in graph.edges(near)), codes[node][r], node))
        alive = set()
        for edges, code, node in sorted(rows, key=lambda row: row[1]):
            if edges not in seen:
                seen.add(edges)
                found[code] += 1
                alive.add(node)
    return found


def all_codes(structure: Structure, radius: int, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The codes of every node and radius as if no environment were dropped."""
    with monkeypatch.context() as patch:

        def different(links: object, nodes: np.ndarray, radius: int) -> np.ndarray:
            return (nodes * 10 + radius).astype(np.uint64)

        patch.setattr(module, "_edge_sets", different)
        return environments(structure, radius)


def test_an_environment_with_the_edges_of_another_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = awkward() + [nx.path_graph(n) for n in range(1, 8)] + [nx.cycle_graph(n) for n in range(3, 9)]
    structure = Structure(*packed(graphs))
    kept, every = environments(structure, 3), all_codes(structure, 3, monkeypatch)
    dropped = 0
    for graph, low in zip(graphs, structure.ptr.tolist(), strict=False):
        own = {node: every[low + node].tolist() for node in graph}
        assert occurrences(kept[low : low + len(graph)]) == dropping(graph, own, 3)
        dropped += int((kept[low : low + len(graph)] == DROPPED).sum())
    assert dropped > 50


@pytest.mark.parametrize("entries", [1, 60])
def test_the_size_of_chunks_changes_nothing(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    structure = Structure(*packed(awkward()))
    whole = environments(structure, 3)
    monkeypatch.setattr(module, "CHUNK", entries)
    assert torch.equal(environments(structure, 3), whole)


@settings(max_examples=60, deadline=None)
@given(random_graph(12))
def test_renumbering_the_nodes_changes_no_count(graph: nx.Graph) -> None:
    n = len(graph)
    order = np.random.default_rng(n).permutation(n)
    codes = torch.tensor([[node % 3, node % 2] for node in range(n)])
    edge_index, ptr = packed([graph])
    features = FeatureSpec(Features.categorical(3, 2))
    place = torch.from_numpy(np.argsort(order))
    first = environments(Structure(edge_index, ptr, codes, features=features), 3)
    second = environments(Structure(place[edge_index], ptr, codes[order], features=features), 3)
    for radius in range(4):
        assert occurrences(first[:, radius]) == occurrences(second[:, radius])


def test_radius_r_sees_r_steps() -> None:
    path = nx.path_graph(9)
    edge_index, ptr = packed([path])
    features = FeatureSpec(Features.categorical(5))
    x = torch.zeros(9, 1, dtype=torch.long)
    changed = x.index_fill(0, torch.tensor(8), 4)
    first, second = (environments(Structure(edge_index, ptr, one, features=features), 3) for one in (x, changed))
    differ = (first != second).nonzero().tolist()
    assert all(node + radius >= 8 for node, radius in differ)
    assert [8, 0] in differ
    assert [5, 3] in differ


def test_edge_features_count_where_they_are_codes() -> None:
    edge_index, ptr = packed([nx.path_graph(3)])
    attr = torch.tensor([[1, 0], [1, 0], [2, 1], [2, 1]])

    def of(edge: Features, values: Tensor | None) -> Tensor:
        return environments(Structure(edge_index, ptr, None, values, FeatureSpec(edge=edge)), 1)

    plain, coded = of(Features(), None), of(Features.categorical(3, 2), attr)
    assert plain[0, 1] == plain[2, 1]
    assert coded[0, 1] != coded[2, 1]
    assert torch.equal(of(Features.continuous(2), attr.float()), plain)
    assert not torch.equal(of(Features.categorical(3, 2), attr.flip(1)), coded)


def test_real_numbers_are_not_read_and_all_columns_of_codes_are() -> None:
    edge_index, ptr = packed([nx.star_graph(3)])
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [0, 1]])
    real = environments(Structure(edge_index, ptr, x.float(), features=FeatureSpec(Features.continuous(2))), 2)
    assert torch.equal(real, environments(Structure(edge_index, ptr), 2))
    assert len(real[:, 0].unique()) == 2  # the degree alone
    coded = environments(Structure(edge_index, ptr, x, features=FeatureSpec(Features.categorical(2, 2))), 2)
    assert len(coded[:, 0].unique()) == 3


def test_a_set_of_graphs_describes_itself() -> None:
    graphs: GraphSet = featurise(["CCO", "CN"]).graphs
    bare, described = graphs.structure(), graphs.structure(FEATURES)
    assert not torch.equal(encode("environments:1", bare), encode("environments:1", described))
