"""Codes of node environments at the level of the graph: weighted counts, an embedding table and an MLP."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout
from goodformer.nn.mlp import mlp
from goodformer.nn.readout import node_share
from goodformer.spec import Encoding


class EnvironmentFusion(nn.Module):
    """MLP(dropout(BatchNorm(sum over rows s of log(1 + c_s) T_s))), where c_s counts the codes that fold to row s.

    Codes are folded to code mod S. Each counts with its share in the embedded part of the graph; negative codes do not
    count. In training, each row of each graph is dropped with the rate ``drop``. At evaluation, rows that no training
    graph had do not count: their vectors are still those of the initialisation.

    Args:
        radius: Largest radius R of the environments.
        size: Rows S of the table T.
        dim: Width D.
        drop: Rate at which rows are dropped in training.
        p: Dropout rate of the MLP.
    """

    seen: Tensor

    def __init__(self, radius: int, size: int, dim: int, drop: float, p: float = 0.2) -> None:
        super().__init__()
        self.encoding = Encoding("environments", radius)
        self.table = nn.Parameter(torch.randn(size, dim))
        self.norm, self.drop_rows, self.drop = nn.BatchNorm1d(dim), dropout(drop), dropout(p)
        self.mlp = mlp(dim, dim, dim, p)
        self.register_buffer("seen", torch.zeros(size, dtype=torch.bool))

    def forward(self, codes: Tensor, layout: Layout, share: Tensor | None = None) -> Tensor:
        """Return a vector per graph (B, D).

        Args:
            codes: Codes of the environments (N, R + 1).
            layout: Of the graphs.
            share: Share of each environment (N, R + 1), or of each node (N, 1), in the embedded part of its graph.
        """
        counts = self.counts(codes, layout, share)  # (B, S)
        return self.mlp(self.drop(self.norm(self.drop_rows(counts.log1p()) @ self.table)))

    def counts(self, codes: Tensor, layout: Layout, share: Tensor | None = None) -> Tensor:
        """Return the weighted counts of the rows in each graph (B, S) and, in training, remember which rows occur."""
        size, kept = len(self.table), codes >= 0  # (N, R + 1)
        row = codes % size
        if self.training:
            self.seen[row[kept]] = True
            known = kept
        else:
            known = kept & self.seen[row]
        weight = known.to(self.table) if share is None else known * share
        place = layout.graph[:, None] * size + row
        flat = weight.new_zeros(layout.num_graphs * size).index_add(0, place.flatten(), weight.flatten())
        return flat.view(-1, size)


def environment_share(edge_weight: Tensor, layout: Layout, radius: int) -> Tensor:
    """Return the share of each environment in the subgraph that edge weights (E,) select, (N, R + 1).

    That of radius 0 is the node's share. An environment of a larger radius contains edges, and its share is the
    smallest of their weights: it says something about edges that are left out unless all its edges are selected.
    """
    shares = [node_share(edge_weight, layout)]
    least = edge_weight.new_ones(layout.num_nodes)
    for _ in range(radius):
        through = torch.minimum(edge_weight, least[layout.src])  # (E,)
        lowest = torch.full_like(least, torch.inf).scatter_reduce(0, layout.dst, through, "amin")
        least = torch.where(lowest.isinf(), 1.0, lowest)  # a node without edges
        shares.append(least)
    return torch.stack(shares, 1)
