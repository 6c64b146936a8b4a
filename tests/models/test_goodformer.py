"""GOODFormer's model against the paper's equations, written out densely for one graph at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from goodformer.config.presets import configure
from goodformer.errors import InputError
from goodformer.models import MODELS
from goodformer.models.goodformer import GOODFormer
from goodformer.nn.disentangler import ConcatHalf
from goodformer.nn.encoder import EdgeSubgraphEncoder
from goodformer.nn.gps import GPSLayer
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch, graphs

SPEC = FeatureSpec(Features.continuous(4))
PRESETS = ("default", "paper", "as_published")
GOLDEN: dict[str, list[list[float]]] = {
    "default": [[0.4686, 0.7983, -0.0144, 1.0435], [0.9256, 0.6858, 0.6853, 1.0753], [55.3951]],
    "paper": [[0.7979, -0.2194, 0.3615, 0.2191], [0.4552, -0.3419, 0.8444, 0.2097], [66.5739]],
    "as_published": [[-0.0796, -0.0922, -0.0767, -0.1536], [-0.0664, -0.0763, -0.0645, -0.1594], [74.5327]],
}


def build(preset: str, **changes: Any) -> GOODFormer:
    torch.manual_seed(0)
    chosen = configure({"name": "good-motif", "domain": "basis"}, preset=preset).model
    named = {key: value for key, value in chosen.items() if key != "name"}
    return MODELS.build("goodformer", SPEC, **{**named, "dim": 16, **changes})


# ------------------------------------------------------------------------------------------------- the oracle


def split(x: Tensor, heads: int) -> Tensor:
    return x.view(len(x), heads, -1).transpose(0, 1)  # (H, n, d)


def aggregate(h: Tensor, adjacency: Tensor, how: str, edge: Tensor | None) -> Tensor:
    degree = adjacency.sum(1, keepdim=True)
    scale = {"sum": torch.ones_like(degree), "log": torch.log1p(degree) / degree.clamp(min=1e-3)}[how]
    return scale * (adjacency @ (h if edge is None else (h + edge).relu()))


def gps(layer: GPSLayer, h: Tensor, adjacency: Tensor, keys: Tensor | None, how: str, edge: Tensor | None) -> Tensor:
    local = layer.norm_local(h + layer.local.mlp(h + aggregate(h, adjacency, how, edge)))
    heads = layer.attention.heads
    q, k, v = (split(part, heads) for part in layer.attention.qkv(h).chunk(3, -1))
    logits = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    if keys is not None:
        logits = logits + keys.clamp(min=1e-6).log()
    mixed = (logits.softmax(-1) @ v).transpose(0, 1).reshape(h.shape)
    attended = layer.norm_attention(h + layer.attention.out(mixed))
    both = local + attended if layer.join is None else layer.join(torch.cat((local, attended), 1))
    return layer.norm_out(both + layer.ffn(both))


def pair_scores(module: Any, z: Tensor, heads: int) -> Tensor:
    q, k = (split(part, heads) for part in module.qk(z).chunk(2, -1))
    return q @ k.transpose(1, 2) / q.shape[-1] ** 0.5  # (H, n, n)


def half(module: Any, z: Tensor, scores: Tensor, adjacency: Tensor, how: str, edge: Tensor | None) -> Tensor:
    values = split(module.value(z), len(scores))
    attended = (scores.softmax(-1) @ values).transpose(0, 1).reshape(z.shape)
    local = module.local.mlp(z + aggregate(z, adjacency, how, edge))
    if isinstance(module, ConcatHalf):
        parts = (module.norm_attention(module.out(attended)), module.norm_local(local))
        both = module.join(torch.cat(parts, 1))
    else:
        both = module.norm_in(attended + local)
    return module.norm_out(both + module.mlp(both))


def encode(module: Any, noise: Tensor, adjacency: Tensor, how: str, edge: Tensor | None) -> Tensor:
    code = noise
    if isinstance(module, EdgeSubgraphEncoder):
        for layer, linear in zip(module.layers, module.edges, strict=True):
            code = layer.mlp(code + aggregate(code, adjacency, how, linear(edge)))
        return code
    for layer, norm in zip(module.layers, module.norms, strict=True):
        code = norm(code + layer.mlp(code + aggregate(code, adjacency, how, None)))
    return code


def entropy(scores: Tensor) -> Tensor:
    p = scores.softmax(-1)
    return -torch.special.xlogy(p, p).sum(-1).mean(-1)  # (H,)


def soft_mask(model: GOODFormer, e: Tensor) -> Tensor:
    """M with row = target, column = source."""
    mean, heads = e.mean(0), e.sigmoid().mean(0)
    return {"heads": heads, "heads_by_source": heads.T, "logit": ((mean + mean.T) / 2).sigmoid()}[model.mask_kind]


def message_weight(model: GOODFormer, mask: Tensor) -> Tensor:
    return {"mask": mask, "sigmoid": mask.sigmoid(), "none": torch.ones_like(mask)}[model.message_weight]


def oracle(model: GOODFormer, graph: Data, how: str) -> dict[str, Any]:
    """Everything `disentangle` finds in one graph, in the order of the paper's equations."""
    one = Batch.from_data_list([graph])
    n, heads, edge = graph.num_nodes, model.heads, model.edge_vector
    a = torch.zeros(n, n)
    a[graph.edge_index[1], graph.edge_index[0]] = 1  # row: target, column: source
    inputs = z = model.nodes(one)
    for layer in model.trunk:
        z = gps(layer, z, a, None, how, edge)
    e = pair_scores(model.scores, z, heads)
    m = soft_mask(model, e)
    share = torch.where(a.sum(1) > 0, (m**2 * a).sum(1) / (m * a).sum(1).clamp(min=1e-6), torch.ones(n))
    a_c, a_s = (message_weight(model, part) * a for part in (m, 1 - m))
    noise = model.noise(_layout(one), one.x)
    noises = noise.chunk(2, 1) if model.separate_noise else (noise, noise)
    found: dict[str, Any] = {"mask": m, "entropy": [entropy(e), entropy(-e)]}
    both = []
    for sign, adjacency, part, draw in ((1, a_c, share, noises[0]), (-1, a_s, 1 - share, noises[1])):
        source = z if model.values == "trunk" else inputs * part[:, None]
        h = half(model.embed, source, sign * e, adjacency, how, edge)
        code = encode(model.encoder, draw, adjacency, how, edge)
        found.setdefault("recovered", []).append(model.encoder.recover(code))
        both.append((model.join(torch.cat((h, code), 1)), adjacency, part, sign))
    found["pooled"] = predict(model, both, a, how, found)
    found["mask"] = found["mask"][graph.edge_index[1], graph.edge_index[0]]
    return found


