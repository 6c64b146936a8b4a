"""Attributes of networkx graphs as features, and graphs that lack the features of a model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from goodformer.data.readers.attributes import Attribute, Attributes
from goodformer.data.readers.collection import collect
from goodformer.errors import InputError
from goodformer.estimator import GraphClassifier
from goodformer.fitted import FittedModel
from goodformer.spec import Features, FeatureSpec

FAST: dict[str, Any] = {
    "method": "erm", "model": "gin", "epochs": 20, "split": "random",
    "settings": {"model.dim": 16, "model.layers": 2, "training.batch_size": 16, "training.learning_rate": 0.01},
}  # fmt: skip


def ring(number: int, **more: Any) -> nx.Graph:
    """A ring of named nodes with an element, a charge and bond lengths; odd ones contain nitrogen."""
    graph = nx.cycle_graph(5 + number % 3)
    graph = nx.relabel_nodes(graph, {node: f"n{node}" for node in graph})
    for place, node in enumerate(graph):
        graph.nodes[node]["element"] = "N" if number % 2 and place == 2 else "C"
        graph.nodes[node]["mass"] = 12.0 + 100.0 * place
    for _, _, carried in graph.edges(data=True):
        carried |= {"kind": 1, **more}
    return graph


RINGS = [ring(number) for number in range(60)]
LABELS = [number % 2 for number in range(60)]


def test_attributes_become_features() -> None:
    found = collect(RINGS)
    assert found.features == FeatureSpec(Features.continuous(3), Features.categorical(2))
    assert found.attributes is not None
    assert [(one.name, one.kind, one.values) for one in found.attributes.node] == [
        ("element", "category", ("C", "N")),
        ("mass", "number", ()),
    ]
    x = found.graphs.node["x"]
    assert torch.equal(x[:, :2].sum(1), torch.ones(len(x)))
    assert abs(float(x[:, 2].mean())) < 1e-5
    assert float(x[:, 2].std()) == pytest.approx(1, abs=0.01)
    assert found.names is not None
    assert found.names[0][:2] == ("n0", "n1")


def test_categories_alone_are_codes_and_other_values_have_their_own() -> None:
    known = Attributes.learn(RINGS, ["element"], [])
    assert known.features == FeatureSpec(Features.categorical(3), Features())
    odd = ring(1)
    odd.nodes["n0"]["element"] = "Xe"
    with pytest.warns(UserWarning, match="node attribute 'element' has values that training did not have: Xe"):
        (data,) = known.encode([odd])
    assert data.x.flatten().tolist()[:3] == [0, 1, 2]
    assert data.edge_attr is None


def test_what_is_ignored_is_named_once() -> None:
    graphs = [ring(number) for number in range(3)]
    graphs[1].nodes["n0"]["note"] = "only here"
    for graph in graphs:
        for node in graph:
            graph.nodes[node]["thing"] = {"a": 1}
    with pytest.warns(UserWarning, match="ignored") as caught:
        collect(graphs)
    (message,) = (str(one.message) for one in caught)
    assert "'note' (missing on 17 of 18 nodes)" in message
    assert "'thing' (neither numbers nor words, but dict)" in message
    assert "element" not in message
    with pytest.raises(InputError, match="node attribute 'note' is missing on"):
        collect(graphs, named=(["note"], None))
    with pytest.raises(InputError, match="node attribute 'nothing' is missing"):
        collect(graphs, named=(["nothing"], None))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], Attribute("a", "category", (1, 2, 3))),
        ([True, False, True], Attribute("a", "category", (False, True))),
        ([1.0, 2, 3], Attribute("a", "number", (), (2.0,), (np.std([1, 2, 3]),))),
        ([np.float32(1), np.float32(1), np.float32(1)], Attribute("a", "number", (), (1.0,), (1.0,))),
        (
            [[0.0, 1.0], (2.0, 1.0), np.array([4.0, 1.0])],
            Attribute("a", "number", (), (2.0, 1.0), (np.std([0, 2, 4]), 1.0)),
        ),
    ],
)
def test_kinds_of_values(values: list[Any], expected: Attribute) -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, dict(enumerate(values)), "a")
    (found,) = Attributes.learn([graph]).node
    assert (found.name, found.kind, found.values) == (expected.name, expected.kind, expected.values)
    assert found.mean == pytest.approx(expected.mean)
    assert found.scale == pytest.approx(expected.scale)


def test_many_integers_are_numbers() -> None:
    graph = nx.path_graph(30)
    nx.set_node_attributes(graph, {node: 100 * node for node in graph}, "mass")
    assert collect([graph]).features.node == Features.continuous(1)


def test_x_and_edge_attr_are_the_features_if_there_are_any() -> None:
    graph = nx.path_graph(3)
    for node in graph:
        graph.nodes[node].update(x=[node, 0], colour="red")
    with pytest.warns(UserWarning, match="ignored: node attribute 'colour'"):
        assert collect([graph]).features == FeatureSpec(Features.categorical(3, 1))


@pytest.fixture(scope="module")
def fitted() -> GraphClassifier:
    return GraphClassifier(**FAST).fit(RINGS, LABELS)


def test_a_model_of_attributes_is_saved_with_their_encoding(fitted: GraphClassifier, tmp_path: Path) -> None:
    assert fitted.score(RINGS, LABELS) > 0.95  # the label is in an attribute only
    fitted.save(tmp_path / "model")
    again = GraphClassifier.load(tmp_path / "model")
    assert again.model_.attributes == fitted.model_.attributes
    assert np.array_equal(again.predict_proba(RINGS), fitted.predict_proba(RINGS))
    assert torch.equal(FittedModel.open(tmp_path / "model").predict(RINGS).classes.flatten(), torch.tensor(LABELS))
    assert (
        GraphClassifier(**FAST, node_attributes=["mass"], edge_attributes=[]).fit(RINGS, LABELS).score(RINGS, LABELS)
        < 0.8
    )


def test_names_of_nodes_are_in_the_explanation(fitted: GraphClassifier, tmp_path: Path) -> None:
    record = fitted.explain([ring(1), ring(2)], tmp_path)["graphs"][1]
    assert record["node_names"] == [f"n{node}" for node in range(7)]
    assert record["edge_names"] == [[f"n{one}", f"n{other}"] for one, other in record["edges"]]


def test_a_model_never_predicts_graphs_without_its_features(fitted: GraphClassifier) -> None:
    bare = nx.cycle_graph(5)
    for predict in (fitted.predict, fitted.model_.predict):
        with pytest.raises(InputError, match="graph 0 lacks the node attribute 'element' on 5 of 5 nodes") as caught:
            predict([bare])
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="graph 1 has no x"):
        fitted.model_.predict([Data(x=torch.ones(2, 3), edge_index=torch.zeros(2, 0).long()), Data(num_nodes=2)])
    some = ring(3)
    del some.nodes["n1"]["mass"]
    with pytest.raises(InputError, match=r"lacks the node attribute 'mass' on 1 of 5 nodes|of 6|of 7"):
        fitted.predict([some])


def test_a_column_of_x_is_not_filled_with_ones() -> None:
    graphs = [
        Data(x=torch.full((4, 1), float(number % 2)), edge_index=torch.tensor([[0, 1], [1, 0]])) for number in range(60)
    ]
    model = GraphClassifier(**{**FAST, "epochs": 1}).fit(graphs, LABELS)
    bare = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=4)
    for predict in (model.predict, model.model_.predict):
        with pytest.raises(InputError, match="graph 0 has no x, but the model was trained with it; give 1 continuous"):
            predict([bare])
    with pytest.raises(InputError, match="graph 0 has no x"):
        model.predict([nx.path_graph(4)])


def test_a_model_without_features_ignores_them_with_a_warning() -> None:
    plain = [nx.cycle_graph(5 + n % 7) if n % 2 else nx.path_graph(5 + n % 7) for n in range(60)]
    model = GraphClassifier(**{**FAST, "epochs": 1}).fit(plain, LABELS)
    coloured = nx.path_graph(6)
    nx.set_node_attributes(coloured, 3.0, "x")
    with pytest.warns(UserWarning, match="ignored: x"):
        found = model.predict_proba([coloured])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(found, model.predict_proba([nx.path_graph(6)]))


def test_names_of_people_are_no_feature_unless_they_are_chosen() -> None:
    graphs = [ring(number) for number in range(12)]
    for place, graph in enumerate(graphs):
        for node in graph:
            graph.nodes[node]["person"] = f"person {place} {node}"
    with pytest.warns(UserWarning, match="person"):
        assert "person" not in [one.name for one in Attributes.learn(graphs).node]
    assert [one.name for one in Attributes.learn(graphs, node=["person"]).node] == ["person"]
