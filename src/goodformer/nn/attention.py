"""Self-attention over the nodes of each graph, plain and complementary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.nn.layout import Layout

NEVER = -1e9
"""Logit of a masked pair. It is finite, so that a row of padding yields numbers instead of NaN."""


def key_bias(layout: Layout, node_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the bias added to every logit of a key (B, 1, 1, n): log of the node weight, ``NEVER`` for padding."""
    if node_weight is None:
        bias = torch.zeros(layout.mask.shape, dtype=dtype, device=layout.mask.device)
    else:
        bias = layout.pad(node_weight.clamp(min=1e-6).log()[:, None])[..., 0]
    return bias.masked_fill(~layout.mask, NEVER)[:, None, None]


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
        q, k, v = split_heads(layout.pad(self.qkv(h)), self.heads, 3)  # each (B, H, n, D/H)
        bias = key_bias(layout, node_weight, h.dtype)  # (B, 1, 1, n)
        if node_weight is None:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:  # the fused kernel gives the bias no gradient
            mixed = ((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) + bias).softmax(-1) @ v
        return self.out(layout.unpad(mixed.transpose(1, 2).flatten(2)))


def split_heads(padded: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
    """Split (B, n, parts * D) into ``parts`` tensors (B, H, n, D/H)."""
    size, width = padded.shape[:2]
    return padded.view(size, width, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