def predict(model: GOODFormer, both: list[Any], a: Tensor, how: str, found: dict[str, Any]) -> list[Tensor]:
    outputs, edge = [], model.edge_vector
    z = (both[0][0] + both[1][0]) / 2
    if model.predictor_kind == "disentangler":
        e = pair_scores(model.second_scores, z, model.heads)
        m = soft_mask(model, e)
        found["entropy"] += [entropy(e), entropy(-e)]
        found["mask"] = m if model.explained_by == "second" else found["mask"]
    for h, adjacency, part, sign in both:
        if model.predictor_kind == "disentangler" and model.second_readout:
            weights = message_weight(model, m if sign > 0 else 1 - m) * a
            h = h + half(model.second_embed, z, sign * e, weights, how, edge)  # noqa: PLW2901
        elif model.predictor_kind == "gt":
            for layer in model.predictor:
                h = gps(layer, h, adjacency, part if model.node_weights else None, how, edge)  # noqa: PLW2901
        weight = part if model.node_weights else torch.ones_like(part)
        outputs.append((h * weight[:, None]).sum(0) / weight.sum().clamp(min=1e-6))
    return outputs


def _layout(one: Batch) -> Any:
    from goodformer.nn.layout import Layout

    return Layout(one)


# ------------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("default", {}),
        ("paper", {}),
        ("as_published", {}),
        ("as_published", {"message_weight": "none"}),
        ("paper", {"message_weight": "sigmoid"}),
        ("as_published", {"second_readout": False}),
        ("as_published", {"explained_by": "first", "halves": "together"}),
    ],
)
def test_every_equation_graph_by_graph(preset: str, changes: dict[str, Any]) -> None:
    model = build(preset, **changes).eval()
    how = configure({"name": "good-motif"}, preset=preset).model["aggregation"]
    with torch.no_grad():
        model.scores.qk.weight *= 4  # masks and attention far from uniform
        data, parts = batch((7, 12, 5, 20)), graphs((7, 12, 5, 20))
        found, first = model.disentangle(data), 0
        for g, graph in enumerate(parts):
            expected = oracle(model, graph, how)
            edges = slice(first, first + graph.num_edges)
            first += graph.num_edges
            close = {"atol": 1e-4, "rtol": 1e-3}
            torch.testing.assert_close(found.mask[edges], expected["mask"], **close)
            torch.testing.assert_close(found.invariant[g], expected["pooled"][0], **close)
            torch.testing.assert_close(found.variant[g], expected["pooled"][1], **close)
            torch.testing.assert_close(found.entropy[:, g], torch.stack(expected["entropy"]), **close)
            here = data.batch == g
            torch.testing.assert_close(found.recovered[:, here], torch.stack(expected["recovered"]), **close)
        alone = model.disentangle(data, both=False)
        torch.testing.assert_close(alone.invariant, found.invariant, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(model.readout(model(data), data), found.invariant, atol=1e-5, rtol=1e-4)


def test_entropy_is_a_running_mean_that_moves_slowly() -> None:
    model = build("paper", entropy_decay=0.9).train()
    first, second = batch((9, 10, 11), p=0.4), batch((14, 8), p=0.3, seed=1)
    one = model.disentangle(first).entropy.mean(1)
    torch.testing.assert_close(model.mean_entropy, one)
    two = model.disentangle(second).entropy.mean(1)
    torch.testing.assert_close(model.mean_entropy, 0.9 * one + 0.1 * two)


def test_halves_apart_have_batch_norm_statistics_of_their_own() -> None:
    data = batch((9, 14, 11))
    for halves, same in (("apart", True), ("together", False)):
        model = build("paper", halves=halves, dropout_rate=0.0).train()
        torch.manual_seed(1)
        alone = model.disentangle(data, both=False).invariant
        torch.manual_seed(1)  # the same random node features
        both = model.disentangle(data).invariant
        assert torch.allclose(alone, both, atol=1e-5) == same


def test_a_detached_variant_half_has_the_same_values() -> None:
    data = batch((9, 14, 11))
    for preset in PRESETS:
        model = build(preset, dropout_rate=0.0).train()
        found = []
        for scale in (1.0, None):
            torch.manual_seed(1)
            found.append(model.disentangle(data, variant_gradient=scale))
        torch.testing.assert_close(found[1].variant, found[0].variant)
        torch.testing.assert_close(found[1].invariant, found[0].invariant)
        assert found[0].variant.requires_grad
        assert not found[1].variant.requires_grad


def test_separate_noise_differs_between_the_halves() -> None:
    data = batch((12, 15))
    for noise, same in (("shared", True), ("separate", False)):
        for training in (True, False):
            model = build("paper", encoder_noise=noise, dropout_rate=0.0).train(training)
            with torch.no_grad():  # equal masks of 1/2: only the noise can tell the halves apart
                model.scores.qk.weight.zero_()
                model.scores.qk.bias.zero_()
                first, second = model.disentangle(data).recovered
            assert torch.allclose(first, second, atol=1e-5) == same


def test_the_explaining_layer_is_the_one_named() -> None:
    data = batch((12, 15))
    first, second = (build("as_published", explained_by=layer).eval() for layer in ("first", "second"))
    with torch.no_grad():
        for model in (first, second):
            model.scores.qk.bias.fill_(5.0)  # a first layer whose masks are near 1
        assert (first.disentangle(data).mask > 0.9).all()
        assert (second.disentangle(data).mask < 0.9).all()
        assert (second.disentangle(data).edge_logits < first.disentangle(data).edge_logits).all()


def test_a_generator_scores_by_a_network_of_its_own() -> None:
    model, data = build("paper", scoring="generator", mask="top").eval(), batch((12, 15), p=0.4)
    before = model.disentangle(data).edge_logits
    with torch.no_grad():
        for weight in model.trunk.parameters():
            weight.zero_()
    torch.testing.assert_close(model.disentangle(data).edge_logits, before)
    model.disentangle(data).invariant.sum().backward()
    assert model.generator_nodes.own.weight.grad.abs().sum() > 0


def test_the_published_attention_starts_like_that_of_torch() -> None:
    theirs = torch.nn.MultiheadAttention(64, 4)
    for start, same in (("xavier", True), ("linear", False)):
        ours = build("as_published", dim=64, attention_start=start).trunk[0].attention
        spread = float(ours.qkv.weight.detach().abs().max() / theirs.in_proj_weight.detach().abs().max())
        assert (spread == pytest.approx(1, abs=0.02)) == same
        assert (float(ours.qkv.bias.detach().abs().sum()) == 0) == same


def test_golden_values() -> None:
    """Fixed numbers of a fixed model: a change of mathematics, wanted or not, shows here."""
    for preset, expected in GOLDEN.items():
        model = build(preset).eval()
        with torch.no_grad():
            found = model.disentangle(batch((7, 12, 5, 20)))
        got = [found.invariant[:, 0].tolist(), found.variant[:, 0].tolist(), [float(found.mask.sum())]]
        for ours, fixed in zip(got, expected, strict=True):
            assert ours == pytest.approx(fixed, abs=2e-3)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 18), min_size=1, max_size=4),
    p=st.floats(0, 1),
    seed=st.integers(0, 10**6),
    preset=st.sampled_from(PRESETS),
)
def test_masks_are_shares_that_add_up(sizes: list[int], p: float, seed: int, preset: str) -> None:
    model, data = build(preset).eval(), batch(tuple(sizes), p=p, seed=seed)
    with torch.no_grad():
        found = model.disentangle(data)
    assert found.mask.shape == (data.num_edges,)
    assert ((found.mask > 0) & (found.mask < 1)).all()
    assert found.invariant.isfinite().all()
    assert found.variant.isfinite().all()
    place = {(int(u), int(v)): k for k, (u, v) in enumerate(data.edge_index.T)}
    back = [place[v, u] for u, v in place]
    torch.testing.assert_close(found.edge_logits, found.edge_logits[back])
    if preset == "default":
        torch.testing.assert_close(found.mask, found.mask[back])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sample": "hard", "mask": "heads"}, "mask = logit, not heads"),
        ({"target": "random_walk:8"}, "give laplacian:k"),
        ({"dim": 10}, "not a multiple of heads"),
        ({"explained_by": "second"}, "model.predictor=disentangler"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build("default", **changes)
