"""Draws against their distribution, shared values against a table of edges."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch_geometric.data import Batch, Data
from torch_geometric.nn import InstanceNorm

from goodformer.nn.extractor import EdgeExtractor, PairScorer, instance_norm, pair_linear
from goodformer.nn.layout import Layout
from goodformer.nn.sampling import both_directions, concrete, logistic_noise, shared_noise
from tests.nn.graphs import batch


def table(layout: Layout, values: torch.Tensor) -> dict[tuple[int, int], float]:
    return {(int(u), int(v)): float(w) for u, v, w in zip(layout.src, layout.dst, values, strict=True)}


def test_noise_is_standard_logistic() -> None:
    torch.manual_seed(0)
    noise = logistic_noise(20_000, torch.device("cpu"))
    assert noise.isfinite().all()
    assert stats.kstest(noise.numpy(), "logistic").pvalue > 0.01


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draws_are_binary_concrete(temperature: float) -> None:
    torch.manual_seed(0)
    logit = 0.7
    drawn = concrete(torch.full((20_000,), logit), logistic_noise(20_000, torch.device("cpu")), temperature).double()
    # P(alpha <= x) = P(L <= t logit(x) - a) for standard logistic L (Maddison et al., 2017).
    expected = stats.logistic.cdf(temperature * drawn.logit().numpy() - logit)
    assert stats.kstest(expected, "uniform").pvalue > 0.01
    assert float((drawn > 0.5).double().mean()) == pytest.approx(float(torch.tensor(logit).sigmoid()), abs=0.01)


def test_shared_noise_is_one_draw_a_pair() -> None:
    layout = Layout(batch((15, 9), p=0.4))
    noise = table(layout, shared_noise(layout))
    assert all(noise[u, v] == noise[v, u] for u, v in noise)
    assert len(set(noise.values())) == len(noise) // 2


def test_both_directions_get_the_mean_of_the_two() -> None:
    layout = Layout(batch((15, 1, 9), p=0.4))
    values = torch.rand(layout.src.numel())
    before, after = table(layout, values), table(layout, both_directions(values, layout))
    assert all(after[u, v] == after[v, u] == pytest.approx((before[u, v] + before[v, u]) / 2) for u, v in before)


def test_an_edge_without_reverse_keeps_its_value() -> None:
    edges = torch.tensor([[0, 1, 1], [1, 0, 2]])
    layout = Layout(Batch.from_data_list([Data(x=torch.ones(3, 1), edge_index=edges)]))
    assert both_directions(torch.tensor([1.0, 3.0, 5.0]), layout).tolist() == [2, 2, 5]
    none = Layout(batch((1, 1), p=0.0))
    assert both_directions(torch.empty(0), none).shape == (0,)


def test_instance_norm_equals_pyg() -> None:
    layout = Layout(batch())
    graph, rows = layout.graph[layout.src], torch.randn(layout.src.numel(), 5) * 3 + 2
    torch.testing.assert_close(
        instance_norm(rows, graph, layout.num_graphs), InstanceNorm(5)(rows, graph), atol=1e-5, rtol=1e-4
    )


def test_the_gradient_of_instance_norm_is_right() -> None:
    graph = torch.tensor([0, 0, 2, 2, 2, 0, 4])  # unsorted, with graphs of no and of one edge
    rows = torch.randn(7, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: instance_norm(x, graph, 5), rows)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_map_of_pairs_is_applied_to_nodes(bias: bool) -> None:
    layout, layer = Layout(batch()), torch.nn.Linear(12, 5, bias=bias)
    h = torch.randn(layout.num_nodes, 6)
    torch.testing.assert_close(pair_linear(layer, h, layout), layer(torch.cat((h[layout.src], h[layout.dst]), 1)))
    for hidden in (True, False):
        scorer = PairScorer(6, hidden=hidden)
        expected = scorer(torch.cat((h[layout.src], h[layout.dst]), 1))[:, 0]
        torch.testing.assert_close(scorer.score(h, layout), expected)


def test_the_extractor_is_its_equation() -> None:
    torch.manual_seed(0)
    layout, extractor = Layout(batch()), EdgeExtractor(6, 0.0)
    h, norm = torch.randn(layout.num_nodes, 6), InstanceNorm(1)
    graph = layout.graph[layout.src]
    x = torch.cat((h[layout.src], h[layout.dst]), 1)
    for layer in extractor.hidden:
        x = torch.relu(norm(layer(x), graph))
    torch.testing.assert_close(extractor(h, layout), extractor.last(x)[:, 0], atol=1e-4, rtol=1e-3)
    assert [layer.weight.shape for layer in extractor.hidden] == [(24, 12), (6, 24)]
