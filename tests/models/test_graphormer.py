"""Graphormer: its biases against networkx, its layer against torch, and graphs larger than any table."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from goodformer.errors import InputError
from goodformer.models import MODELS
from goodformer.models.graphormer import Graphormer
from goodformer.nn.attention import NEVER
from goodformer.nn.graphormer import Centrality, GraphormerLayer
from goodformer.nn.layout import Layout
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch
from tests.transforms.graphs import packed

PLAIN = FeatureSpec()
RICH = FeatureSpec(Features.continuous(4), Features.continuous(3))


def build(spec: FeatureSpec = PLAIN, **settings: object) -> Graphormer:
    torch.manual_seed(0)
    model = MODELS.build("graphormer", spec, **{"dim": 16, "dropout_rate": 0.0, **settings})
    assert isinstance(model, Graphormer)
    return model


def plain(*graphs: nx.Graph) -> Batch:
    parts = [Data(x=torch.ones(len(graph), 1), edge_index=packed([graph])[0]) for graph in graphs]
    return Batch.from_data_list(parts)


def loud(model: Graphormer) -> Graphormer:
    """The model with weights large enough to tell differences by."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(20)
    return model


def test_biases_are_those_of_networkx_distances() -> None:
    model, graphs = build(max_distance=4), [nx.gnp_random_graph(12, 0.2, seed=3), nx.path_graph(8), nx.empty_graph(2)]
    (bias,) = model._biases(plain(*graphs), Layout(plain(*graphs)), None)
    table = model.bias.by_distance.weight
    assert bias.shape == (3, 4, 13, 13)
    for g, graph in enumerate(graphs):
        hops = dict(nx.all_pairs_shortest_path_length(graph))
        n = len(graph)
        for i in graph:
            for j in graph:
                torch.testing.assert_close(
                    bias[g, :, 1 + i, 1 + j], table[min(hops[j].get(i, 99), 4) if i in hops[j] else 5]
                )
        torch.testing.assert_close(bias[g, :, 0, : n + 1], model.token_bias[:, None].expand(-1, n + 1))
        torch.testing.assert_close(bias[g, :, : n + 1, 0], model.token_bias[:, None].expand(-1, n + 1))
        assert (bias[g, :, :, n + 1 :] == NEVER).all()


