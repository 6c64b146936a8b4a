"""The GraphGPS layer: local messages and global attention side by side (Rampasek et al., 2022)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from goodformer.nn.attention import Attention
from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, Aggregation
from goodformer.nn.mlp import mlp
from goodformer.nn.normalisation import Norm, norm_layer

Combine = Literal["sum", "concat"]


class GPSLayer(nn.Module):
    """h_M = norm(h + MPNN(h)), h_T = norm(h + Attention(h)), h' = norm(h_M + h_T + FFN(h_M + h_T)).

    With ``combine="concat"`` a linear map of [h_M, h_T] replaces their sum.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        norm: Norm,
        p: float,
        aggregation: Aggregation,
        combine: Combine = "sum",
        local_width: int = 1,
    ) -> None:
        super().__init__()
        self.local = GIN(mlp(dim, local_width * dim, dim), aggregation)
        self.attention = Attention(dim, heads)
        self.join = nn.Linear(2 * dim, dim) if combine == "concat" else None
        self.ffn = mlp(dim, 2 * dim, dim, p)
        self.norm_local, self.norm_attention, self.norm_out = (norm_layer(norm, dim) for _ in range(3))
        self.drop_local, self.drop_attention, self.drop_ffn = (dropout(p) for _ in range(3))

    def forward(
        self,
        h: Tensor,
        layout: Layout,
        edges: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        """(N, D) -> (N, D)."""
        local = self.norm_local(h + self.drop_local(self.local(h, layout, edges, edge_weight)))
        attended = self.norm_attention(h + self.drop_attention(self.attention(h, layout, node_weight)))
        both = local + attended if self.join is None else self.join(torch.cat((local, attended), 1))
        return self.norm_out(both + self.drop_ffn(self.ffn(both)))
