"""Heads on all sums a_i + b_j of two sets of vectors, without a matrix product per pair."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def normed_sums(norm: nn.Module, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return a (B, D) and b (M, D) with a_i + b_j = norm(first_i + second_j) over all B * M pairs.

    The mean over all pairs is the sum of the two means, the variance the sum of the two variances. In training the
    running averages follow as BatchNorm's do, unless they are switched off (`goodformer.nn.statistics`).
    """
    assert isinstance(norm, nn.BatchNorm1d)
    if norm.training:
        means = first.mean(0), second.mean(0)
        variance = first.var(0, correction=0) + second.var(0, correction=0)
        if norm.track_running_stats:
            _record(norm, means[0] + means[1], variance, len(first) * len(second))
    else:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        means, variance = (norm.running_mean, torch.zeros_like(norm.running_mean)), norm.running_var
    scale = norm.weight * (variance + norm.eps).rsqrt()
    return (first - means[0]) * scale + norm.bias, (second - means[1]) * scale


@torch.no_grad()
def _record(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Update the running averages of a BatchNorm layer as it does itself."""
    assert norm.momentum is not None
    for buffer, value in ((norm.running_mean, mean), (norm.running_var, variance * (count / max(count - 1, 1)))):
        assert buffer is not None
        buffer.lerp_(value, norm.momentum)
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)


def pair_sums(first: Tensor, second: Tensor) -> Tensor:
    """Return a_i + b_j of all pairs, (B, D) and (M, D) -> (B * M, D)."""
    return (first[:, None] + second).flatten(0, 1)


def on_pairs(layer: Callable[[Tensor], Tensor], first: Tensor, second: Tensor, entries: int = 2**20) -> Tensor:
    """Return layer(a_i + b_j) of all pairs, (B, D) and (M, D) -> (B, M, D').

    Pairs are processed in parts of at most ``entries`` numbers, which fit the processor cache, and computed again in
    the backward pass instead of being stored. ``layer`` must treat every pair on its own.
    """
    size = max(entries // max(second.numel(), 1), 1)

    def part(rows: Tensor) -> Tensor:
        return layer(pair_sums(rows, second)).unflatten(0, (len(rows), len(second)))

    if len(first) <= size:
        return part(first)
    return torch.cat([checkpoint(part, rows, use_reentrant=False) for rows in first.split(size)])