def test_the_layer_equals_torch() -> None:
    torch.manual_seed(0)
    ours, heads = GraphormerLayer(16, 4, 0.0), 4
    oracle = nn.TransformerEncoderLayer(
        16, heads, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    oracle.self_attn.in_proj_weight.data, oracle.self_attn.in_proj_bias.data = ours.qkv.weight.data, ours.qkv.bias.data
    oracle.self_attn.out_proj.load_state_dict(ours.out.state_dict())
    for theirs, mine in (("linear1", ours.ffn[0]), ("linear2", ours.ffn[2])):
        getattr(oracle, theirs).load_state_dict(mine.state_dict())
    h, bias = torch.randn(3, 7, 16), torch.randn(3, heads, 7, 7)
    expected = oracle(h, src_mask=bias.flatten(0, 1))
    torch.testing.assert_close(ours(h.flatten(0, 1), [bias]), expected.flatten(0, 1), atol=1e-5, rtol=1e-4)
    wide, wide_bias = torch.randn(2, 9, 16), torch.randn(2, heads, 9, 9)
    both = ours(torch.cat((h.flatten(0, 1), wide.flatten(0, 1))), [bias, wide_bias])
    expected = torch.cat((expected.flatten(0, 1), oracle(wide, src_mask=wide_bias.flatten(0, 1)).flatten(0, 1)))
    torch.testing.assert_close(both, expected, atol=1e-5, rtol=1e-4)


def test_centrality_is_the_vector_of_the_degree_and_blends_between_degrees() -> None:
    layer, data = Centrality(6, 4), plain(nx.star_graph(7))
    layout = Layout(data)
    got = layer(layout, torch.ones(14))
    for node, degree in enumerate([3, *[1] * 7]):  # the hub's 7 count as 3, the last entry
        torch.testing.assert_close(got[node], layer.incoming.weight[degree] + layer.outgoing.weight[degree])
    got = layer(layout, torch.full((14,), 0.25))
    for node, (low, share) in enumerate([(1, 0.75), *[(0, 0.25)] * 7]):
        for table in (layer.incoming.weight, layer.outgoing.weight):
            got[node] -= (1 - share) * table[low] + share * table[low + 1]
    torch.testing.assert_close(got, torch.zeros_like(got), atol=1e-6, rtol=0)


def test_the_readout_is_the_token() -> None:
    model, data = build(RICH), batch()
    layout = Layout(data)
    (tokens,), biases = model._tokens(data, layout, None), model._biases(data, layout, None)
    h = tokens.flatten(0, 1)
    for layer in model.layers:
        h = layer(h, biases)
    h = model.norm(h).view_as(tokens)
    torch.testing.assert_close(model.readout(model(data), data), h[:, 0], atol=1e-5, rtol=1e-4)
    averaged = build(RICH, pooling="mean")
    torch.testing.assert_close(averaged(data), layout.unpad([h[:, 1:]]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("spec", [PLAIN, RICH])
def test_an_edge_of_weight_zero_is_an_edge_that_is_not_there(spec: FeatureSpec) -> None:
    model, data = loud(build(spec)).eval(), batch((14, 9), p=0.25)
    data.x = data.x if spec is RICH else torch.ones(data.num_nodes, 1)
    low = torch.minimum(*data.edge_index) * 99 + torch.maximum(*data.edge_index)
    keep = low % 3 > 0
    fewer = data.clone()
    fewer.edge_index, fewer.edge_attr = data.edge_index[:, keep], data.edge_attr[keep]
    torch.testing.assert_close(model(data, keep.float()), model(fewer), atol=1e-4, rtol=1e-3)
    assert not torch.allclose(model(data), model(fewer), atol=1e-2)


def test_weights_between_send_gradients_and_move_from_one_hop_to_not_joined() -> None:
    model, data = build(RICH), batch((9,), p=0.4)
    weight = torch.full((data.num_edges,), 0.6, requires_grad=True)
    (bias,) = model.bias(Layout(data), None, weight)
    table = model.bias.by_distance.weight
    u, v = data.edge_index[:, 0]
    torch.testing.assert_close(bias[0, :, v, u], 0.6 * table[1] + 0.4 * table[-1])
    (gradient,) = torch.autograd.grad(model.readout(model(data, weight), data)[0, :8].sum(), weight)
    assert (gradient != 0).all()


def test_sizes_degrees_and_distances_never_seen_are_read() -> None:
    model = build().eval()
    data = plain(nx.star_graph(300), nx.path_graph(200), nx.empty_graph(1), nx.path_graph(3))
    assert model(data).isfinite().all()
    # Every node of a long way but those near its ends sees the same: all beyond the cap is alike.
    (biases,) = model.bias(Layout(plain(nx.path_graph(100))), None, None)
    assert torch.equal(biases[0, :, 0, 20], biases[0, :, 0, 99])


def test_larger_degrees_are_the_largest_known() -> None:
    model = build(max_degree=5)
    small, large = Centrality(4, 6), plain(nx.star_graph(5), nx.star_graph(90))
    layout = Layout(large)
    hubs = small(layout, torch.ones(layout.src.numel()))[large.ptr[:-1]]
    torch.testing.assert_close(hubs[0], hubs[1])
    assert model(large).isfinite().all()


def allocated(model: Graphormer, data: Batch) -> int:
    """Bytes allocated in a forward pass."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        model(data)
    return sum(event.self_cpu_memory_usage for event in seen.events() if event.self_cpu_memory_usage > 0)


def test_memory_is_linear_in_the_number_of_graphs() -> None:
    model, ladder = build(), nx.ladder_graph(10)
    model(plain(ladder))
    few, many = (allocated(model, plain(*[ladder] * count)) for count in (4, 16))
    assert many < 4.2 * few


def test_first_weights_are_small_and_smaller_the_deeper() -> None:
    for layers in (1, 16):
        model = build(dim=128, layers=layers)
        assert float(model.layers[0].qkv.weight.std().detach()) == pytest.approx(0.02 / layers**0.5, rel=0.05)
        assert not model.layers[0].qkv.bias.any()


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(InputError, match="not a multiple of heads"):
        build(dim=10)


def test_gradients_can_be_differentiated() -> None:
    model, data = build(RICH), batch((6, 5), p=0.5)
    parameters = [p for p in model.parameters() if p.requires_grad]
    first: tuple[Tensor, ...] = torch.autograd.grad(model(data).square().sum(), parameters, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), parameters, allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in second)
