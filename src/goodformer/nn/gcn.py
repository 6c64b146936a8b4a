"""Graph convolution with weighted edges."""

from __future__ import annotations

from torch import Tensor, nn

from goodformer.nn.layout import Layout


class GCN(nn.Module):
    """h'_v = W (h_v / d_v + sum_u w_uv h_u / sqrt(d_u d_v)) + b with d_v = 1 + sum_u w_uv (Kipf & Welling, 2017)."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, out)

    def forward(self, h: Tensor, layout: Layout, weight: Tensor) -> Tensor:
        """(N, D) and edge weights (E,) -> (N, D')."""
        degree = h.new_ones(layout.num_nodes).index_add(0, layout.dst, weight)  # (N,)
        root = degree.rsqrt()
        share = weight * root.index_select(0, layout.src) * root.index_select(0, layout.dst)  # (E,)
        around = (h / degree[:, None]).index_add(0, layout.dst, h.index_select(0, layout.src) * share[:, None])
        return self.linear(around)
