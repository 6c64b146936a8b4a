"""Graphormer: transformer layers with degree encodings and distance biases."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.models.base import GraphModel
from goodformer.models.settings import (
    EnvironmentDropout,
    EnvironmentRadius,
    EnvironmentTable,
    Heads,
    Inputs,
    Layers,
    Rate,
    Width,
)
from goodformer.nn.attention import NEVER
from goodformer.nn.features import EdgeInput, NodeInput
from goodformer.nn.graphormer import Centrality, GraphormerLayer, StructureBias
from goodformer.nn.layout import Layout, Squares, apart, joined
from goodformer.nn.readout import mean_nodes
from goodformer.spec import FeatureSpec


class Graphormer(GraphModel):
    """[t; h] = Transformer_L(... Transformer_1([t; input + centrality], bias)), readout t, the graph token.

    Attention logits are q_i . k_j / sqrt(d) + b[hops(i, j)] + c(i, j): a learned number per distance and the features
    of edges on a shortest path; one learned number between token and nodes. All layers share them.

    A model returns node embeddings, so these are shifted within each graph until their mean is the token: h_v + t -
    mean h. The mean over nodes is then the paper's readout, also for methods that pool nodes themselves.

    Distances are recomputed for every batch, because they depend on the edges that a method hides and have no fixed
    size per node; this costs a few percent of a step. Degrees and distances beyond the tables use the last entry, so
    graphs of any size are accepted.

    Paper: Ying et al., "Do Transformers Really Perform Badly for Graph Representation?", 2021.
    Differs from the paper: c is the mean over all shortest paths instead of an arbitrary one, and 0 for pairs more than
        ``edge_hops`` apart; pairs at the largest distance still attend to each other. The authors' runs on HIV start
        from weights trained on other molecules and perturb the input (FLAG); nothing is pre-trained or perturbed here.
    Paper silent on: edge weights (see `StructureBias`), GOOD data; sizes are those of GraphGPS here.
    """

    in_words = "Attention between all nodes with a learned bias per distance; choose it for small graphs."

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dim: Width = 128,
        heads: Heads = 4,
        layers: Layers = 4,
        dropout_rate: Rate = 0.2,
        max_distance: Annotated[
            int, Field(ge=1, le=250, description="Largest distance in hops; farther pairs share its bias.")
        ] = 20,
        max_degree: Annotated[int, Field(ge=1, description="Largest degree; larger ones share its vector.")] = 63,
        edge_hops: Annotated[int, Field(ge=0, description="Longest path whose edge features are used.")] = 5,
        pooling: Annotated[
            Literal["token", "mean"], Field(description="Readout: the graph token, or the mean over nodes.")
        ] = "token",
        inputs: Inputs = (),
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise InputError(f"model graphormer: dim = {dim} is not a multiple of heads = {heads}; change one of them.")
        self.dim, self.pooling = dim, pooling
        self.nodes, self.edges = NodeInput(spec, dim, inputs), EdgeInput(spec, heads)
        self.encodings = self.nodes.encodings
        self.centrality = Centrality(dim, max_degree + 1)
        self.bias = StructureBias(heads, max_distance, edge_hops if self.edges.own is not None else 0)
        self.token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.token_bias = nn.Parameter(torch.randn(heads) * 0.02)
        self.layers = nn.ModuleList(GraphormerLayer(dim, heads, dropout_rate) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.apply(self._start)
        self.read_environments(environments, environment_table, environment_dropout)

    def _start(self, module: nn.Module) -> None:
        """Initialise weights as in the paper: normal, with a standard deviation that shrinks with depth."""
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02 / len(self.layers) ** 0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D), whose mean over a graph is its token."""
        layout = Layout(batch)
        tokens, biases = self._tokens(batch, layout, edge_weight), self._biases(batch, layout, edge_weight)
        h = joined([part.flatten(0, 1) for part in tokens])  # padded rows of all buckets, (R, D)
        for layer in self.layers:
            h = layer(h, biases)
        rows = apart(self.norm(h), [part[..., 0].numel() for part in tokens])
        parts = [row.view_as(part) for row, part in zip(rows, tokens, strict=True)]  # (b, 1 + n, D) per bucket
        nodes = layout.unpad([part[:, 1:] for part in parts])
        if self.pooling == "mean":
            return nodes
        token = layout.by_graph([part[:, 0] for part in parts])  # (B, D)
        return nodes + (token - mean_nodes(nodes, layout))[layout.graph]

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The mean over the nodes of each graph (B, D), which is the graph's token."""
        return mean_nodes(h, Layout(batch))

    def _tokens(self, batch: Batch, layout: Layout, edge_weight: Tensor | None) -> list[Tensor]:
        """Return the graph token and the nodes, one (b, 1 + n, D) per bucket."""
        h = self.nodes(batch)
        weight = h.new_ones(layout.src.numel()) if edge_weight is None else edge_weight
        padded = layout.pad(h + self.centrality(layout, weight))
        return [torch.cat((self.token.expand(part.shape[0], -1, -1), part), 1) for part in padded]

    def _biases(self, batch: Batch, layout: Layout, edge_weight: Tensor | None) -> Squares:
        """Return the biases of the logits of token and nodes, ``NEVER`` at padding keys.

        One tensor (b, H, 1 + n, 1 + n) per bucket.
        """
        biases = []
        for between, bucket in zip(self.bias(layout, self.edges(batch), edge_weight), layout.buckets, strict=True):
            token = between.new_ones(1 + bucket.width, 1 + bucket.width)
            token[1:, 1:] = 0
            bias = F.pad(between, (1, 0, 1, 0)) + token * self.token_bias[:, None, None]
            nobody = F.pad(~bucket.mask, (1, 0))  # (b, 1 + n)
            biases.append(bias.masked_fill(nobody[:, None, None], NEVER))
        return biases
