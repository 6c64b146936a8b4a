"""The contract of every registered model."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Batch

from goodformer.errors import InputError
from goodformer.models import MODELS
from goodformer.models.base import GraphModel
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch, graphs, relabelled

CONTINUOUS = FeatureSpec(Features.continuous(4), Features.continuous(3))
SMALL = {"dim": 16}


def build(name: str, spec: FeatureSpec = CONTINUOUS) -> GraphModel:
    torch.manual_seed(0)
    return MODELS.build(name, spec, **SMALL)


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> GraphModel:
    return build(request.param)


def embed(model: GraphModel, data: Batch, **given: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.readout(model.eval()(data, **given), data)


def test_shapes(model: GraphModel) -> None:
    data = batch()
    h = model(data)
    assert h.shape == (data.num_nodes, model.dim)
    assert model.readout(h, data).shape == (data.num_graphs, model.dim)


def test_a_graph_alone_is_the_same_graph_in_a_batch(model: GraphModel) -> None:
    together = embed(model, batch())
    for g, part in enumerate(graphs()):
        torch.testing.assert_close(embed(model, Batch.from_data_list([part]))[0], together[g], atol=1e-4, rtol=1e-3)


def test_renumbering_nodes_changes_nothing(model: GraphModel) -> None:
    graph = graphs((14,))[0]
    other = relabelled(graph, torch.randperm(14, generator=torch.Generator().manual_seed(3)))
    torch.testing.assert_close(
        embed(model, Batch.from_data_list([graph])), embed(model, Batch.from_data_list([other])), atol=1e-4, rtol=1e-3
    )


def test_twice_gives_the_same(model: GraphModel) -> None:
    assert torch.equal(embed(model, batch()), embed(model, batch()))


def test_gradient_reaches_every_parameter_of_the_embedding(model: GraphModel) -> None:
    if not [*model.parameters()]:
        return
    data = batch((9, 14, 6), p=0.4)
    model.train()
    (model.readout(model(data), data) * torch.randn(3, model.dim)).sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # Only a loss trains what recovers the positional encoding.
    assert [name for name in silent if ".recover." not in name] == []


def test_edge_weight_zero_hides_an_edge(model: GraphModel) -> None:
    data = batch((10,), p=0.5)
    ones = torch.ones(data.edge_index.shape[1])
    torch.testing.assert_close(embed(model, data), embed(model, data, edge_weight=ones), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(embed(model, data), embed(model, data, edge_weight=0 * ones), atol=1e-3)


@pytest.mark.parametrize("node", [Features(), Features.continuous(4), Features.categorical(5, 7)])
@pytest.mark.parametrize("edge", [Features(), Features.continuous(3), Features.categorical(4)])
@pytest.mark.parametrize("name", list(MODELS))
def test_every_kind_of_feature(name: str, node: Features, edge: Features) -> None:
    data = batch()
    if node.kind == "categorical":
        data.x = torch.randint(5, (data.num_nodes, 2))
    elif node.kind == "constant":
        data.x = torch.ones(data.num_nodes, 1)
    if edge.kind == "categorical":
        data.edge_attr = torch.randint(4, (data.num_edges, 1))
    assert build(name, FeatureSpec(node, edge))(data).isfinite().all()


def test_single_nodes_and_no_edges(model: GraphModel) -> None:
    data = batch((1, 1, 1), p=0.0)
    assert data.num_edges == 0
    assert embed(model, data).isfinite().all()


def test_the_batch_is_left_as_it_was(model: GraphModel) -> None:
    data = batch()
    before = copy.deepcopy(data)
    model(data)
    assert sorted(data.keys()) == sorted(before.keys())
    assert all(torch.equal(data[key], before[key]) for key in before.keys())  # noqa: SIM118


def test_weights_carry_the_whole_model(model: GraphModel) -> None:
    data = batch()
    model.train()(data)
    torch.manual_seed(99)
    other = MODELS.build(next(name for name in MODELS if MODELS[name] is type(model)), CONTINUOUS, **SMALL)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(embed(model, data), embed(other, data))


@pytest.fixture(params=[name for name in MODELS if "environments" in MODELS.settings(name)])
def reader(request: pytest.FixtureRequest) -> GraphModel:
    """A model that reads environments and has seen those of a batch."""
    torch.manual_seed(0)
    model = MODELS.build(request.param, CONTINUOUS, **SMALL, environments=2, environment_table=64)
    model.train().graph_embedding(batch())
    return model


def whole(model: GraphModel, data: Batch, **given: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().graph_embedding(data, **given)


def test_without_environments_an_embedding_is_the_readout(model: GraphModel) -> None:
    assert model.fusion is None
    weight = torch.rand(batch().num_edges)
    factor = torch.rand(batch().num_nodes, 1)
    with torch.no_grad():
        torch.testing.assert_close(whole(model, batch()), embed(model, batch()))
        h = model.eval()(batch(), weight)
        torch.testing.assert_close(
            whole(model, batch(), edge_weight=weight, node_factor=factor), model.readout(h * factor, batch())
        )


def test_environments_are_added_after_the_readout(reader: GraphModel) -> None:
    data = batch()
    other = data.clone()
    other.environments_2 = data.environments_2.roll(1, 0)
    assert "environments:2" in reader.encodings
    assert torch.equal(embed(reader, data), embed(reader, other))  # node embeddings do not know the codes
    assert not torch.allclose(whole(reader, data), whole(reader, other), atol=1e-4)


def test_environments_change_with_the_edge_weight(reader: GraphModel) -> None:
    data = batch((10,), p=0.5)
    ones = torch.ones(data.edge_index.shape[1])
    torch.testing.assert_close(whole(reader, data), whole(reader, data, edge_weight=ones), atol=1e-5, rtol=1e-4)
    added = [whole(reader, data, edge_weight=w) - embed(reader, data, edge_weight=w) for w in (ones, 0.1 * ones)]
    assert not torch.allclose(*added, atol=1e-3)


def test_a_node_factor_keeps_the_environments(reader: GraphModel) -> None:
    data = batch()
    weight, factor = torch.rand(data.num_edges), torch.ones(data.num_nodes, 1)
    torch.testing.assert_close(
        whole(reader, data, edge_weight=weight, node_factor=factor), whole(reader, data, edge_weight=weight)
    )


def test_environments_keep_the_contract(reader: GraphModel) -> None:
    together = whole(reader, batch())
    for g, part in enumerate(graphs()):
        alone = whole(reader, Batch.from_data_list([part]))
        torch.testing.assert_close(alone[0], together[g], atol=1e-4, rtol=1e-3)
    graph = graphs((14,))[0]
    other = relabelled(graph, torch.randperm(14, generator=torch.Generator().manual_seed(3)))
    pair = [whole(reader, Batch.from_data_list([one])) for one in (graph, other)]
    torch.testing.assert_close(*pair, atol=1e-4, rtol=1e-3)
    assert whole(reader, batch((1, 1, 1), p=0.0)).isfinite().all()


def test_gradient_reaches_the_table_of_environments(reader: GraphModel) -> None:
    data = batch((9, 14, 6), p=0.4)
    (reader.train().graph_embedding(data) * torch.randn(3, reader.dim)).sum().backward()
    silent = [name for name, p in reader.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [name for name in silent if ".recover." not in name] == []


def test_a_twin_reads_no_environments(reader: GraphModel) -> None:
    twin = reader.twin()
    assert reader.fusion is not None
    assert twin.fusion is None
    assert torch.equal(twin.eval().graph_embedding(batch()), twin.readout(twin(batch()), batch()))


def test_environments_are_no_node_input() -> None:
    with pytest.raises(InputError, match=r"set model\.environments"):
        MODELS.build("gin", CONTINUOUS, inputs=["environments:2"])
