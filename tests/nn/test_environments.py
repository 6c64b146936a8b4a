"""The fusion of codes against plain loops."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.nn.environments import EnvironmentFusion, environment_share
from goodformer.nn.layout import Layout
from goodformer.nn.readout import node_share
from tests.nn.graphs import batch

SIZE = 7


def fusion(drop: float = 0.0) -> EnvironmentFusion:
    torch.manual_seed(0)
    return EnvironmentFusion(2, SIZE, 5, drop, p=0.0)


def coded() -> tuple[Batch, Layout, Tensor]:
    """A batch, its layout, and codes with dropped ones among them."""
    data = batch()
    codes = torch.randint(-1, 40, (data.num_nodes, 3), generator=torch.Generator().manual_seed(1))
    return data, Layout(data), codes


def plain_counts(codes: Tensor, layout: Layout, share: Tensor) -> Tensor:
    counts = torch.zeros(layout.num_graphs, SIZE)
    for node, row in enumerate(codes.tolist()):
        for radius, code in enumerate(row):
            if code >= 0:
                counts[layout.graph[node], code % SIZE] += share[node, radius]
    return counts


def test_counts_are_sums_of_shares() -> None:
    _, layout, codes = coded()
    share = torch.rand(codes.shape)
    part = fusion()
    torch.testing.assert_close(part.counts(codes, layout, share), plain_counts(codes, layout, share))
    of_nodes = share[:, :1].expand(-1, 3)
    torch.testing.assert_close(part.counts(codes, layout, share[:, :1]), plain_counts(codes, layout, of_nodes))
    torch.testing.assert_close(part.counts(codes, layout), plain_counts(codes, layout, torch.ones(codes.shape)))


def test_the_vector_is_the_equation() -> None:
    _, layout, codes = coded()
    part = fusion()
    part(codes, layout)
    part.eval()
    pooled = plain_counts(codes, layout, torch.ones(codes.shape)).log1p() @ part.table
    torch.testing.assert_close(part(codes, layout), part.mlp(part.norm(pooled)))


def test_rows_without_training_graphs_do_not_count() -> None:
    _, layout, codes = coded()
    part = fusion()
    known = torch.where(codes % SIZE < 4, codes, -1)
    part(known, layout)
    assert part.seen.tolist() == [True] * 4 + [False] * 3
    part.eval()
    assert torch.equal(part(codes, layout), part(known, layout))
    assert not part.seen[4:].any()  # evaluation remembers nothing
    part.train()(codes, layout)
    part.eval()
    assert not torch.allclose(part(codes, layout), part(known, layout))


def test_the_seen_rows_are_saved_with_the_weights() -> None:
    _, layout, codes = coded()
    first, second = fusion(), fusion()
    first(codes, layout)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.eval()(codes, layout), second.eval()(codes, layout))


def test_whole_rows_are_dropped_in_training_only() -> None:
    _, layout, codes = coded()
    part = fusion(drop=0.5)
    rows: list[Tensor] = []
    part.drop_rows.register_forward_hook(lambda _module, given, result: rows.append(torch.stack((given[0], result))))
    for _ in range(200):
        part(codes, layout)
    before, after = torch.stack(rows, 1)  # (steps, B, S) each
    kept = after[before > 0] > 0
    assert kept.float().mean() == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(after[after > 0], 2 * before[after > 0])
    rows.clear()
    part.eval()(codes, layout)
    assert torch.equal(*rows[0])


def test_the_share_of_an_environment_is_the_smallest_weight_of_its_edges() -> None:
    data = batch(p=0.2)
    layout = Layout(data)
    number, count = layout.undirected()
    weight = torch.rand(count, generator=torch.Generator().manual_seed(2))[number]
    share = environment_share(weight, layout, 3)
    torch.testing.assert_close(share[:, 0], node_share(weight, layout))
    graph = nx.Graph()
    graph.add_nodes_from(range(data.num_nodes))
    for (u, v), w in zip(data.edge_index.T.tolist(), weight.tolist(), strict=True):
        graph.add_edge(u, v, weight=w)
    for radius in (1, 2, 3):
        for node in graph:
            near = nx.single_source_shortest_path_length(graph, node, radius - 1)
            least = min((w for _, _, w in graph.edges(near, data="weight")), default=1.0)
            assert math.isclose(share[node, radius], least, rel_tol=1e-6)


def test_environments_that_reach_a_removed_edge_vanish() -> None:
    data = batch((12,), p=0.3)
    layout = Layout(data)
    weight = torch.ones(data.num_edges, requires_grad=True)
    u, v = data.edge_index[:, 0].tolist()
    cut = ((layout.src == u) & (layout.dst == v)) | ((layout.src == v) & (layout.dst == u))
    share = environment_share(weight * ~cut, layout, 1)
    assert sorted((share[:, 1] == 0).nonzero().flatten().tolist()) == sorted((u, v))
    share.sum().backward()
    assert weight.grad is not None
    assert weight.grad.isfinite().all()
