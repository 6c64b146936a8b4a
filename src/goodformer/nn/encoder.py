"""The evolving subgraph encoder (Eqs. 11 and 12): positional encodings of subgraphs that change while training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from goodformer.nn.colours import rank_nodes, refine_colours
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, Aggregation
from goodformer.nn.mlp import mlp
from goodformer.nn.normalisation import Norm, norm_layer


class SubgraphEncoder(nn.Module):
    """Z_PSE = h_PSE(X, A_half): message passing over random node features X ~ N(0, I), and w_PSE on top.

    The edge weights are cut from the gradient, so that what the encoder learns cannot reach the disentangler.
    """

    def __init__(self, dim: int, layers: int, target: int, *, norm: Norm, aggregation: Aggregation) -> None:
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(GIN(mlp(dim, dim, dim), aggregation) for _ in range(layers))
        self.norms = nn.ModuleList(norm_layer(norm, dim) for _ in range(layers))
        self.recover = mlp(dim, dim, target)

    def forward(self, noise: Tensor, layout: Layout, edge_weight: Tensor) -> Tensor:
        """Random features (N, d), edge weights (E,) -> encodings (N, d)."""
        h, weight = noise, edge_weight.detach()
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = norm(h + layer(h, layout, None, weight))
        return h


class NodeNoise(nn.Module):
    """Random node features: fresh in training, a function of the graph at evaluation.

    At evaluation a node's features are row r of one fixed Gaussian table, r being the rank of the node's colour in its
    graph, so that a graph gets the same features twice, alone or in any batch. Colours come from rounds of colour
    refinement over the structure and the node inputs; nodes of equal colour are ranked by their number, so renumbering
    the nodes of a graph can change its prediction only through nodes that refinement cannot tell apart.
    """

    BLOCK = 256

    def __init__(self, dim: int, rounds: int = 6, seed: int = 0) -> None:
        super().__init__()
        self.dim, self.rounds, self.seed = dim, rounds, seed
        self.table = torch.empty(0, dim)  # not a buffer: it is made again from the seed

    def forward(self, layout: Layout, inputs: Tensor) -> Tensor:
        """(N, d) features; ``inputs``, the raw features of the nodes (N, F), tell them apart at evaluation."""
        if self.training:
            return torch.randn(layout.num_nodes, self.dim, device=inputs.device)
        return self._rows(layout.width).to(inputs.device)[self.ranks(layout, inputs)]

    def ranks(self, layout: Layout, inputs: Tensor) -> Tensor:
        """The place of every node (N,) in the order of colours of its graph."""
        return rank_nodes(refine_colours(layout, inputs, self.rounds), layout)

    def _rows(self, count: int) -> Tensor:
        """The first ``count`` rows of the table, which grows by blocks so that rows never change."""
        while self.table.shape[0] < count:
            block = self.table.shape[0] // self.BLOCK
            generator = torch.Generator().manual_seed(1_000_003 * (self.seed + 1) + block)
            self.table = torch.cat((self.table, torch.randn(self.BLOCK, self.dim, generator=generator)))
        return self.table
