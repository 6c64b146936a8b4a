"""Graph isomorphism networks, with and without a virtual node: the models of the benchmark's baselines."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.models.base import GraphModel
from goodformer.models.settings import (
    AggregationName,
    EnvironmentDropout,
    EnvironmentRadius,
    EnvironmentTable,
    Inputs,
    Layers,
    Rate,
    Width,
)
from goodformer.nn.dropout import dropout
from goodformer.nn.features import EdgeInput, NodeInput
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN as GINLayer
from goodformer.nn.readout import mean_nodes, sum_nodes
from goodformer.nn.twin import fresh_twin
from goodformer.spec import FeatureSpec


class GIN(GraphModel):
    """h_(l+1) = dropout(ReLU(BN(MLP(h_l + sum of neighbours)))), no ReLU after the last layer; mean readout.

    Paper: Xu et al., "How Powerful are Graph Neural Networks?", 2019, with the layer order and sizes of the GOOD
    benchmark (Gui et al., 2022): MLP of widths D, 2D, D with BatchNorm, a separate edge embedding in every layer.
    Differs from the paper: epsilon is fixed at 0, as in the benchmark.
    """

    in_words = "Each layer sums the embeddings of neighbouring nodes; the fastest model and a good first choice."

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dim: Width = 300,
        layers: Layers = 3,
        dropout_rate: Rate = 0.5,
        inputs: Inputs = (),
        aggregation: AggregationName = "sum",
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__()
        self.dim = dim
        nodes = NodeInput(spec, dim, inputs)
        self.nodes: nn.Module = nodes
        self.encodings = nodes.encodings
        self.edges = nn.ModuleList(EdgeInput(spec, dim) for _ in range(layers))
        self.layers = nn.ModuleList(GINLayer(_mlp(dim), aggregation) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(layers))
        self.dropout = dropout(dropout_rate)
        self.read_environments(environments, environment_table, environment_dropout)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        return self.continue_from(self.nodes(batch), batch, edge_weight)

    def continue_from(self, h: Tensor, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Apply all layers to the given node states (N, D)."""
        layout = Layout(batch)
        for depth in range(len(self.layers)):
            h = self.layer(depth, h, batch, layout, edge_weight)
        return h

    def layer(self, depth: int, h: Tensor, batch: Batch, layout: Layout, edge_weight: Tensor | None) -> Tensor:
        """Apply one layer: messages, BatchNorm, ReLU (not after the last of several), dropout."""
        h = self.norms[depth](self.layers[depth](h, layout, self.edges[depth](batch), edge_weight))
        return self.dropout(h if 0 < depth == len(self.layers) - 1 else h.relu())

    def divide(self) -> tuple[GIN, GIN]:
        """Return the first two layers without dropout, and the others, at least one; as DIR and CIGA in GOOD."""
        depth = len(self.layers)
        front, back = self.twin(dropout=False), fresh_twin(self)
        front._keep(0, min(2, depth))
        back._keep(min(2, depth - 1), depth)
        back.nodes = nn.Identity()  # it reads the states of the first part
        return front, back

    def _keep(self, first: int, end: int) -> None:
        """Drop all layers but those from ``first`` to before ``end``."""
        self.edges, self.layers, self.norms = (part[first:end] for part in (self.edges, self.layers, self.norms))

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The mean over the nodes of each graph (B, D)."""
        return mean_nodes(h, Layout(batch))


class VirtualNodeGIN(GIN):
    """GIN with a virtual node v per graph: h += v before each layer but the first, v = MLP(v + sum h).

    Paper: Gilmer et al., "Neural Message Passing for Quantum Chemistry", 2017, with the sizes of the GOOD benchmark:
    one MLP shared by all layers, and no update after the last.
    """

    in_words = "GIN with a virtual node connected to all nodes; choose it if distant parts of a graph interact."

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dim: Width = 300,
        layers: Layers = 3,
        dropout_rate: Rate = 0.5,
        inputs: Inputs = (),
        aggregation: AggregationName = "sum",
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__(
            spec, dim=dim, layers=layers, dropout_rate=dropout_rate, inputs=inputs, aggregation=aggregation
        )
        self.start = nn.Parameter(torch.zeros(1, dim))
        self.update = nn.Sequential(_mlp(dim), nn.BatchNorm1d(dim), nn.ReLU(), dropout(dropout_rate))
        self.read_environments(environments, environment_table, environment_dropout)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        return self.continue_from(self.nodes(batch), batch, edge_weight)

    def continue_from(self, h: Tensor, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Apply all layers to the given node states (N, D)."""
        layout = Layout(batch)
        virtual = self.start.expand(layout.num_graphs, -1)
        for depth in range(len(self.layers)):
            if depth > 0:
                h = h + virtual.index_select(0, layout.graph)
            h = self.layer(depth, h, batch, layout, edge_weight)
            if 0 < depth < len(self.layers) - 1:
                virtual = self.update(virtual + sum_nodes(h, layout))
        return h

    def _keep(self, first: int, end: int) -> None:
        """Drop all layers but some, and what of the virtual node they do not use."""
        super()._keep(first, end)
        if len(self.layers) < 3:
            self.update = nn.Sequential()
        if len(self.layers) < 2:
            start = self.start.detach()
            del self.start
            self.register_buffer("start", start, persistent=False)


def _mlp(dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, 2 * dim), nn.BatchNorm1d(2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
