"""Graphs of a user's own: SMILES, PyG graphs and networkx graphs."""

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdDistGeom
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.data.readers.collection import Collection, both_directions, collect, known_column, pick
from goodformer.data.readers.rows import Block, join, read_collection
from goodformer.errors import InputError
from goodformer.spec import Features, FeatureSpec


def data(edges: list[tuple[int, int]], nodes: int = 3, **fields: Any) -> Data:
    """A PyG graph."""
    return Data(edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, num_nodes=nodes, **fields)


def test_smiles_are_molecules() -> None:
    collection = collect(["CCO", None, "c1ccccc1", "C1C"])
    assert (collection.count, collection.rows.tolist(), collection.smiles) == (4, [0, 2], ("CCO", "c1ccccc1"))
    assert [(one.row, one.text) for one in collection.rejected] == [(1, ""), (3, "C1C")]
    assert collection.features == FEATURES
    assert torch.equal(collection.graphs.edge["index"], featurise(["CCO", "c1ccccc1"]).graphs.edge["index"])


NOTATIONS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)O",
    "F/C=C/F",
    "[NH3+]CC(=O)[O-]",
    "C",
    "C[C@@H]1CC[C@H](O)CC1",
    "[2H]OC",
    "O=[N+]([O-])c1ccccc1",
]


def same(one: Collection, other: Collection) -> bool:
    """Whether two collections hold the same graphs."""
    sides = ((one.graphs.node["x"], *one.graphs.edge.values()), (other.graphs.node["x"], *other.graphs.edge.values()))
    return all(torch.equal(left, right) for left, right in zip(*sides, strict=True))


def test_rdkit_molecules_are_read_like_their_smiles() -> None:
    expected, molecules = collect(NOTATIONS), [Chem.MolFromSmiles(one) for one in NOTATIONS]
    found = collect(molecules)
    assert same(found, expected)
    assert torch.equal(found.graphs.node["given"], expected.graphs.node["given"])
    full = [Chem.AddHs(one) for one in molecules]
    for one in full:
        rdDistGeom.EmbedMolecule(one, randomSeed=0)
    assert same(collect(full), expected)
    assert same(collect([Chem.MolFromSmiles(one, sanitize=False) for one in NOTATIONS]), expected)
    assert same(collect(molecules, standardise="parent"), collect(NOTATIONS, standardise="parent"))


def test_atoms_of_rdkit_molecules_keep_their_numbers() -> None:
    expected, draws = collect(NOTATIONS), np.random.default_rng(0)
    molecules = [Chem.MolFromSmiles(one) for one in NOTATIONS]
    orders = [draws.permutation(one.GetNumAtoms()).tolist() for one in molecules]
    found = collect([Chem.RenumberAtoms(one, order) for one, order in zip(molecules, orders, strict=True)])
    assert same(found, expected)
    assert not found.as_written
    for order, ours, written in zip(orders, found.graphs, expected.graphs, strict=True):
        assert [order[number] for number in ours.given.tolist()] == written.given.tolist()


def test_molecules_that_rdkit_rejects_are_listed() -> None:
    found = collect([Chem.MolFromSmiles("CCO"), None, Chem.MolFromSmiles("c1cccc1", sanitize=False)])
    assert found.rows.tolist() == [0]
    assert [(one.row, one.text, one.reason[:14]) for one in found.rejected] == [
        (1, "RDKit molecule", "empty"),
        (2, "RDKit molecule", "Can't kekulize"),
    ]


def test_edges_that_come_in_both_directions_keep_their_order() -> None:
    edges = [(2, 1), (0, 1), (1, 2), (1, 0)]
    collection = collect([data(edges), data(edges[:1] + edges[2:3])])
    assert collection.graphs[0].edge_index.T.tolist() == [list(edge) for edge in edges]
    assert collection.features == FeatureSpec()
    assert collection.graphs.node["x"].tolist() == [[1.0]] * 6
    assert collection.smiles is None


