"""Self-attention over the nodes of each graph, plain and complementary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.nn.layout import Layout

NEVER = -1e9
"""Logit of a masked pair. It is finite, so that a row of padding yields numbers instead of NaN."""


def key_biases(layout: Layout, node_weight: Tensor | None, dtype: torch.dtype) -> list[Tensor]:
    """Return the bias of every logit of a key: log of the node weight, ``NEVER`` for padding.

    One tensor (b, 1, 1, n) per bucket.
    """
    masks = [bucket.mask for bucket in layout.buckets]
    if node_weight is None:
        biases = [torch.zeros(mask.shape, dtype=dtype, device=mask.device) for mask in masks]
    else:
        biases = [part[..., 0] for part in layout.pad(node_weight.clamp(min=1e-6).log()[:, None])]
    return [bias.masked_fill(~mask, NEVER)[:, None, None] for bias, mask in zip(biases, masks, strict=True)]


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(d_K)) V over the nodes of each graph, H heads, with output projection.

    With node weights, key j counts w_j times; a node of weight 0 is ignored.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, h: Tensor, layout: Layout, node_weight: Tensor | None = None) -> Tensor:
        """(N, D) -> (N, D)."""
        biases, mixed = key_biases(layout, node_weight, h.dtype), []
        for part, bias in zip(layout.pad(self.qkv(h)), biases, strict=True):
            q, k, v = split_heads(part, self.heads, 3)  # each (b, H, n, D/H)
            if node_weight is None:
                rows = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            else:  # the fused kernel gives the bias no gradient
                rows = ((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) + bias).softmax(-1) @ v
            mixed.append(rows.transpose(1, 2).flatten(2))
        return self.out(layout.unpad(mixed))


def split_heads(padded: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
    """Split (b, n, parts * D) into ``parts`` tensors (b, H, n, D/H)."""
    size, width = padded.shape[:2]
    return padded.view(size, width, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
