"""Directed message passing against a loop over edges written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.models import MODELS
from goodformer.models.dmpnn import DMPNN, reverse_edges
from goodformer.nn.layout import Layout
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))


def by_hand(model: DMPNN, data: Batch, layers: int, weight: Tensor) -> Tensor:
    """Node embeddings, with the messages of one directed edge after the other."""
    x, e = model.nodes(data), model.edges(data)
    edges = data.edge_index.T.tolist()
    first = [model.first(x[u] + e[place]) for place, (u, _) in enumerate(edges)]
    state = [torch.relu(one) for one in first]

    def heard(at: int, but: int | None) -> Tensor:
        ends = [state[k] * weight[k] for k, (w, u) in enumerate(edges) if u == at and w != but]
        return torch.stack(ends).sum(0) if ends else torch.zeros(model.dim)

    for _ in range(layers - 1):
        state = [torch.relu(one + model.step(heard(u, v))) for one, (u, v) in zip(first, edges, strict=True)]
    return torch.stack([torch.relu(model.own(x[v]) + model.heard(heard(v, None))) for v in range(data.num_nodes)])


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@torch.no_grad()
def test_no_message_returns_along_its_edge(layers: int, pooling: str) -> None:
    torch.manual_seed(0)
    model = MODELS.build("dmpnn", SPEC, dim=12, layers=layers, pooling=pooling).eval()
    data = batch((7, 1, 5))
    for weight in (torch.ones(data.num_edges), torch.rand(data.num_edges)):
        expected = by_hand(model, data, layers, weight)
        torch.testing.assert_close(model(data, weight), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(model(data), by_hand(model, data, layers, torch.ones(data.num_edges)))
    nodes = [model(data)[data.batch == g] for g in range(data.num_graphs)]
    pooled = torch.stack([one.mean(0) if pooling == "mean" else one.sum(0) / 100 for one in nodes])
    torch.testing.assert_close(model.readout(model(data), data), torch.relu(model.graph(pooled)))


def test_an_edge_without_a_reverse_has_none() -> None:
    data = batch((5,))
    data.edge_index = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 3, 4, 4]])  # the last is there twice
    back, paired = reverse_edges(Layout(data), torch.float)
    assert back[:2].tolist() == [1, 0]
    assert paired[:, 0].tolist() == [1, 1, 0, 0, 0, 0]
