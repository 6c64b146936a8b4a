"""Exphormer: its layer by its equation, how far nodes see, and graphs of any size."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data

from goodformer.errors import InputError
from goodformer.models import MODELS
from goodformer.models.exphormer import Exphormer, ExphormerLayer
from goodformer.nn.expander import expander_edges
from goodformer.nn.layout import Layout
from goodformer.nn.sparse_attention import connect
from goodformer.spec import Features, FeatureSpec
from tests.models.test_graphormer import allocated
from tests.nn.graphs import batch
from tests.transforms.graphs import packed

RICH = FeatureSpec(Features.continuous(4), Features.continuous(3))
ONE = FeatureSpec(Features.continuous(1))


def build(spec: FeatureSpec = RICH, **settings: object) -> Exphormer:
    torch.manual_seed(0)
    model = MODELS.build("exphormer", spec, **{"dim": 16, "dropout_rate": 0.0, "inputs": (), **settings})
    assert isinstance(model, Exphormer)
    return model.eval()


def plain(*graphs: nx.Graph) -> Batch:
    parts = [Data(x=torch.ones(len(graph), 1), edge_index=packed([graph])[0]) for graph in graphs]
    return Batch.from_data_list(parts)


def test_the_layer_is_its_equation() -> None:
    torch.manual_seed(0)
    data, layer = batch(), ExphormerLayer(16, 4, norm="layer", p=0.0, aggregation="sum")
    layout, edges = Layout(data), torch.randn(data.num_edges, 16)
    h, virtual, kinds = torch.randn(data.num_nodes, 16), torch.randn(12, 16), torch.randn(6, 16)
    connections = connect(layout, expander_edges(layout, data.x, 2)[0], 2, edges)
    got, states = layer(h, virtual, layout, connections, kinds, None)
    a = layer.attention(torch.cat((h, virtual)), connections, kinds)
    both = layer.norm_local(h + layer.local(h, layout, edges)) + layer.norm_attention(h + a[: len(h)])
    torch.testing.assert_close(got, layer.norm_out(both + layer.ffn(both)))
    torch.testing.assert_close(states, a[len(h) :])


def sees(model: Exphormer, graph: nx.Graph) -> set[int]:
    """Nodes whose embedding changes when the input of node 0 does."""
    data, other = plain(graph), plain(graph)
    other.x[0] = 1.0001  # too little for another colour, and so for another expander
    assert torch.equal(
        expander_edges(Layout(data), data.x, model.cycles)[0], expander_edges(Layout(other), other.x, model.cycles)[0]
    )
    changed = (model.double()(_double(data)) - model(_double(other))).abs().sum(1) > 1e-13
    return set(torch.where(changed)[0].tolist())


def _double(data: Batch) -> Batch:
    data.x = data.x.double()
    return data


def test_how_far_a_node_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # inputs are made single otherwise
    path = nx.path_graph(80)
    settings = {"spec": ONE, "norm": "layer", "layers": 2}
    assert sees(build(cycles=0, virtual_nodes=0, **settings), path) == {0, 1, 2}
    reached = sees(build(cycles=3, virtual_nodes=0, **settings), path)
    assert 20 < len(reached) < 80
    assert sees(build(cycles=0, virtual_nodes=1, **settings), path) == set(range(80))
    apart = nx.disjoint_union(nx.path_graph(5), nx.path_graph(5))
    assert sees(build(cycles=0, virtual_nodes=0, **{**settings, "layers": 4}), apart) == set(range(5))
    assert sees(build(cycles=0, virtual_nodes=2, **settings), apart) == set(range(10))


def test_an_edge_of_weight_zero_is_an_edge_that_is_not_there() -> None:
    model, data = build(cycles=0, virtual_nodes=2), batch((14, 9), p=0.25)
    keep = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(0)) > 0.3
    fewer = data.clone()
    fewer.edge_index, fewer.edge_attr = data.edge_index[:, keep], data.edge_attr[keep]
    torch.testing.assert_close(model(data, keep.float()), model(fewer), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(model(data), model(fewer), atol=1e-3)


def test_weights_reach_attention_and_send_gradients() -> None:
    model, data = build(), batch((9,), p=0.4)
    weight = torch.full((data.num_edges,), 0.6, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(data, weight)[:, :8].sum(), weight)
    assert (gradient != 0).all()
    layer = model.layers[0]
    layer.local.mlp = torch.nn.Linear(16, 16)
    torch.nn.init.zeros_(layer.local.mlp.weight)  # messages cut: what is left goes through attention
    model.layers = model.layers[:1]
    (gradient,) = torch.autograd.grad(model(data, weight)[:, :8].sum(), weight)
    assert (gradient != 0).all()


def test_the_expander_seed_is_a_setting() -> None:
    data = batch((40,), p=0.1)
    assert torch.equal(build()(data), build()(data))
    assert not torch.allclose(build()(data), build(expander_seed=1)(data), atol=1e-4)


def test_sizes_never_seen_are_read() -> None:
    data = plain(nx.star_graph(400), nx.path_graph(500), nx.empty_graph(1), nx.path_graph(3), nx.empty_graph(40))
    assert build(ONE)(data).isfinite().all()
    assert build(ONE, virtual_nodes=0, cycles=0)(data).isfinite().all()


def test_memory_is_linear_in_graphs_and_in_nodes() -> None:
    model, ladder = build(ONE), nx.ladder_graph(20)
    model(plain(ladder))
    few, many = (allocated(model, plain(*[ladder] * count)) for count in (4, 16))
    large = allocated(model, plain(*[nx.ladder_graph(80)] * 4))
    assert many < 4.2 * few
    assert large < 4.4 * few


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(InputError, match="not a multiple of heads"):
        build(dim=10)
