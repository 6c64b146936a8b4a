"""The invariant subgraph disentangler (Eqs. 3 to 6): one set of scores, two complementary halves."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from goodformer.nn.attention import NEVER, split_heads
from goodformer.nn.dropout import dropout
from goodformer.nn.layout import Layout, Squares
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

    def forward(self, z: Tensor, layout: Layout) -> Squares:
        """(N, D) -> one (b, H, n, n) per bucket; entries of padding are meaningless and must be masked."""
        return [self._pairs(*split_heads(part, self.heads, 2)) for part in layout.pad(self.qk(z))]

    def _pairs(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys, (b, H, n, D/H) each -> (b, H, n, n)."""
        if self.scale is None:
            return (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        q = nn.functional.normalize(q, dim=-1) * self.scale[:, None, None]
        return q @ nn.functional.normalize(k, dim=-1).transpose(-1, -2)


class InnerProducts(nn.Module):
    """E = Z Z^T / sqrt(D), the pair score of GIL's subgraph generator (Li et al., 2022), the same for every head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, z: Tensor, layout: Layout) -> Squares:
        """(N, D) -> one (b, H, n, n) per bucket; entries of padding are meaningless and must be masked."""
        padded = layout.pad(z * z.shape[1] ** -0.25)  # one (b, n, D) per bucket
        return [(part @ part.transpose(1, 2))[:, None].expand(-1, self.heads, -1, -1) for part in padded]


def hide_padding(scores: Tensor, keys: Tensor) -> Tensor:
    """Add ``NEVER`` to the scores (b, H, n, n) of every key that is padding, where ``keys`` (b, n) is false."""
    return scores + (~keys).to(scores.dtype).mul_(NEVER)[:, None, None]


def both_signs(scores: Squares, opposite: Squares | None, layout: Layout) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield the logits E and -E' of each bucket, stacked (2b, H, n, n), their rows that are nodes (2b, n), and 2.

    ``opposite`` is E as the variant half sees it, E'; without it only E is returned, and 1.
    """
    if opposite is None:
        for square, bucket in zip(scores, layout.buckets, strict=True):
            yield hide_padding(square, bucket.mask), bucket.mask, 1
        return
    for square, other, bucket in zip(scores, opposite, layout.buckets, strict=True):
        rows = bucket.mask.repeat(2, 1)
        yield hide_padding(torch.cat((square, -other)), rows), rows, 2


def edge_logits(scores: Squares, layout: Layout, symmetric: bool) -> Tensor:
    """Return the head-averaged score of every edge (E,); ``symmetric`` averages the two directions as well."""
    there = layout.edge_values(scores).mean(0)
    if not symmetric:
        return there
    return (there + layout.at_pairs(scores, layout.dst, layout.src).mean(0)) / 2


def head_mean_mask(scores: Squares, layout: Layout, by_source: bool = False) -> Tensor:
    """Return mean_h sigmoid(E_h) at every edge (E,).

    The row of E is the edge's target, as in attention, or its source where ``by_source`` is true, as published.
    """
    ends = (layout.dst, layout.src) if by_source else (layout.src, layout.dst)
    return layout.at_pairs(scores, *ends).sigmoid().mean(0)


class Half(nn.Module):
    """Z_half = MLP(Softmax(E / t) Z W_V + MPNN(Z, A_half)) (Eqs. 3, 5, 6), the same for E and for -E."""

    def __init__(self, dim: int, *, norm: Norm, p: float, aggregation: Aggregation, local_width: int = 1) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.local = GIN(mlp(dim, local_width * dim, dim), aggregation)
        self.mlp = mlp(dim, 2 * dim, dim, p)
        self.norm_in, self.norm_out = norm_layer(norm, dim), norm_layer(norm, dim)

    def forward(
        self, z: Tensor, attention: Squares, layout: Layout, edges: Tensor | None, edge_weight: Tensor
    ) -> Tensor:
        """(N, D), attention and edge weights (E,) of the half -> (N, D)."""
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
        self, z: Tensor, attention: Squares, layout: Layout, edges: Tensor | None, edge_weight: Tensor
    ) -> Tensor:
        """(N, D), attention and edge weights (E,) of the half -> (N, D)."""
        attended = self.norm_attention(self.drop_attention(self.out(attend(self.value(z), attention, layout))))
        local = self.norm_local(self.drop_local(self.local(z, layout, edges, edge_weight)))
        both = self.join(torch.cat((attended, local), 1))
        return self.norm_out(both + self.drop_mlp(self.mlp(both)))


def attend(values: Tensor, attention: Squares, layout: Layout) -> Tensor:
    """Return the values (N, D) mixed by attention, head by head, as (N, D)."""
    mixed = []
    for part, p in zip(layout.pad(values), attention, strict=True):
        (heads,) = split_heads(part, p.shape[1], 1)  # (b, H, n, D/H)
        mixed.append((p @ heads).transpose(1, 2).flatten(2))
    return layout.unpad(mixed)
