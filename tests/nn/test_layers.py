"""Layers against independent implementations with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINConv, GINEConv, GPSConv

from goodformer.nn.attention import Attention
from goodformer.nn.colours import refine_colours
from goodformer.nn.disentangler import Half, InnerProducts, Scores, both_signs, edge_logits, head_mean_mask
from goodformer.nn.dropout import ByteDropout
from goodformer.nn.encoder import NodeNoise, SubgraphEncoder
from goodformer.nn.features import CodeEmbedding, LapPE, NodeInput, SignNet, flip_signs
from goodformer.nn.gps import GPSLayer
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, gather_messages
from goodformer.nn.mlp import mlp
from goodformer.nn.readout import mean_nodes, node_share, weighted
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch, graphs


def test_padding_and_back_is_the_identity_and_so_is_its_gradient() -> None:
    layout = Layout(batch())
    h = torch.randn(layout.num_nodes, 5, requires_grad=True)
    padded = layout.pad(h)
    assert sum(len(part) for part in padded) == layout.num_graphs
    for part, bucket in zip(padded, layout.buckets, strict=True):
        assert part.shape == (*bucket.mask.shape, 5)
        assert part[~bucket.mask].abs().sum() == 0
        assert torch.equal(part[bucket.mask], torch.cat([h[layout.graph == g] for g in bucket.graphs]))
    back = layout.unpad(padded)
    assert torch.equal(back, h)
    weights = torch.randn_like(h)
    (back * weights).sum().backward()
    assert torch.equal(h.grad, weights)


def test_padding_can_be_differentiated_twice() -> None:
    layout = Layout(batch((3, 5)))
    h = torch.randn(8, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layout.unpad([part**3 for part in layout.pad(x)]), h)


def test_twice_is_the_layout_of_the_doubled_batch() -> None:
    from torch_geometric.data import Batch

    parts = graphs()
    expected = Layout(Batch.from_data_list(parts + parts))
    got = Layout(batch()).twice()
    for name in ("graph", "sizes", "src", "dst", "local"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    h = torch.randn(got.num_nodes, 3)
    assert torch.equal(got.unpad(got.pad(h)), h)
    for one, both in zip(Layout(batch()).buckets, got.buckets, strict=True):
        assert torch.equal(both.graphs, torch.cat((one.graphs, one.graphs + 6)))


def test_both_directions_of_an_edge_share_a_number() -> None:
    layout = Layout(batch())
    number, count = layout.undirected()
    assert count == layout.src.numel() // 2
    for k in range(count):
        (ends,) = torch.where(number == k)
        assert len(ends) == 2
        assert layout.src[ends[0]] == layout.dst[ends[1]]


def test_attention_equals_torch_multihead_attention() -> None:
    torch.manual_seed(0)
    data, dim, heads = batch(), 16, 4
    layout, ours, oracle = Layout(data), Attention(dim, heads), nn.MultiheadAttention(dim, heads, batch_first=True)
    oracle.in_proj_weight.data, oracle.in_proj_bias.data = ours.qkv.weight.data, ours.qkv.bias.data
    oracle.out_proj.load_state_dict(ours.out.state_dict())
    h = torch.randn(layout.num_nodes, dim)
    got = ours(h, layout)
    for g in range(layout.num_graphs):
        nodes = layout.graph == g
        expected, _ = oracle(*[h[nodes][None]] * 3)
        torch.testing.assert_close(got[nodes], expected[0], atol=1e-5, rtol=1e-4)


def test_a_node_of_weight_zero_is_not_attended_to() -> None:
    torch.manual_seed(0)
    layout, attention = Layout(batch((6,))), Attention(8, 2)
    h, weight = torch.randn(6, 8), torch.tensor([1.0, 1, 1, 1, 1, 0])
    changed = h.clone()
    changed[5] += 10
    a, b = attention(h, layout, weight)[:5], attention(changed, layout, weight)[:5]
    torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(attention(h, layout)[:5], attention(changed, layout)[:5], atol=1e-2)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_gps_layer_equals_pyg_gpsconv(norm: str) -> None:
    torch.manual_seed(0)
    data, dim, heads = batch(), 16, 4
    layout = Layout(data)
    ours = GPSLayer(dim, heads, norm=norm, p=0.0, aggregation="sum")
    oracle = GPSConv(dim, GINConv(ours.local.mlp), heads=heads, norm=f"{norm}_norm", act="relu")
    if norm == "layer":  # PyG's LayerNorm normalises whole graphs; the field's layers normalise nodes
        for name in ("norm1", "norm2", "norm3"):
            setattr(oracle, name, nn.LayerNorm(dim))
        oracle.norm_with_batch = False
    oracle.attn.in_proj_weight.data, oracle.attn.in_proj_bias.data = (
        ours.attention.qkv.weight.data,
        ours.attention.qkv.bias.data,
    )
    oracle.attn.out_proj.load_state_dict(ours.attention.out.state_dict())
    oracle.mlp[0].load_state_dict(ours.ffn[0].state_dict())
    oracle.mlp[3].load_state_dict(ours.ffn[3].state_dict())
    h = torch.randn(layout.num_nodes, dim)
    torch.testing.assert_close(ours(h, layout), oracle(h, data.edge_index, batch=data.batch), atol=1e-4, rtol=1e-3)


def test_gin_with_edge_features_equals_pyg() -> None:
    torch.manual_seed(0)
    data = batch()
    layout, inner = Layout(data), nn.Linear(8, 8)
    h, edges = torch.randn(layout.num_nodes, 8), torch.randn(layout.src.numel(), 8)
    with_edges, plain = GINEConv(inner), GINConv(inner)  # PyG draws the weights anew when it takes a module
    torch.testing.assert_close(GIN(inner)(h, layout, edges), with_edges(h, data.edge_index, edges))
    torch.testing.assert_close(GIN(inner)(h, layout), plain(h, data.edge_index))
    torch.testing.assert_close(
        GIN(inner)(h, layout, edges[:1]), with_edges(h, data.edge_index, edges[:1].expand_as(edges))
    )


@pytest.mark.parametrize("aggregation", ["sum", "mean", "log"])
def test_weighted_messages_equal_a_dense_product(aggregation: str) -> None:
    torch.manual_seed(0)
    data = batch()
    layout = Layout(data)
    h, weight = torch.randn(layout.num_nodes, 3), torch.rand(layout.src.numel())
    dense = torch.zeros(layout.num_nodes, layout.num_nodes)
    dense[layout.dst, layout.src] = weight
    degree = dense.sum(1, keepdim=True)
    scale = {"sum": torch.ones_like(degree), "mean": 1 / degree.clamp(min=1e-3)}
    scale["log"] = scale["mean"] * torch.log1p(degree)
    torch.testing.assert_close(gather_messages(h, layout, None, weight, aggregation), scale[aggregation] * (dense @ h))


def test_an_edge_of_weight_zero_is_an_edge_that_is_not_there() -> None:
    torch.manual_seed(0)
    data = batch((9,), p=0.5)
    keep = torch.rand(data.edge_index.shape[1]) > 0.5
    fewer = data.clone()
    fewer.edge_index = data.edge_index[:, keep]
    layer, h = GPSLayer(8, 2, norm="layer", p=0.0, aggregation="log"), torch.randn(9, 8)
    torch.testing.assert_close(
        layer(h, Layout(data), None, keep.float()), layer(h, Layout(fewer)), atol=1e-5, rtol=1e-4
    )


def test_scores_and_halves_follow_the_equations_graph_by_graph() -> None:
    torch.manual_seed(0)
    data, dim, heads = batch((5, 8)), 8, 2
    layout, scores = Layout(data), Scores(dim, heads)
    half = Half(dim, norm="none", p=0.0, aggregation="sum")
    z = torch.randn(13, dim)
    e = scores(z, layout)
    mask = head_mean_mask(e, layout)
    attention = [p.softmax(-1) for p, _, _ in both_signs(e, None, layout)]
    out = half(z, attention, layout, None, mask)
    for g, (a, b) in enumerate([(0, 5), (5, 13)]):
        q, k = scores.qk(z[a:b]).view(b - a, 2, heads, dim // heads).permute(1, 2, 0, 3)
        expected = q @ k.transpose(1, 2) / (dim // heads) ** 0.5  # (H, n, n)
        (square,) = (
            part[bucket.graphs == g] for part, bucket in zip(e, layout.buckets, strict=True) if g in bucket.graphs
        )
        torch.testing.assert_close(square[0, :, : b - a, : b - a], expected)
        adjacency = torch.zeros(b - a, b - a)
        inside = data.batch[data.edge_index[0]] == g
        source, target = data.edge_index[:, inside] - a
        adjacency[target, source] = 1
        m = expected.sigmoid().mean(0) * adjacency  # A_c = M * A
        torch.testing.assert_close(mask[inside], m[target, source])
        values = half.value(z[a:b]).view(b - a, heads, -1).transpose(0, 1)
        attended = (expected.softmax(-1) @ values).transpose(0, 1).reshape(b - a, dim)
        both = attended + half.local.mlp(z[a:b] + m @ z[a:b])
        torch.testing.assert_close(out[a:b], both + half.mlp(both), atol=1e-5, rtol=1e-4)


def test_symmetric_edge_logits_are_equal_both_ways() -> None:
    torch.manual_seed(0)
    layout = Layout(batch())
    e = Scores(8, 2)(torch.randn(layout.num_nodes, 8), layout)
    logits, (number, count) = edge_logits(e, layout, symmetric=True), layout.undirected()
    for k in range(count):
        pair = logits[number == k]
        assert pair[0] == pair[1]
    assert not torch.equal(edge_logits(e, layout, symmetric=False), logits)


def test_bounded_scores_stay_within_their_scale() -> None:
    layout = Layout(batch())
    e = Scores(8, 2, bounded=True)(1000 * torch.randn(layout.num_nodes, 8), layout)
    assert max(square.abs().max() for square in e) <= 4.0 + 1e-4


def test_node_share_and_weighted_mean() -> None:
    data = batch()
    layout = Layout(data)
    mask = torch.rand(layout.src.numel())
    got, h = node_share(mask, layout), torch.randn(layout.num_nodes, 3)
    for v in range(layout.num_nodes):
        around = mask[layout.dst == v]
        expected = float(around.square().sum() / around.sum()) if len(around) else 1.0
        assert float(got[v]) == pytest.approx(expected, abs=1e-5)
    pooled = mean_nodes(weighted(h, layout, got), layout)
    for g in range(layout.num_graphs):
        here = layout.graph == g
        torch.testing.assert_close(pooled[g], (h[here] * got[here, None]).sum(0) / got[here].sum())


def test_a_node_of_a_kept_subgraph_belongs_to_it_whatever_else_it_carries() -> None:
    layout = Layout(batch((20,), p=0.3))
    kept = (layout.src < 5) & (layout.dst < 5)
    share = node_share(kept.float(), layout)
    touched = torch.zeros(20).index_fill(0, layout.dst[kept], 1.0)
    torch.testing.assert_close(share, touched)


def test_byte_dropout_keeps_the_share_and_the_mean() -> None:
    torch.manual_seed(0)
    layer, x = ByteDropout(0.25), torch.ones(1000, 257)
    out = layer(x)
    assert float((out == 0).float().mean()) == pytest.approx(0.25, abs=0.005)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)
    assert not torch.equal(out, layer(x))
    assert torch.equal(layer.eval()(x), x)


def test_codes_never_seen_share_the_last_vector() -> None:
    layer = CodeEmbedding((3, 5), 4)
    seen, unseen = torch.tensor([[2, 4]]), torch.tensor([[99, 1000]])
    assert torch.equal(layer(seen), layer(unseen))
    assert layer(torch.tensor([[-1, 0]])).isfinite().all()


@pytest.mark.parametrize("features", [Features(), Features.continuous(4), Features.categorical(5, 7)])
def test_every_kind_of_node_feature_becomes_a_vector(features: Features) -> None:
    data = batch()
    if features.kind == "constant":
        data.x = torch.ones(data.num_nodes, 1)
    elif features.kind == "categorical":
        data.x = torch.randint(5, (data.num_nodes, 2))
    layer = NodeInput(FeatureSpec(features), 8, ("cycle_walks:6",))
    h = layer(data)
    assert h.shape == (data.num_nodes, 8)
    h.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())


def test_signnet_reads_eigenvectors_whatever_their_signs() -> None:
    torch.manual_seed(0)
    layer, vectors = SignNet(8, 12), torch.randn(10, 8)
    flipped = vectors * torch.tensor([1.0, -1, -1, 1, 1, -1, 1, -1])
    torch.testing.assert_close(layer(vectors), layer(flipped))
    assert not torch.allclose(layer(vectors), layer(vectors.abs().flip(1)))
    inputs = NodeInput(FeatureSpec(Features.continuous(4)), 8, ("signnet:8", "cycle_walks:6"))
    assert inputs.encodings == ("laplacian:8", "cycle_walks:6")
    assert inputs(batch()).shape == (47, 8)


def test_lappe_sums_over_the_known_pairs_of_eigenvectors_and_eigenvalues() -> None:
    torch.manual_seed(0)
    layer, graph = LapPE(12), torch.tensor([0, 0, 0, 1, 1])
    vectors, values = torch.randn(5, 4), torch.rand(2, 4)[graph]
    vectors[3:, 1:] = 0  # a graph of two nodes has one eigenvector beside the constant one
    vectors[0, 2] = 0
    expected = []
    for v in range(5):
        known = range(4) if v < 3 else range(1)
        expected.append(layer.out(sum(layer.phi(torch.stack((vectors[v, j], values[v, j]))) for j in known)))
    torch.testing.assert_close(layer(vectors, values, graph, 2), torch.stack(expected))
    inputs = NodeInput(FeatureSpec(Features.continuous(4)), 8, ("lappe:8", "signnet:8"))
    assert inputs.encodings == ("laplacian:8", "eigenvalues:8")
    assert inputs(batch()).shape == (47, 8)


def test_signs_of_eigenvectors_are_flipped_per_graph_and_column_and_in_training_alone() -> None:
    graph, vectors = torch.arange(50).repeat_interleave(7), torch.randn(350, 4)
    torch.manual_seed(1)
    flipped = flip_signs(vectors, graph, 50)
    torch.manual_seed(1)
    assert torch.equal(flipped, flip_signs(vectors, graph, 50))
    same, opposite = (flipped == vectors).view(50, 7, 4).all(1), (flipped == -vectors).view(50, 7, 4).all(1)
    assert (same | opposite).all()
    assert 0.35 < same.float().mean() < 0.65
    assert not (same.all(1) | opposite.all(1)).all()
    layer, data = NodeInput(FeatureSpec(Features.continuous(4)), 8, ("laplacian:8",)), batch()
    assert not torch.equal(layer(data), layer(data))
    assert torch.equal(layer.eval()(data), layer(data))


def test_inner_products_are_gils_pair_scores() -> None:
    layout = Layout(batch((5, 9)))
    z = torch.randn(14, 16)
    (scores,) = InnerProducts(3)(z, layout)
    assert scores.shape == (2, 3, 9, 9)
    torch.testing.assert_close(scores[1, 2], z[5:] @ z[5:].T / 4)


def test_evaluation_noise_depends_on_the_graph_alone() -> None:
    from torch_geometric.data import Batch

    noise, parts = NodeNoise(6).eval(), graphs()
    together = batch()
    expected = noise(Layout(together), together.x)
    for g, part in enumerate(parts):
        alone = Batch.from_data_list([part])
        assert torch.equal(noise(Layout(alone), alone.x), expected[together.batch == g])
    assert torch.equal(noise(Layout(together), together.x), expected)
    wide = batch((700,), p=0.005)
    assert torch.equal(NodeNoise(6).eval().rows(300)[:256], noise.rows(10)[:256])
    assert noise(Layout(wide), wide.x).shape == (700, 6)
    assert not torch.equal(noise.train()(Layout(together), together.x), noise(Layout(together), together.x))


def test_noise_follows_nodes_when_they_are_renumbered() -> None:
    from torch_geometric.data import Batch

    from tests.nn.graphs import relabelled

    noise, graph = NodeNoise(6).eval(), graphs((12,))[0]
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    a, b = Batch.from_data_list([graph]), Batch.from_data_list([relabelled(graph, order)])
    assert torch.equal(noise(Layout(a), a.x)[order], noise(Layout(b), b.x))


def test_colours_tell_apart_what_refinement_can() -> None:
    from torch_geometric.data import Batch, Data

    path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    graph = Batch.from_data_list([Data(x=torch.ones(5, 1), edge_index=path)])
    colour = refine_colours(Layout(graph), graph.x, 4)
    assert colour[0] == colour[4]
    assert colour[1] == colour[3]
    assert len(colour.unique()) == 3


def test_the_encoder_sends_no_gradient_to_the_mask() -> None:
    layout = Layout(batch())
    weight = torch.rand(layout.src.numel(), requires_grad=True)
    encoder = SubgraphEncoder(6, 3, 8, norm="layer", aggregation="sum")
    encoder.recover(encoder(torch.randn(layout.num_nodes, 6), layout, weight)).sum().backward()
    assert weight.grad is None
    assert all(p.grad is not None for p in encoder.parameters())


def test_mlp_has_the_widths_asked_for() -> None:
    assert mlp(3, 5, 7, 0.1)(torch.randn(2, 3)).shape == (2, 7)
