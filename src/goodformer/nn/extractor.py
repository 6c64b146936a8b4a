"""Edge scores from the embeddings of their end nodes."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout


def instance_norm(rows: Tensor, graph: Tensor, graphs: int, epsilon: float = 1e-5) -> Tensor:
    """Normalise rows (E, D) to mean 0 and variance 1 per column and graph; ``graph`` (E,) assigns rows to graphs."""
    count = rows.new_zeros(graphs, 1).index_add(0, graph, rows.new_ones(len(rows), 1)).clamp(min=1)
    centred = rows - (rows.new_zeros(graphs, rows.shape[1]).index_add(0, graph, rows) / count)[graph]
    variance = torch.zeros_like(count).expand(-1, rows.shape[1]).index_add(0, graph, centred**2) / count
    return centred * (variance + epsilon).rsqrt()[graph]


class EdgeExtractor(nn.Module):
    """a_uv = MLP([h_u; h_v]) of widths 2D, 4D, D, 1; each hidden layer: linear, InstanceNorm, ReLU, dropout.

    InstanceNorm runs over the edges of one graph, so an edge is important only relative to the others of its graph.
    Layers before it have no bias, because it would cancel one.
    """

    def __init__(self, dim: int, p: float) -> None:
        super().__init__()
        widths = (2 * dim, 4 * dim, dim)
        self.hidden = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.last = nn.Linear(dim, 1)
        self.drop = dropout(p)

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        """Node embeddings (N, D) -> a logit for every directed edge (E,)."""
        graph = layout.graph[layout.src]
        pairs = torch.cat((h[layout.src], h[layout.dst]), 1)  # (E, 2D)
        for layer in self.hidden:
            pairs = self.drop(instance_norm(layer(pairs), graph, layout.num_graphs).relu())
        return self.last(pairs)[:, 0]
