"""Subgraphs of the best edges against explicit loops; twins; running statistics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from goodformer.models import MODELS
from goodformer.nn.layout import Layout
from goodformer.nn.readout import mean_nodes
from goodformer.nn.selection import node_factor, split, straight_through, top_edges, top_pairs
from goodformer.nn.statistics import unrecorded
from goodformer.nn.twin import fresh_twin
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch


def best_by_hand(score: Tensor, graph: Tensor, share: float) -> Tensor:
    keep = torch.zeros(len(score), dtype=torch.bool)
    for g in graph.unique():
        members = [e for e in range(len(score)) if graph[e] == g]
        members.sort(key=lambda e: -float(score[e]))
        keep[members[: math.ceil(round(share * len(members), 6))]] = True
    return keep


@pytest.mark.parametrize("share", [0.25, 0.6, 0.7, 1.0])
def test_top_edges_are_those_of_a_sort_graph_by_graph(share: float) -> None:
    layout = Layout(batch((9, 1, 14, 6, 2)))
    score = torch.randn(layout.src.numel(), generator=torch.Generator().manual_seed(0))
    assert torch.equal(top_edges(score, layout, share), best_by_hand(score, layout.graph[layout.src], share))


def test_exact_shares_are_not_rounded_up() -> None:
    line = batch((101,), p=0.0)
    line.edge_index = torch.stack((torch.zeros(100, dtype=torch.long), torch.arange(1, 101)))
    assert int(top_edges(torch.rand(100), Layout(line), 0.55).sum()) == 55


def test_equal_scores_fall_to_the_first_edge_however_they_are_rounded() -> None:
    layout = Layout(batch((12,), p=0.4))
    score = torch.full((layout.src.numel(),), 0.7)
    noisy = score * (1 + 1e-7 * torch.randn(len(score)))
    expected = torch.arange(len(score)) < math.ceil(0.3 * len(score))
    assert torch.equal(top_edges(score, layout, 0.3), expected)
    assert torch.equal(top_edges(noisy, layout, 0.3), expected)


def test_pairs_are_kept_whole_and_ranked_by_their_mean() -> None:
    layout = Layout(batch((9, 1, 14, 6, 2)))
    score = torch.randn(layout.src.numel(), generator=torch.Generator().manual_seed(1))
    keep = top_pairs(score, layout, 0.4)
    table = {(int(u), int(v)): e for e, (u, v) in enumerate(zip(layout.src, layout.dst, strict=True))}
    assert all(keep[table[u, v]] == keep[table[v, u]] for u, v in table)
    pairs = [pair for pair in table if pair[0] < pair[1]]
    mean = torch.stack([(score[table[u, v]] + score[table[v, u]]) / 2 for u, v in pairs])
    chosen = best_by_hand(mean, torch.stack([layout.graph[u] for u, _ in pairs]), 0.4)
    assert [bool(keep[table[pair]]) for pair in pairs] == chosen.tolist()


def test_straight_through_is_hard_forwards_and_soft_backwards() -> None:
    logits = torch.randn(6, requires_grad=True)
    keep, weights = logits.detach() > 0.1, torch.randn(6)
    hard = straight_through(keep, logits.sigmoid())
    torch.testing.assert_close(hard, keep.float())
    (hard * weights).sum().backward()
    p = logits.detach().sigmoid()
    torch.testing.assert_close(logits.grad, weights * p * (1 - p))


def test_the_sides_of_a_split_share_the_edges_out() -> None:
    layout = Layout(batch((9, 1, 14, 6, 2)))
    score = torch.randn(layout.src.numel())
    keep = top_edges(score, layout, 0.5)
    invariant, variant = split(score, layout, 0.5)
    torch.testing.assert_close(invariant.edge_weight, torch.where(keep, score.sigmoid(), 0.0))
    torch.testing.assert_close(variant.edge_weight, torch.where(keep, 0.0, (-score).sigmoid()))


def test_the_mean_is_over_the_nodes_of_the_side() -> None:
    layout = Layout(batch((9, 1, 14, 6, 2)))
    keep = top_edges(torch.randn(layout.src.numel()), layout, 0.2)
    h = torch.randn(layout.num_nodes, 3)
    pooled = mean_nodes(h * node_factor(keep, layout), layout)
    for g in range(layout.num_graphs):
        ends = {int(v) for e in keep.nonzero()[:, 0] for v in (layout.src[e], layout.dst[e]) if layout.graph[v] == g}
        nodes = sorted(ends) or (layout.graph == g).nonzero()[:, 0].tolist()
        torch.testing.assert_close(pooled[g], h[nodes].mean(0))


def test_nothing_to_choose_from() -> None:
    layout = Layout(batch((1, 1), p=0.0))
    empty = torch.empty(0)
    assert top_edges(empty, layout, 0.5).shape == top_pairs(empty, layout, 0.5).shape == (0,)
    assert split(empty, layout, 0.5)[0].node_factor.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("name", list(MODELS))
def test_a_twin_has_weights_of_its_own_from_the_same_distribution(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS.build(name, FeatureSpec(Features.categorical(5, 7), Features.continuous(3)), dim=32)
    before = {key: value.clone() for key, value in model.named_parameters()}
    other = dict(fresh_twin(model).named_parameters())
    assert other.keys() == before.keys()
    for key, weight in model.named_parameters():
        assert torch.equal(weight, before[key]), "the model itself is left alone"
        assert other[key].data_ptr() != weight.data_ptr()
        assert torch.equal(other[key].flatten().sort().values, weight.flatten().sort().values)
        if weight.numel() > 8 and float(weight.detach().std()) > 0:
            both = torch.stack((other[key].detach().flatten(), weight.detach().flatten()))
            assert abs(float(torch.corrcoef(both)[0, 1])) < 0.75, key


def test_what_is_unrecorded_leaves_no_trace() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = {key: value.clone() for key, value in net.state_dict().items()}
    x = torch.randn(8, 3) + 5
    with unrecorded(net):
        hidden = net(x)
    torch.testing.assert_close(hidden.mean(0), torch.zeros(4), atol=1e-5, rtol=0)  # by the batch's own statistics
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    net(x)
    assert not torch.equal(net[1].running_mean, before["1.running_mean"])
    net.eval()
    expected = net(x)
    with unrecorded(net):
        torch.testing.assert_close(net(x), expected)


def test_a_twin_can_do_without_dropout() -> None:
    model = MODELS.build("gin", FeatureSpec(Features.continuous(4), Features.continuous(3)), dim=16, dropout_rate=0.5)
    data, sure, unsure = batch(), fresh_twin(model, dropout=False), fresh_twin(model)
    assert torch.equal(sure(data), sure(data))
    assert not torch.equal(unsure(data), unsure(data))
    assert not torch.equal(model(data), model(data))
