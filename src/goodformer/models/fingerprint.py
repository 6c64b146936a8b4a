"""Fingerprints: a graph as the counts of its local environments."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from goodformer.batch import Batch
from goodformer.models.base import GraphModel
from goodformer.nn.fingerprint import Balls, count, fold, signs
from goodformer.spec import Encoding, FeatureSpec


class Fingerprint(GraphModel):
    """c_k = number of environments whose code is k modulo the table size; h_v = sum over r of S[code of (v, r)].

    An environment is a node with everything up to r steps away, r = 0 .. radius. For molecules the counts are those of
    the Morgan (ECFP) fingerprint, for other graphs those of the Weisfeiler-Lehman kernel. If node features are
    continuous, their means and standard deviations over the nodes are further columns. S is a fixed matrix of signs,
    so the readout, the sum over the nodes, is a random projection of the counts. Nothing is learned.

    Paper: Rogers & Hahn, "Extended-Connectivity Fingerprints", 2010; Shervashidze et al., "Weisfeiler-Lehman Graph
    Kernels", 2011.
    """

    in_words = (
        "Counts local environments of nodes (Morgan fingerprint); nothing is learned. For methods forest and linear."
    )
    signs: Tensor

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        radius: Annotated[int, Field(ge=1, le=6, description="Largest radius of an environment, in edges.")] = 2,
        table: Annotated[
            int, Field(ge=16, le=1 << 20, description="Columns that the codes of environments are folded to.")
        ] = 2048,
        dim: Annotated[int, Field(ge=1, description="Width of the projection, which the domain score reads.")] = 64,
    ) -> None:
        super().__init__()
        self.radius, self.table, self.dim = radius, table, dim
        self.attribute = Encoding("environments", radius).attribute
        self.encodings = (f"environments:{radius}",)
        self.measured = len(spec.node.sizes) if spec.node.kind == "continuous" else 0
        self.columns = table + 2 * self.measured
        """Number of columns F of `counts`: the table, then means and standard deviations."""
        self.register_buffer("signs", signs(self.columns, dim) / dim**0.5, persistent=False)

    def counts(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Return the columns of every graph (B, F); an environment counts the product of the weights of its edges."""
        weight = None if edge_weight is None else self._balls(batch).weights(edge_weight, self.radius)
        counted = count(self.slots(batch), batch.batch, batch.num_graphs, self.table, weight).to(self.signs)
        if not self.measured:
            return counted
        x, size = batch.x.to(self.signs), batch.ptr.diff()[:, None]
        mean = x.new_zeros(batch.num_graphs, self.measured).index_add(0, batch.batch, x) / size
        square = torch.zeros_like(mean).index_add(0, batch.batch, (x - mean[batch.batch]).square()) / size
        return torch.cat((counted, mean, square.sqrt()), 1)

    def slots(self, batch: Batch) -> Tensor:
        """Return the column of each environment, -1 for none, (N, R + 1)."""
        return fold(batch[self.attribute], self.table)

    def project(self, counts: Tensor) -> Tensor:
        """Return a random projection of log(1 + counts) and the further columns (B, D)."""
        columns = torch.cat((counts[:, : self.table].log1p(), counts[:, self.table :]), 1)
        return columns.to(self.signs.dtype) @ self.signs

    def spread(self, batch: Batch, values: Tensor) -> Tensor:
        """Share the values of the columns (B, F) among the environments they count, and these among edges, (E,)."""
        slots = self.slots(batch)
        there = slots >= 0
        counts = count(slots, batch.batch, batch.num_graphs, self.table)
        each = values[:, : self.table] / counts.clamp(min=1)
        return self._balls(batch).spread(each[batch.batch[:, None], slots.clamp(min=0)] * there)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        slots = self.slots(batch)
        weight = (slots >= 0).to(self.signs.dtype)
        if edge_weight is not None:
            weight = weight * self._balls(batch).weights(edge_weight, self.radius)
        return (self.signs[slots.clamp(min=0)] * weight[..., None]).sum(1)

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The sum over the nodes of each graph (B, D)."""
        return h.new_zeros(batch.num_graphs, h.shape[1]).index_add(0, batch.batch, h)

    def _balls(self, batch: Batch) -> Balls:
        return Balls(batch.edge_index, len(batch.batch), self.radius)
