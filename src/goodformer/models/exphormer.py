"""Exphormer: GraphGPS with sparse attention along edges, expander edges and virtual nodes."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.models.base import GraphModel
from goodformer.models.settings import (
    AggregationName,
    EnvironmentDropout,
    EnvironmentRadius,
    EnvironmentTable,
    Heads,
    Inputs,
    Layers,
    NormName,
    Rate,
    Width,
)
from goodformer.nn.dropout import dropout
from goodformer.nn.expander import expander_edges
from goodformer.nn.features import EdgeInput, NodeInput
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, Aggregation
from goodformer.nn.mlp import mlp
from goodformer.nn.normalisation import Norm, norm_layer
from goodformer.nn.readout import mean_nodes
from goodformer.nn.sparse_attention import Connections, SparseAttention, connect
from goodformer.spec import FeatureSpec


class ExphormerLayer(nn.Module):
    """h_M = norm(h + MPNN(h)), h_T = norm(h + a), h' = norm(h_M + h_T + FFN(h_M + h_T)), [a; s'] = Attention([h; s]).

    The states s of virtual nodes are the attention output, without residual connection.
    """

    def __init__(self, dim: int, heads: int, *, norm: Norm, p: float, aggregation: Aggregation) -> None:
        super().__init__()
        self.local = GIN(mlp(dim, dim, dim), aggregation)
        self.attention = SparseAttention(dim, heads)
        self.ffn = mlp(dim, 2 * dim, dim, p)
        self.norm_local, self.norm_attention, self.norm_out = (norm_layer(norm, dim) for _ in range(3))
        self.drop_local, self.drop_attention, self.drop_ffn = (dropout(p) for _ in range(3))

    def forward(
        self,
        h: Tensor,
        virtual: Tensor,
        layout: Layout,
        connections: Connections,
        kinds: Tensor,
        edge_weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return updated nodes (N, D) and virtual nodes (B * V, D)."""
        a = self.attention(torch.cat((h, virtual)), connections, kinds)
        local = self.norm_local(h + self.drop_local(self.local(h, layout, connections.edges, edge_weight)))
        both = local + self.norm_attention(h + self.drop_attention(a[: h.shape[0]]))
        return self.norm_out(both + self.drop_ffn(self.ffn(both))), a[h.shape[0] :]


class Exphormer(GraphModel):
    """h = L_L(... L_1(input(G))), layers of message passing and sparse attention (`ExphormerLayer`), mean readout.

    Nodes attend along three kinds of connections, each with learned vectors: the graph's own edges, an expander over
    the nodes, and edges to and from each virtual node, whose initial states are learned.

    The expander is a function of the graph (`goodformer.nn.expander`), recomputed for every batch: two sorts per cycle
    cost less than storing and loading a second kind of edges.

    Paper: Shirzad et al., "Exphormer: Sparse Transformers for Graphs", 2023.
    Differs from the paper: the expander is a union of random Hamiltonian cycles (one of the authors' three ways), used
        as drawn, without a search for a larger spectral gap, and without self-loops; the largest logit is subtracted
        before the softmax instead of adding a small number to its denominator; an edge's vector includes its kind's.
        The Laplacian encoding is GraphGPS's with 8 eigenvectors and eigenvalues (`LapPE`), the authors have 10.
    Paper silent on: edge weights, which here multiply both the message and the attention of an edge; GOOD data; sizes
        and message passing (GIN) are those of GraphGPS here.
    """

    in_words = "Like gps, but each node attends to few others; choose it for large graphs."

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dim: Width = 128,
        heads: Heads = 4,
        layers: Layers = 4,
        dropout_rate: Rate = 0.2,
        norm: NormName = "batch",
        aggregation: AggregationName = "sum",
        cycles: Annotated[int, Field(ge=0, description="Cycles of the expander; each adds two edges per node.")] = 5,
        virtual_nodes: Annotated[int, Field(ge=0, description="Virtual nodes per graph, connected to all nodes.")] = 1,
        expander_seed: Annotated[int, Field(ge=0, description="Seed of the expander.")] = 0,
        inputs: Inputs = ("lappe:8",),
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise InputError(f"model exphormer: dim = {dim} is not a multiple of heads = {heads}; change one of them.")
        self.dim, self.cycles, self.expander_seed = dim, cycles, expander_seed
        self.nodes, self.edges = NodeInput(spec, dim, inputs), EdgeInput(spec, dim)
        self.encodings = self.nodes.encodings
        self.kinds = nn.Parameter(torch.randn(2 + 2 * virtual_nodes, dim))
        self.start = nn.Parameter(torch.randn(virtual_nodes, dim))
        self.layers = nn.ModuleList(
            ExphormerLayer(dim, heads, norm=norm, p=dropout_rate, aggregation=aggregation) for _ in range(layers)
        )
        self.read_environments(environments, environment_table, environment_dropout)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        layout, h = Layout(batch), self.nodes(batch)
        expander, there = expander_edges(layout, batch.x, self.cycles, self.expander_seed)
        connections = connect(layout, expander, len(self.start), self.edges(batch), edge_weight, there)
        virtual = self.start.repeat(layout.num_graphs, 1)  # (B * V, D)
        for layer in self.layers:
            h, virtual = layer(h, virtual, layout, connections, self.kinds, edge_weight)
        return h

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The mean over the nodes of each graph (B, D)."""
        return mean_nodes(h, Layout(batch))
