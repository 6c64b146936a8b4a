"""Risks per environment."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.spec import Task


def environment_means(task: Task, values: Tensor, y: Tensor, env: Tensor) -> Tensor:
    """Return R_e, the mean over each environment with labels in the batch, as (K,) by environment number.

    Args:
        task: The prediction task.
        values: One value per graph from `losses`, (B,), whose mean is the mean over all known labels.
        y: Labels, with NaN for missing ones.
        env: The environment of each graph, (B,).
    """
    labels = torch.ones_like(values) if task.kind == "multiclass" else (~y.isnan()).sum(-1).to(values)
    share = labels / labels.mean().clamp(min=1e-12)  # (B,), 1 where every graph has equally many labels
    numbers, place = env.unique(return_inverse=True)
    total, weight = values.new_zeros(2, numbers.numel()).index_add(1, place, torch.stack((values, share)))
    return total[weight > 0] / weight[weight > 0]
