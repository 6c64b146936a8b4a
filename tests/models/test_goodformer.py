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
from goodformer.models import MODELS
from goodformer.models.goodformer import GOODFormer
from goodformer.nn.gps import GPSLayer
from goodformer.registry import InputError
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch, graphs

SPEC = FeatureSpec(Features.continuous(4))
PRESETS = ("default", "paper", "as_published")
GOLDEN: dict[str, list[list[float]]] = {
    "default": [[0.4686, 0.7983, -0.0144, 1.0435], [0.9256, 0.6858, 0.6853, 1.0753], [55.3951]],
    "paper": [[-0.0297, 2.3057, 0.7759, 1.675], [0.3254, 2.0623, 0.2991, 0.9885], [67.3886]],
    "as_published": [[-0.2285, -0.5825, -0.3381, -0.8445], [-0.2081, -0.5673, -0.3061, -0.8069], [75.6721]],
}


def build(preset: str, **changes: Any) -> GOODFormer:
    torch.manual_seed(0)
    chosen = configure({"name": "good-motif", "domain": "basis"}, preset=preset).model
    named = {key: value for key, value in chosen.items() if key != "name"}
    return MODELS.build("goodformer", SPEC, **{**named, "dim": 16, **changes})


# ------------------------------------------------------------------------------------------------- the oracle


def split(x: Tensor, heads: int) -> Tensor:
    return x.view(len(x), heads, -1).transpose(0, 1)  # (H, n, d)


def aggregate(h: Tensor, adjacency: Tensor, how: str) -> Tensor:
    degree = adjacency.sum(1, keepdim=True)
    scale = {"sum": torch.ones_like(degree), "log": torch.log1p(degree) / degree.clamp(min=1e-3)}[how]
    return scale * (adjacency @ h)


def gps(layer: GPSLayer, h: Tensor, adjacency: Tensor, keys: Tensor | None, how: str) -> Tensor:
    local = layer.norm_local(h + layer.local.mlp(h + aggregate(h, adjacency, how)))
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


def half(module: Any, z: Tensor, scores: Tensor, adjacency: Tensor, how: str) -> Tensor:
    values = split(module.value(z), len(scores))
    attended = (scores.softmax(-1) @ values).transpose(0, 1).reshape(z.shape)
    both = module.norm_in(attended + module.local.mlp(z + aggregate(z, adjacency, how)))
    return module.norm_out(both + module.mlp(both))


def entropy(scores: Tensor) -> Tensor:
    p = scores.softmax(-1)
    return -torch.special.xlogy(p, p).sum(-1).mean(-1)  # (H,)


def oracle(model: GOODFormer, graph: Data, how: str) -> dict[str, Any]:
    """Everything `disentangle` finds in one graph, in the order of the paper's equations."""
    one = Batch.from_data_list([graph])
    n, heads = graph.num_nodes, model.heads
    a = torch.zeros(n, n)
    a[graph.edge_index[1], graph.edge_index[0]] = 1  # row: target, column: source
    inputs = z = model.nodes(one)
    for layer in model.trunk:
        z = gps(layer, z, a, None, how)
    e = pair_scores(model.scores, z, heads)
    mean = e.mean(0)
    m = e.sigmoid().mean(0) if model.mask_kind == "heads" else ((mean + mean.T) / 2).sigmoid()
    a_c, a_s = m * a, (1 - m) * a
    share = torch.where(a.sum(1) > 0, (a_c**2).sum(1) / a_c.sum(1).clamp(min=1e-6), torch.ones(n))
    noise = model.noise(_layout(one), one.x)
    found: dict[str, Any] = {"mask": m[graph.edge_index[1], graph.edge_index[0]], "entropy": [entropy(e), entropy(-e)]}
    both = []
    for sign, adjacency, part in ((1, a_c, share), (-1, a_s, 1 - share)):
        source = z if model.values == "trunk" else inputs * part[:, None]
        h = half(model.embed, source, sign * e, adjacency, how)
        code = noise
        for layer, norm in zip(model.encoder.layers, model.encoder.norms, strict=True):
            code = norm(code + layer.mlp(code + aggregate(code, adjacency, how)))
        found.setdefault("recovered", []).append(model.encoder.recover(code))
        both.append((model.join(torch.cat((h, code), 1)), adjacency, part, sign))
    found["pooled"] = predict(model, both, a, how, found)
    return found


def predict(model: GOODFormer, both: list[Any], a: Tensor, how: str, found: dict[str, Any]) -> list[Tensor]:
    outputs = []
    z = (both[0][0] + both[1][0]) / 2
    if model.predictor_kind == "disentangler":
        e = pair_scores(model.second_scores, z, model.heads)
        m = e.sigmoid().mean(0)
        found["entropy"] += [entropy(e), entropy(-e)]
    for h, adjacency, part, sign in both:
        if model.predictor_kind == "disentangler":
            h = h + half(model.second_embed, z, sign * e, (m if sign > 0 else 1 - m) * a, how)  # noqa: PLW2901
        else:
            for layer in model.predictor:
                h = gps(layer, h, adjacency, part if model.node_weights else None, how)  # noqa: PLW2901
        weight = part if model.node_weights else torch.ones_like(part)
        outputs.append((h * weight[:, None]).sum(0) / weight.sum().clamp(min=1e-6))
    return outputs


def _layout(one: Batch) -> Any:
    from goodformer.nn.layout import Layout

    return Layout(one)


# ------------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize("preset", PRESETS)
def test_every_equation_graph_by_graph(preset: str) -> None:
    model = build(preset).eval()
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
        ({"sample": "hard", "mask": "heads"}, "draws the mask logit, not heads"),
        ({"target": "random_walk:8"}, "give laplacian:k"),
        ({"dim": 10}, "not a multiple of heads"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build("default", **changes)
