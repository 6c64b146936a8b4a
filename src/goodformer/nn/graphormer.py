"""Graphormer's attention: graph structure enters as biases (Ying et al., 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.nn.attention import split_heads
from goodformer.nn.distance import hop_distances, path_means
from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout, Squares, apart, joined


class Centrality(nn.Module):
    """z_in[in-degree] + z_out[out-degree] of every node; larger degrees share the last vector.

    With edge weights, degrees are sums of weights, and values between two degrees are interpolated.
    """

    def __init__(self, dim: int, degrees: int) -> None:
        super().__init__()
        self.incoming, self.outgoing = nn.Embedding(degrees, dim), nn.Embedding(degrees, dim)

    def forward(self, layout: Layout, weight: Tensor) -> Tensor:
        """Edge weights (E,) -> (N, D)."""
        zero = weight.new_zeros(layout.num_nodes)
        incoming, outgoing = zero.index_add(0, layout.dst, weight), zero.index_add(0, layout.src, weight)
        return _between(self.incoming, incoming) + _between(self.outgoing, outgoing)


def _between(table: nn.Embedding, degree: Tensor) -> Tensor:
    """Return the vectors of degrees (N,), interpolated between the two nearest integers, (N, D)."""
    known = degree.clamp(0, table.num_embeddings - 1)
    low = known.detach().floor()
    low_vector, high_vector = table(low.long()), table(known.detach().ceil().long())
    return torch.lerp(low_vector, high_vector, (known - low)[:, None])


class StructureBias(nn.Module):
    """b_h[hops(i, j)] + c_h(i, j), the bias of the attention logit from node i to node j in head h.

    b has one entry per number of hops up to ``cap``, which also serves farther pairs, and one for disconnected pairs.
    If edges have features e, c(i, j) = (1/d) sum_k W_k e_k over a shortest path of at most ``cap_edges`` hops.

    An edge of weight w interpolates b at its ends between one hop (w = 1) and disconnected, and scales e. An edge of
    weight 0 is treated as absent, also for distances.
    """

    def __init__(self, heads: int, cap: int, cap_edges: int) -> None:
        super().__init__()
        self.cap = cap
        self.by_distance = nn.Embedding(cap + 2, heads)
        self.maps = nn.Parameter(torch.randn(cap_edges, heads, heads) * 0.02) if cap_edges else None

    def forward(self, layout: Layout, edges: Tensor | None, weight: Tensor | None) -> Squares:
        """Optional edge features (E, H) and weights (E,) -> one (b, H, n, n) per bucket."""
        return [
            self._bucket(part, None if edges is None else edges[at], None if weight is None else weight[at])
            for part, _, at in layout.parts()
        ]

    def _bucket(self, layout: Layout, edges: Tensor | None, weight: Tensor | None) -> Tensor:
        """Do the same for a layout of one bucket -> (b, H, n, n)."""
        keep = None if weight is None else weight.detach() > 0
        hops = hop_distances(layout, self.cap, keep)  # (N, n)
        bias = self.by_distance(hops)  # (N, n, H)
        if weight is not None:
            bias = bias + self._loosened(layout, weight)
            edges = None if edges is None else edges * weight[:, None]
        if edges is not None and self.maps is not None:
            bias = bias + path_means(edges, self.maps, hops, layout, keep)
        return layout.pad(bias)[0].permute(0, 3, 1, 2)

    def _loosened(self, layout: Layout, weight: Tensor) -> Tensor:
        """Return (1 - w) (b[disconnected] - b[1]) at pairs connected by an edge of weight w > 0, (N, n, H)."""
        slack = torch.where(weight > 0, 1 - weight, 0.0)  # (E,)
        place = layout.dst * layout.width + layout.local[layout.src]
        at_pairs = weight.new_zeros(layout.num_nodes * layout.width).index_add(0, place, slack)
        change = self.by_distance.weight[-1] - self.by_distance.weight[1]  # (H,)
        return at_pairs.view(layout.num_nodes, layout.width, 1) * change


class _GELU(nn.GELU):
    """x Phi(x); exported models compute the error function in single precision, the only one of onnxruntime."""

    def forward(self, input: Tensor) -> Tensor:
        """The shape stays."""
        if not torch.compiler.is_exporting():
            return super().forward(input)
        return input * (1 + (input * 0.5**0.5).float().erf().to(input)) / 2


class GraphormerLayer(nn.Module):
    """h' = h + Attention(LN(h)), h'' = h' + FFN(LN(h')), with biased attention, GELU and an FFN of the same width."""

    def __init__(self, dim: int, heads: int, p: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_ffn = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ffn = nn.Sequential(nn.Linear(dim, dim), _GELU(), nn.Linear(dim, dim))
        self.drop_attention, self.drop_ffn = dropout(p), dropout(p)

    def forward(self, h: Tensor, biases: Squares) -> Tensor:
        """Padded rows of all buckets (R, D) and biases of their pairs -> (R, D)."""
        h = h + self.drop_attention(self._attend(self.norm_attention(h), biases))
        return h + self.drop_ffn(self.ffn(self.norm_ffn(h)))

    def _attend(self, h: Tensor, biases: Squares) -> Tensor:
        counts = [bias.shape[0] * bias.shape[-1] for bias in biases]
        mixed = []
        for part, bias in zip(apart(self.qkv(h), counts), biases, strict=True):
            q, k, v = split_heads(part.unflatten(0, (bias.shape[0], -1)), self.heads, 3)  # each (b, H, n, D/H)
            if torch.compiler.is_exporting():  # the fused kernel lays its result out as ONNX does not
                rows = ((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) + bias).softmax(-1) @ v
            else:
                rows = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            mixed.append(rows.transpose(1, 2).flatten(2).flatten(0, 1))
        return self.out(joined(mixed))
