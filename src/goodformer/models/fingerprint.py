"""Fingerprints: a graph as the counts of its local environments and pairs of nodes, and sums of node properties."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.models.base import GraphModel
from goodformer.nn.fingerprint import Balls, Pairs, count, fold, signs
from goodformer.nn.layout import Layout
from goodformer.spec import Encoding, FeatureSpec


class Fingerprint(GraphModel):
    """c_k = number of environments whose code is k modulo the table size; h_v = sum over r of S[code of (v, r)].

    An environment is a node with everything up to r steps away, r = 0 .. radius. For molecules the counts are those of
    the Morgan (ECFP) fingerprint, for other graphs those of the Weisfeiler-Lehman kernel. Further columns count pairs
    of nodes by their codes of radius 0 and the hops between them: atom pairs, or the shortest-path kernel. If node
    features are continuous, their means and standard deviations over the nodes are columns, too. The last columns are
    sums of node properties: descriptors of a molecule such as its logP. S is a fixed matrix of signs, so the readout,
    the sum over the nodes, is a random projection of the environments. Nothing is learned.

    Paper: Rogers & Hahn, "Extended-Connectivity Fingerprints", 2010; Shervashidze et al., "Weisfeiler-Lehman Graph
    Kernels", 2011; Carhart et al., "Atom Pairs as Molecular Features", 1985; Borgwardt & Kriegel, "Shortest-Path
    Kernels on Graphs", 2005.
    """

    in_words = (
        "Counts local environments of nodes (Morgan fingerprint); nothing is learned. For methods forest, linear and "
        "gaussian-process."
    )
    signs: Tensor

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        radius: Annotated[int, Field(ge=1, le=6, description="Largest radius of an environment, in edges.")] = 2,
        table: Annotated[
            int,
            Field(ge=0, le=1 << 20, description="Columns that the codes of environments are folded to; 0 for none."),
        ] = 2048,
        pairs: Annotated[
            int, Field(ge=0, le=1 << 20, description="Columns that the codes of node pairs are folded to; 0 for none.")
        ] = 0,
        reach: Annotated[int, Field(ge=1, le=100, description="Most hops between the two nodes of a pair.")] = 10,
        properties: Annotated[
            int,
            Field(
                ge=0,
                le=1000,
                description="Properties of nodes that are summed; molecules have 38, and 85 functional groups.",
            ),
        ] = 0,
        dim: Annotated[int, Field(ge=1, description="Width of the projection, which the domain score reads.")] = 64,
    ) -> None:
        super().__init__()
        if table + pairs < 1:
            raise InputError("a fingerprint without environments and pairs counts nothing; set table or pairs.")
        self.radius, self.table, self.pairs, self.reach, self.dim = radius, table, pairs, reach, dim
        self.properties = properties
        needed = [Encoding("environments", radius), *([Encoding("properties", properties)] if properties else [])]
        self.attribute, self.summed = needed[0].attribute, needed[-1].attribute
        self.encodings = tuple(map(str, needed))
        self.measured = len(spec.node.sizes) if spec.node.kind == "continuous" else 0
        self.counted = table + pairs
        """Number of columns that count environments or pairs."""
        self.projected = self.counted + 2 * self.measured
        """Number of columns that the projection reads: those that count, then means and standard deviations."""
        self.columns = self.projected + properties
        """Number of columns F of `counts`: those of the projection, then sums of properties."""
        self.register_buffer("signs", signs(self.projected, dim) / dim**0.5, persistent=False)

    def near(self, batch: Batch) -> Pairs | None:
        """Return the pairs of nodes, for a caller that needs both `counts` and `spread`; None if they do not count."""
        return Pairs(Layout(batch), batch[self.attribute][:, 0], self.reach, self.pairs) if self.pairs else None

    def counts(self, batch: Batch, edge_weight: Tensor | None = None, near: Pairs | None = None) -> Tensor:
        """Return the columns of every graph (B, F).

        An environment counts the product of the weights of its edges, and a pair that of a shortest path.
        """
        graphs, found = batch.num_graphs, []
        if self.table:
            weight = None if edge_weight is None else self._balls(batch).weights(edge_weight, self.radius)
            found.append(count(self.slots(batch), batch.batch, graphs, self.table, weight))
        if near := near or self.near(batch):
            found.append(near.count(edge_weight))
        columns = [torch.cat(found, 1).to(self.signs)]
        if self.measured:
            x, size = batch.x.double(), batch.ptr.diff()[:, None]
            mean = self._sums(x, batch) / size
            columns += [mean, (self._sums((x - mean[batch.batch]).square(), batch) / size).sqrt()]
        if self.properties:
            columns.append(self._sums(batch[self.summed].double(), batch))
        # Sums in double precision: rounding that depends on the batch would move graphs across thresholds of trees.
        return torch.cat([one.to(self.signs) for one in columns], 1)

    def slots(self, batch: Batch) -> Tensor:
        """Return the column of each environment, -1 for none, (N, R + 1)."""
        return fold(batch[self.attribute], self.table or self.counted)

    def project(self, counts: Tensor) -> Tensor:
        """Return a random projection of log(1 + counts), means and standard deviations (B, D)."""
        columns = torch.cat((counts[:, : self.counted].log1p(), counts[:, self.counted : self.projected]), 1)
        return columns.to(self.signs.dtype) @ self.signs

    def spread(self, batch: Batch, values: Tensor, near: Pairs | None = None) -> Tensor:
        """Share the values of the columns (B, F) among what they count, and this among edges, (E,).

        A pair shares its value between its nodes, and a sum of properties among nodes by their absolute properties;
        nodes pass it on like environments of radius 0.
        """
        graph, slots = batch.batch, self.slots(batch)
        shares = values.new_zeros(slots.shape)  # (N, R + 1)
        if self.table:
            each = values[:, : self.table] / count(slots, graph, batch.num_graphs, self.table).clamp(min=1)
            shares = each[graph[:, None], slots.clamp(min=0)] * (slots >= 0)
        if near := near or self.near(batch):
            each = values[:, self.table : self.counted] / near.count().clamp(min=1)
            shares = torch.cat((shares[:, :1] + near.spread(each)[:, None], shares[:, 1:]), 1)
        if self.properties:
            size = batch[self.summed].abs().to(values)
            each = values[:, self.projected :] / self._sums(size, batch).clamp(min=1e-12)
            nodes = (size * each[graph]).sum(1, keepdim=True)
            shares = torch.cat((shares[:, :1] + nodes, shares[:, 1:]), 1)
        return self._balls(batch).spread(shares)

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D)."""
        slots = self.slots(batch)
        weight = (slots >= 0).to(self.signs.dtype)
        if edge_weight is not None:
            weight = weight * self._balls(batch).weights(edge_weight, self.radius)
        return (self.signs[slots.clamp(min=0)] * weight[..., None]).sum(1)

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The sum over the nodes of each graph (B, D)."""
        return self._sums(h, batch)

    def _sums(self, values: Tensor, batch: Batch) -> Tensor:
        """Return the sum of the values of nodes (N, k) over each graph, (B, k)."""
        return values.new_zeros(batch.num_graphs, values.shape[1]).index_add(0, batch.batch, values)

    def _balls(self, batch: Batch) -> Balls:
        return Balls(batch.edge_index, len(batch.batch), self.radius)
