"""GIN, plain and with a virtual node, against a loop written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.models import MODELS
from goodformer.models.gin import GIN
from goodformer.spec import Features, FeatureSpec
from tests.nn.graphs import batch


def by_hand(model: GIN, data: Batch, virtual: bool) -> Tensor:
    h = model.nodes(data)
    v = model.start.expand(data.num_graphs, -1) if virtual else None
    source, target = data.edge_index
    last = len(model.layers) - 1
    for depth, (layer, norm) in enumerate(zip(model.layers, model.norms, strict=True)):
        if v is not None and depth > 0:
            h = h + v[data.batch]
        messages = torch.relu(h[source] + model.edges[depth](data))
        gathered = torch.stack([messages[target == node].sum(0) for node in range(data.num_nodes)])
        h = norm(layer.mlp(h + gathered))
        if depth < last:
            h = torch.relu(h)
        if v is not None and 0 < depth < last:
            v = model.update(v + torch.stack([h[data.batch == g].sum(0) for g in range(data.num_graphs)]))
    return h


@pytest.mark.parametrize("name", ["gin", "gin-vn"])
def test_layers_follow_the_benchmarks_order(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS.build(name, FeatureSpec(Features.continuous(4), Features.continuous(3)), dim=12, layers=4).eval()
    if name == "gin-vn":
        torch.nn.init.normal_(model.start)
    data = batch()
    with torch.no_grad():
        torch.testing.assert_close(model(data), by_hand(model, data, name == "gin-vn"), atol=1e-4, rtol=1e-3)
        pooled = torch.stack([model(data)[data.batch == g].mean(0) for g in range(data.num_graphs)])
        torch.testing.assert_close(model.readout(model(data), data), pooled, atol=1e-5, rtol=1e-4)