def test_missing_directions_are_added_with_the_same_features() -> None:
    attr = torch.tensor([[1.0], [2.0], [3.0]])
    collection = collect([data([(0, 1), (1, 2), (1, 0)], edge_attr=attr, y=torch.tensor([1]))])
    graph = collection.graphs[0]
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 2], [1, 0], [2, 1]]
    assert graph.edge_attr.flatten().tolist() == [1, 2, 3, 2]
    assert collection.graphs.graph == {}


PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_both_directions_by_brute_force(graphs: list[list[tuple[int, int]]]) -> None:
    attrs = [torch.arange(len(edges), dtype=torch.float)[:, None] for edges in graphs]
    pairs = zip(graphs, attrs, strict=True)
    made = both_directions(GraphSet.from_list([data(edges, 5, edge_attr=attr) for edges, attr in pairs]))
    for place, edges in enumerate(graphs):
        expected: dict[tuple[int, int], float] = {}
        for number, edge in enumerate(edges):
            if edge[0] != edge[1]:
                expected.setdefault(edge, float(number))
        for (u, v), number in list(expected.items()):
            expected.setdefault((v, u), number)
        graph = made[place]
        found = zip(map(tuple, graph.edge_index.T.tolist()), graph.edge_attr.flatten().tolist(), strict=True)
        assert list(found) == list(expected.items())
    assert both_directions(made) is made


def test_networkx_graphs_keep_the_order_of_their_nodes() -> None:
    graph = nx.Graph()
    graph.add_node("z", x=[1, 0])
    graph.add_node(("a", 1), x=[0, 2])
    graph.add_node(7, x=[3, 0])
    graph.add_edge(7, "z", edge_attr=0.5)
    collection = collect([graph])
    assert collection.features == FeatureSpec(Features.categorical(4, 3), Features.continuous(1))
    assert collection.graphs.node["x"].tolist() == [[1, 0], [0, 2], [3, 0]]
    assert sorted(collection.graphs[0].edge_index.T.tolist()) == [[0, 2], [2, 0]]
    assert collection.graphs.edge["attr"].tolist() == [[0.5], [0.5]]


def test_networkx_graphs_of_every_kind_are_read_as_undirected() -> None:
    plain = nx.house_graph()
    kinds = [plain, nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (2, 4), (3, 4)]), nx.MultiGraph([*plain.edges, (0, 1)])]
    for graph in collect(kinds).graphs:
        assert nx.is_isomorphic(to_networkx(graph, to_undirected=True), plain)
        assert graph.num_edges == 2 * plain.number_of_edges()
    looped = collect([nx.Graph([(0, 0), (0, 1), (1, 1)])])
    assert sorted(looped.graphs[0].edge_index.T.tolist()) == [[0, 1], [1, 0]]
    lonely = collect([nx.empty_graph(2)])
    assert lonely.graphs[0].num_edges == 0


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (nx.DiGraph([(0, 1)]), "the directions of edges are not read"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "parallel edges are not read"),
        (nx.DiGraph([(0, 1), (1, 0)]), None),
        (nx.MultiGraph([(0, 1), (1, 2)]), None),
    ],
)
def test_a_warning_says_what_undirected_simple_graphs_lose(graph: nx.Graph, words: str | None) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        collect([graph])
    assert [words in str(one.message) for one in seen] == ([True] if words else [])


