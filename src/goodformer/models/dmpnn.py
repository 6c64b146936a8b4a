"""Directed message passing, the network of chemprop."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.models.base import GraphModel
from goodformer.models.settings import (
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
from goodformer.nn.readout import mean_nodes, sum_nodes
from goodformer.spec import FeatureSpec

SUM_UNIT = 100
"""Sums over the nodes of a graph are divided by this number, as in chemprop."""


class DMPNN(GraphModel):
    """h_uv' = ReLU(W_0 (x_u + e_uv) + b + W sum of h_wu over the neighbours w of u except v), for edges u -> v.

    A message never returns along the edge it came by. After the last layer, a node is ReLU(U x_v + U' sum of h_wv over
    its neighbours w), and a graph is ReLU(P sum of its nodes / 100 + b). The sum grows with the graph, as many measured
    values do; ``pooling="mean"`` does not.

    Paper: Yang et al., "Analyzing Learned Molecular Representations for Property Prediction", 2019, with the sizes and
    the readout of chemprop 2.
    Differs from chemprop: node and edge features are embedded and added instead of being concatenated, they are those
        of the data set instead of chemprop's, and the first layer has a bias.
    """

    in_words = (
        "Sends messages along directed edges without turning back, and sums over nodes; chemprop's network, a good "
        "choice for molecules."
    )

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dim: Width = 300,
        layers: Layers = 3,
        dropout_rate: Rate = 0.0,
        pooling: Annotated[
            Literal["sum", "mean"], Field(description="Readout over nodes: their sum divided by 100, or their mean.")
        ] = "sum",
        inputs: Inputs = (),
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__()
        self.dim, self.steps, self.pooling = dim, layers - 1, pooling
        self.nodes, self.edges = NodeInput(spec, dim, inputs), EdgeInput(spec, dim)
        self.encodings = self.nodes.encodings
        self.first, self.step = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.own, self.heard = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.graph = nn.Linear(dim, dim)
        self.dropout = dropout(dropout_rate)
        self.read_environments(environments, environment_table, environment_dropout)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        layout, x, edges = Layout(batch), self.nodes(batch), self.edges(batch)
        weight = None if edge_weight is None else edge_weight[:, None]
        back, returns = reverse_edges(layout, x.dtype)

        def send(state: Tensor) -> tuple[Tensor, Tensor]:
            """Return the messages along all edges (E, D) and their sums at the nodes (N, D)."""
            sent = state if weight is None else state * weight
            return sent, torch.zeros_like(x).index_add(0, layout.dst, sent)

        source = x.index_select(0, layout.src)
        start = self.first(source if edges is None else source + edges)  # (E, D)
        state = start.relu()
        for _ in range(self.steps):
            sent, arrived = send(state)
            message = arrived.index_select(0, layout.src) - sent.index_select(0, back) * returns
            state = self.dropout((start + self.step(message)).relu())
        return self.dropout((self.own(x) + self.heard(send(state)[1])).relu())

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """A layer on the sum over the nodes of each graph, or on their mean, (B, D)."""
        layout = Layout(batch)
        z = sum_nodes(h, layout) / SUM_UNIT if self.pooling == "sum" else mean_nodes(h, layout)
        return self.dropout(self.graph(z).relu())


def reverse_edges(layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the reverse of every edge (E,), and 1 where there is exactly one and 0 elsewhere, (E, 1)."""
    number, pairs = layout.undirected()
    place = torch.arange(number.shape[0], device=number.device)
    total, count = place.new_zeros(2, pairs).index_add(1, number, torch.stack((place, torch.ones_like(place))))
    back = torch.where((count == 2)[number], total[number] - place, place)
    paired = (layout.src[back] == layout.dst) & (layout.src != layout.dst)
    return back, paired[:, None].to(dtype)
