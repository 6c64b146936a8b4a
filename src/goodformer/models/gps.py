"""GraphGPS: message passing and attention in every layer."""

from __future__ import annotations

from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.models.base import GraphModel
from goodformer.models.settings import (
    AggregationName,
    CombineName,
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
from goodformer.nn.features import EdgeInput, NodeInput
from goodformer.nn.gps import GPSLayer
from goodformer.nn.layout import Layout
from goodformer.nn.readout import mean_nodes
from goodformer.spec import FeatureSpec


class GraphGPS(GraphModel):
    """h = GPS_L(... GPS_1(input(G))), mean readout.

    Paper: Rampasek et al., "Recipe for a General, Powerful, Scalable Graph Transformer", 2022.
    Differs from the published code: message passing is GINE without updates of edge vectors; their runs on molecules
        use GatedGCN, random-walk encodings and an MLP as classifier. See `LapPE` for the encoding.
    Paper silent on: GOOD data; sizes follow the GOODFormer paper (width 128, 4 heads), 8 eigenvectors and eigenvalues
        as input.
    """

    in_words = (
        "Combines message passing with attention between all nodes; choose it for graphs of up to a few hundred nodes."
    )

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
        combine: CombineName = "sum",
        inputs: Inputs = ("lappe:8",),
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.nodes, self.edges = NodeInput(spec, dim, inputs), EdgeInput(spec, dim)
        self.encodings = self.nodes.encodings
        self.layers = nn.ModuleList(
            GPSLayer(dim, heads, norm=norm, p=dropout_rate, aggregation=aggregation, combine=combine)
            for _ in range(layers)
        )
        self.read_environments(environments, environment_table, environment_dropout)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        layout, h, edges = Layout(batch), self.nodes(batch), self.edges(batch)
        for layer in self.layers:
            h = layer(h, layout, edges, edge_weight)
        return h

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The mean over the nodes of each graph (B, D)."""
        return mean_nodes(h, Layout(batch))
