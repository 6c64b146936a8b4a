"""The invariant subgraph disentangler (Eqs. 3 to 6): one set of scores, two complementary halves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from goodformer.nn.attention import NEVER, split_heads
from goodformer.nn.layout import Layout
from goodformer.nn.message_passing import GIN, Aggregation
from goodformer.nn.mlp import mlp
from goodformer.nn.normalisation import Norm, norm_layer


class Scores(nn.Module):
    """E = Z W_Q (Z W_K)^T / sqrt(d_K), the scores of all node pairs, H heads (Eq. 3).

    With ``bounded`` queries and keys are scaled to unit length and E = s * cosine with one learned s a head, so that
    the logits cannot grow without limit.
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
    """E = Z Z^T / sqrt(D), the pair score of GIL's subgraph generator (Li et al., 2022), for every head alike."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, z: Tensor, layout: Layout) -> Tensor:
        """(N, D) -> (B, H, n, n); entries of padding are meaningless and must be masked."""
        padded = layout.pad(z) * z.shape[1] ** -0.25  # (B, n, D)
        return (padded @ padded.transpose(1, 2))[:, None].expand(-1, self.heads, -1, -1)


def hide_padding(scores: Tensor, keys: Tensor) -> Tensor:
    """Scores (B, H, n, n) with ``NEVER`` at every key that is padding, where ``keys`` (B, n) is false."""
    return scores.masked_fill(~keys[:, None, None], NEVER)


def edge_logits(scores: Tensor, layout: Layout, symmetric: bool) -> Tensor:
    """The head-averaged score of every edge (E,); ``symmetric`` gives both directions the mean of the two."""
    mean = scores.mean(1)  # (B, n, n)
    there = layout.edge_values(mean)
    if not symmetric:
        return there
    return (there + mean.reshape(-1)[layout.pairs(layout.dst, layout.src)]) / 2


def head_mean_mask(scores: Tensor, layout: Layout) -> Tensor:
    """mean_h sigmoid(E_h) at every edge (E,), the mask as published."""
    return layout.edge_values(scores.sigmoid().mean(1))


class Half(nn.Module):
    """Z_half = MLP(Softmax(E / t) Z W_V + MPNN(Z, A_half)) (Eqs. 3, 5, 6), the same for E and for -E."""

    def __init__(self, dim: int, *, norm: Norm, p: float, aggregation: Aggregation) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.local = GIN(mlp(dim, dim, dim), aggregation)
        self.mlp = mlp(dim, 2 * dim, dim, p)
        self.norm_in, self.norm_out = norm_layer(norm, dim), norm_layer(norm, dim)

    def forward(
        self, z: Tensor, attention: Tensor, layout: Layout, edges: Tensor | None, edge_weight: Tensor
    ) -> Tensor:
        """(N, D), attention (B, H, n, n) and edge weights (E,) of the half -> (N, D)."""
        (values,) = split_heads(layout.pad(self.value(z)), attention.shape[1], 1)  # (B, H, n, D/H)
        attended = layout.unpad((attention @ values).transpose(1, 2).flatten(2))
        both = self.norm_in(attended + self.local(z, layout, edges, edge_weight))
        return self.norm_out(both + self.mlp(both))
