"""Edge scores from the embeddings of their end nodes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout


def pair_linear(layer: nn.Linear, h: Tensor, layout: Layout) -> Tensor:
    """Return W [h_u; h_v] + b of every directed edge u -> v, from node embeddings (N, D) to (E, D').

    The two halves of W are applied to the nodes, which are fewer than the edges, and the results are added per edge.
    """
    source, target = F.linear(h, torch.cat(layer.weight.chunk(2, 1))).chunk(2, 1)  # each (N, D')
    pairs = source.index_select(0, layout.src) + target.index_select(0, layout.dst)
    return pairs if layer.bias is None else pairs + layer.bias


class PairScorer(nn.Sequential):
    """s_uv = MLP([h_u; h_v]) of widths 2D, 4D, 1; with ``hidden=False`` one linear map."""

    def __init__(self, dim: int, *, hidden: bool = True) -> None:
        layers = (nn.Linear(2 * dim, 4 * dim), nn.ReLU(), nn.Identity(), nn.Linear(4 * dim, 1))
        super().__init__(*(layers if hidden else [nn.Linear(2 * dim, 1)]))

    def score(self, h: Tensor, layout: Layout) -> Tensor:
        """Node embeddings (N, D) -> a score for every directed edge (E,)."""
        first, *others = self
        assert isinstance(first, nn.Linear)
        pairs = pair_linear(first, h, layout)
        for layer in others:
            pairs = layer(pairs)
        return pairs[:, 0]


class _InstanceNorm(torch.autograd.Function):
    """`instance_norm` with its gradient in closed form, half the cost of the recorded operations."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, graph: Tensor, graphs: int, epsilon: float) -> Tensor:
        zeros = rows.new_zeros(graphs, rows.shape[1])
        count = rows.new_zeros(graphs, 1).index_add_(0, graph, rows.new_ones(rows.shape[0], 1)).clamp_(min=1)
        centred = rows - (zeros.index_add(0, graph, rows) / count).index_select(0, graph)
        scale = (zeros.index_add(0, graph, centred.square()) / count + epsilon).rsqrt()
        normal = centred.mul_(scale.index_select(0, graph))
        ctx.save_for_backward(normal, scale, count, graph)
        return normal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        normal, scale, count, graph = ctx.saved_tensors
        zeros = torch.zeros_like(scale)
        mean = zeros.index_add(0, graph, grad) / count
        slope = zeros.index_add(0, graph, grad * normal) / count
        passed = (grad - mean.index_select(0, graph)).addcmul_(normal, slope.index_select(0, graph), value=-1)
        return passed.mul_(scale.index_select(0, graph)), None, None, None


def instance_norm(rows: Tensor, graph: Tensor, graphs: int, epsilon: float = 1e-5) -> Tensor:
    """Normalise rows (E, D) to mean 0 and variance 1 per column and graph; ``graph`` (E,) assigns rows to graphs."""
    return _InstanceNorm.apply(rows, graph, graphs, epsilon)


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
        first, second = self.hidden
        assert isinstance(first, nn.Linear)
        pairs = pair_linear(first, h, layout)  # (E, 4D)
        pairs = self.drop(instance_norm(pairs, graph, layout.num_graphs).relu())
        pairs = self.drop(instance_norm(second(pairs), graph, layout.num_graphs).relu())
        return self.last(pairs)[:, 0]
