"""Colour refinement: hashes of nodes that depend on structure and inputs, not on the numbering of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.nn.layout import Layout


def refine_colours(layout: Layout, inputs: Tensor, rounds: int) -> Tensor:
    """Return integer colours (N,); nodes of different colour differ in inputs or neighbourhood.

    Hashes use wrapping integer arithmetic, which is exact and independent of the order of summation.
    """
    rounded = (inputs.detach().double() * 4096).round().long()  # (N, D)
    columns = torch.arange(rounded.shape[1], device=inputs.device)
    colour = mix((rounded * mix(columns + 1)).cumsum(1)[:, -1])  # a sum in ONNX does not wrap around
    for _ in range(rounds):
        around = torch.zeros_like(colour).index_add(0, layout.dst, mix(colour[layout.src]))
        colour = mix(colour * 3 + around)
    return colour


def rank_nodes(colour: Tensor, layout: Layout) -> Tensor:
    """Return the rank of every node (N,) by colour within its graph; ties keep the order of node numbers."""
    if layout.positions is not None:
        return rank_by_counting(colour[:, None], layout)[:, 0]
    by_colour = colour.argsort(stable=True)
    order = by_colour[layout.graph[by_colour].argsort(stable=True)]  # by graph, then colour, then number
    return torch.empty_like(order).scatter_(0, order, layout.local)


def rank_by_counting(keys: Tensor, layout: Layout) -> Tensor:
    """Return the rank of every node by each of K keys (N, K) within its graph, for a layout of one bucket.

    All pairs of nodes are compared, because ONNX has no stable sort; ties keep the order of node numbers.
    """
    (bucket,), (padded,) = layout.buckets, layout.pad(keys)
    one, other = padded[:, :, None], padded[:, None]  # (B, n, 1, K) and (B, 1, n, K)
    assert layout.positions is not None
    earlier = (layout.positions < layout.positions[:, None])[..., None]
    before = ((other < one) | ((other == one) & earlier)) & bucket.mask[:, None, :, None]  # (B, n, n, K)
    return layout.unpad([before.sum(2)])


def mix(x: Tensor) -> Tensor:
    """Scramble 64-bit integers (a multiply-xor-shift hash)."""
    x = (x ^ (x >> 31)) * 0x7FB5D329728EA185
    x = (x ^ (x >> 27)) * -0x7E25210B43D22BB3
    return x ^ (x >> 33)
