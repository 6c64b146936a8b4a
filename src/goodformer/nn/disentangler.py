"""The invariant subgraph disentangler (Eqs. 3 to 6): one set of scores, two complementary halves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from goodformer.nn.attention import NEVER, split_heads
from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, Aggregation
from goodformer.nn.mlp import mlp
from goodformer.nn.normalisation import Norm, norm_layer


class Scores(nn.Module):
    """E = Z W_Q (Z W_K)^T / sqrt(d_K), the scores of all node pairs, H heads (Eq. 3).

    With ``bounded``, queries and keys are scaled to unit length and E = s * cosine with one learned s per head, so
    that the logits cannot grow without limit.
    """

    def __init__(self, dim: int, heads: int, bounded: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.qk = nn.Linear(dim, 2 * dim)
        self.scale = nn.Parameter(torch.full((heads,), 4.0)) if bounded else None

    def forward(self, z: Tensor, layout: Layout) -> Tensor:
        """(N, D) -> (B, H, n, n); entries of padding are meaningless and must be masked."""
        q, k = split_heads(layout.pad(self.qk(z)), self.heads, 2)  # each (B, H, n, D/H)
        if self.scale is None:
            return (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        q = nn.functional.normalize(q, dim=-1) * self.scale[:, None, None]
        return q @ nn.functional.normalize(k, dim=-1).transpose(-1, -2)


class InnerProducts(nn.Module):
    """E = Z Z^T / sqrt(D), the pair score of GIL's subgraph generator (Li et al., 2022), the same for every head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, z: Tensor, layout: Layout) -> Tensor:
        """(N, D) -> (B, H, n, n); entries of padding are meaningless and must be masked."""
        padded = layout.pad(z) * z.shape[1] ** -0.25  # (B, n, D)
        return (padded @ padded.transpose(1, 2))[:, None].expand(-1, self.heads, -1, -1)


def hide_padding(scores: Tensor, keys: Tensor) -> Tensor:
    """Return scores (B, H, n, n) with ``NEVER`` at every key that is padding, where ``keys`` (B, n) is false."""
    return scores.masked_fill(~keys[:, None, None], NEVER)


def edge_logits(scores: Tensor, layout: Layout, symmetric: bool) -> Tensor:
    """Return the head-averaged score of every edge (E,); ``symmetric`` averages the two directions as well."""
    mean = scores.mean(1)  # (B, n, n)
    there = layout.edge_values(mean)
    if not symmetric:
        return there
    return (there + mean.reshape(-1)[layout.pairs(layout.dst, layout.src)]) / 2


def head_mean_mask(scores: Tensor, layout: Layout, by_source: bool = False) -> Tensor:
    """Return mean_h sigmoid(E_h) at every edge (E,).

    The row of E is the edge's target, as in attention, or its source where ``by_source`` is true, as published.
    """
    mean = scores.sigmoid().mean(1)  # (B, n, n)
    return mean.reshape(-1)[layout.pairs(layout.dst, layout.src)] if by_source else layout.edge_values(mean)


class Half(nn.Module):
    """Z_half = MLP(Softmax(E / t) Z W_V + MPNN(Z, A_half)) (Eqs. 3, 5, 6), the same for E and for -E."""

    def __init__(self, dim: int, *, norm: Norm, p: float, aggregation: Aggregation, local_width: int = 1) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.local = GIN(mlp(dim, local_width * dim, dim), aggregation)
        self.mlp = mlp(dim, 2 * dim, dim, p)
        self.norm_in, self.norm_out = norm_layer(norm, dim), norm_layer(norm, dim)

    def forward(
        self, z: Tensor, attention: Tensor, layout: Layout, edges: Tensor | None, edge_weight: Tensor
    ) -> Tensor:
        """(N, D), attention (B, H, n, n) and edge weights (E,) of the half -> (N, D)."""
        attended = attend(self.value(z), attention, layout)
        both = self.norm_in(attended + self.local(z, layout, edges, edge_weight))
        return self.norm_out(both + self.mlp(both))


class ConcatHalf(nn.Module):
    """The published half: h_T = norm(Softmax(E / t) Z W_V W_O), h_M = norm(MPNN(Z, A_half)), h = W [h_T, h_M].

    Z_half = norm(h + MLP(h)), with dropout before each norm.
    """

    def __init__(self, dim: int, *, norm: Norm, p: float, aggregation: Aggregation, local_width: int = 1) -> None:
        super().__init__()
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.local = GIN(mlp(dim, local_width * dim, dim), aggregation)
        self.join = nn.Linear(2 * dim, dim)
        self.mlp = mlp(dim, 2 * dim, dim, p)
        self.norm_attention, self.norm_local, self.norm_out = (norm_layer(norm, dim) for _ in range(3))
        self.drop_attention, self.drop_local, self.drop_mlp = (dropout(p) for _ in range(3))

    def forward(
        self, z: Tensor, attention: Tensor, layout: Layout, edges: Tensor | None, edge_weight: Tensor
    ) -> Tensor:
        """(N, D), attention (B, H, n, n) and edge weights (E,) of the half -> (N, D)."""
        attended = self.norm_attention(self.drop_attention(self.out(attend(self.value(z), attention, layout))))
        local = self.norm_local(self.drop_local(self.local(z, layout, edges, edge_weight)))
        both = self.join(torch.cat((attended, local), 1))
        return self.norm_out(both + self.drop_mlp(self.mlp(both)))


def attend(values: Tensor, attention: Tensor, layout: Layout) -> Tensor:
    """Return the values (N, D) mixed by attention (B, H, n, n), head by head, as (N, D)."""
    (heads,) = split_heads(layout.pad(values), attention.shape[1], 1)  # (B, H, n, D/H)
    return layout.unpad((attention @ heads).transpose(1, 2).flatten(2))
