"""The evolving subgraph encoder (Eqs. 11 and 12): positional encodings of subgraphs that change during training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from goodformer.nn.colours import rank_nodes, refine_colours
from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, Aggregation
from goodformer.nn.mlp import mlp
from goodformer.nn.normalisation import Norm, norm_layer


class SubgraphEncoder(nn.Module):
    """Z_PSE = h_PSE(X, A_half), layers h' = norm(h + GIN(h)) on random node features X ~ N(0, I).

    ``recover`` is w_PSE, an MLP. The edge weights are detached, so the encoder's loss never reaches the disentangler.
    """

    def __init__(self, dim: int, layers: int, target: int, *, norm: Norm, aggregation: Aggregation) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GIN(mlp(dim, dim, dim), aggregation) for _ in range(layers))
        self.norms = nn.ModuleList(norm_layer(norm, dim) for _ in range(layers))
        self.recover: nn.Module = mlp(dim, dim, target)

    def forward(self, noise: Tensor, layout: Layout, edge_weight: Tensor, edges: Tensor | None = None) -> Tensor:
        """Map random features (N, d) and edge weights (E,) to encodings (N, d); edge vectors are not read."""
        h, weight = noise, edge_weight.detach()
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = norm(h + layer(h, layout, None, weight))
        return h


class EdgeSubgraphEncoder(nn.Module):
    """Z_PSE = h_PSE(X, A_half) as published: layers h' = norm(GINE(h, W e)), no residual, each with its own W.

    ``recover`` is w_PSE, a linear map. Edge weights are detached as in `SubgraphEncoder`; edge vectors e are not.

    Args:
        dim: Width of the encodings.
        layers: Number of layers.
        target: Width of the encoding to recover.
        edge_dim: Width of the edge vectors.
        norm: Normalisation at the end of each layer.
        p: Dropout rate.
        aggregation: How messages are combined.
    """

    def __init__(
        self, dim: int, layers: int, target: int, edge_dim: int, *, norm: Norm, p: float, aggregation: Aggregation
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GIN(nn.Sequential(*mlp(dim, 2 * dim, dim, p), dropout(p), norm_layer(norm, dim)), aggregation)
            for _ in range(layers)
        )
        self.edges = nn.ModuleList(nn.Linear(edge_dim, dim) for _ in range(layers))
        self.recover = nn.Linear(dim, target)

    def forward(self, noise: Tensor, layout: Layout, edge_weight: Tensor, edges: Tensor | None = None) -> Tensor:
        """Map random features (N, d), edge weights (E,) and edge vectors (E, D) or (1, D) to encodings (N, d)."""
        h, weight = noise, edge_weight.detach()
        for layer, linear in zip(self.layers, self.edges, strict=True):
            h = layer(h, layout, None if edges is None else linear(edges), weight)
        return h


class NodeNoise(nn.Module):
    """Random node features: fresh in training, a function of the graph at evaluation.

    At evaluation a node's features are row r of one fixed Gaussian table, where r is the rank of the node's colour in
    its graph. So a graph always gets the same features, alone or in any batch. Colours come from rounds of colour
    refinement over the structure and the node inputs. Nodes of equal colour are ranked by their index: renumbering the
    nodes changes a prediction only through nodes that colour refinement cannot distinguish.
    """

    BLOCK = 256

    def __init__(self, dim: int, rounds: int = 6, seed: int = 0) -> None:
        super().__init__()
        self.dim, self.rounds, self.seed = dim, rounds, seed
        self.table = torch.empty(0, dim)  # not a buffer: it is recomputed from the seed

    def forward(self, layout: Layout, inputs: Tensor) -> Tensor:
        """Return features (N, d); the raw node features ``inputs`` (N, F) distinguish nodes at evaluation."""
        if self.training:
            return torch.randn(layout.num_nodes, self.dim, device=inputs.device)
        return self.rows(layout.width).to(inputs.device)[self.ranks(layout, inputs)]

    def ranks(self, layout: Layout, inputs: Tensor) -> Tensor:
        """Return the rank of each node's colour in its graph, (N,)."""
        return rank_nodes(refine_colours(layout, inputs, self.rounds), layout)

    def rows(self, count: int) -> Tensor:
        """Return at least ``count`` rows of the table, which grows by blocks so that rows never change."""
        while self.table.shape[0] < count:
            block = self.table.shape[0] // self.BLOCK
            generator = torch.Generator().manual_seed(1_000_003 * (self.seed + 1) + block)
            self.table = torch.cat((self.table, torch.randn(self.BLOCK, self.dim, generator=generator)))
        return self.table