def test_numpy_and_tensor_attributes_are_read() -> None:
    graph = nx.path_graph(2)
    graph.nodes[0]["x"], graph.nodes[1]["x"] = np.array([0.5, 1.0]), torch.tensor([1.0, 2.0])
    assert collect([graph]).features.node == Features.continuous(2)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "is empty"),
        (["CCO", nx.path_graph(2)], "item 1 is a Graph but item 0 is a str"),
        (["CCO", Chem.MolFromSmiles("CCO")], "item 1 is a Mol but item 0 is a str"),
        ([3], "item 0 is a int.*SMILES"),
        ([data([], 0)], "graph 0 is empty"),
        ([data([]), data([], x=torch.ones(3, 2))], "differ in having x|has x .* where"),
        ([data([], x=torch.full((3, 1), -1))], "from -1 to -1"),
        ([data([], x=torch.full((3, 1), 10**6))], "cannot be codes"),
        ([data([], x=torch.full((3, 1), float("nan")))], "NaN"),
        ([data([(0, 5)])], "edge to node 5"),
    ],
)
def test_what_is_no_graph_is_refused_in_one_sentence(items: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        collect(items)
    assert "\n" not in str(caught.value)


def test_partly_given_attributes_are_refused() -> None:
    graph = nx.path_graph(3)
    graph.nodes[0]["x"] = 1
    with pytest.raises(InputError, match="graph 0 has x on 1 of 3"):
        collect([graph])


def test_features_of_training_are_checked_and_kept() -> None:
    codes = FeatureSpec(Features.categorical(3))
    beyond = collect([data([(0, 1)], x=torch.tensor([[0], [1], [9]]), edge_attr=torch.ones(1, 4))], codes)
    assert beyond.features == codes
    assert beyond.graphs.node["x"].flatten().tolist() == [0, 1, 9]
    assert "attr" not in beyond.graphs.edge
    whole = collect([data([(0, 1)], x=torch.tensor([[0.0], [1.0], [2.0]]))], codes)
    assert whole.graphs.node["x"].dtype == torch.long
    real = collect([data([(0, 1)], x=torch.tensor([[0], [1], [2]]))], FeatureSpec(Features.continuous(1)))
    assert real.graphs.node["x"].dtype == torch.float
    with pytest.raises(InputError, match="real numbers instead of codes"):
        collect([data([], x=torch.full((3, 1), 0.5))], codes)
    with pytest.raises(InputError, match="trained on other graphs"):
        collect(["CCO"], codes)
    with pytest.raises(InputError, match="give 9 categorical"):
        collect([data([])], FEATURES)


def block(first: int, collection: Collection) -> Block:
    """A block that begins at a row."""
    moved = Collection(collection.graphs, collection.features, collection.rows + first, collection.count)
    return Block(first, {"y": [str(row) for row in range(first, first + collection.count)]}, moved)


def test_joined_blocks_have_as_many_codes_as_the_largest() -> None:
    one = collect([data([(0, 1)], x=torch.tensor([[0], [1], [4]]))])
    two = collect([data([(0, 1)], x=torch.tensor([[0], [7], [1]]))] * 2)
    whole, columns = join([block(0, one), block(1, two)])
    assert whole.features.node == Features.categorical(8)
    assert (whole.count, whole.rows.tolist(), columns) == (3, [0, 1, 2], {"y": ["0", "1", "2"]})
    with pytest.raises(InputError, match=r"rows up to 1 .* x"):
        join([block(0, one), block(1, collect([data([])]))])
    with pytest.raises(InputError, match="no row"):
        join([])


def test_columns_are_found_or_near_ones_named() -> None:
    columns: dict[str, list[str | None]] = {"Active": ["1"], "year": ["2"]}
    assert pick(columns, ["year"], "a.csv") == {"year": ["2"]}
    with pytest.raises(
        InputError, match=r"a\.csv has no column 'active'; did you mean 'Active'\? its columns are: Act"
    ):
        pick(columns, ["active"], "a.csv")


def test_the_column_of_smiles_is_found_in_any_case_unless_two_fit() -> None:
    assert known_column("smiles", ["name", "SMILES"], "a.csv", molecules=True) == "SMILES"
    assert known_column("smiles", ["SMILES", "smiles"], "a.csv", molecules=True) == "smiles"
    with pytest.raises(InputError, match="Smiles"):
        known_column("smiles", ["SMILES", "Smiles"], "a.csv", molecules=True)
    with pytest.raises(InputError, match="did you mean 'SMILES'"):
        known_column("smiles", ["name", "SMILES"], "a.csv")


def test_json_lines_and_further_separators_find_it_too(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"SMILES": "CC"}\n{"SMILES": "CCO"}\n')
    (tmp_path / "a.csv").write_text("Smiles;dose, mg\nCC;1\n")
    for name, count in (("a.jsonl", 2), ("a.csv", 1)):
        collection, columns = read_collection(tmp_path / name)
        assert len(collection) == count
        assert "dose, mg" in columns or name == "a.jsonl"
