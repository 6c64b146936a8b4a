"""K-means with all restarts computed at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


@torch.no_grad()
def k_means(rows: Tensor, clusters: int, restarts: int = 10, steps: int = 20) -> Tensor:
    """Return K centres (K, D) of rows (R, D) that minimise the summed squared distance to the nearest centre.

    Lloyd's algorithm from k-means++ starts (Arthur & Vassilvitskii, 2007); the best of ``restarts`` is returned. The
    centre of an empty cluster does not move.
    """
    centres = _starts(rows, clusters, restarts)  # (S, K, D)
    for _ in range(steps):
        member = F.one_hot(_squares(rows, centres).argmin(-1), clusters).to(rows)  # (S, R, K)
        count = member.sum(1)[..., None]  # (S, K, 1)
        means = member.transpose(1, 2) @ rows / count.clamp(min=1)
        centres = torch.where(count > 0, means, centres)
    return centres[_squares(rows, centres).amin(-1).sum(-1).argmin()]


def nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """Return the index of the nearest centre of each row (R,)."""
    return _squares(rows, centres[None])[0].argmin(-1)


def _starts(rows: Tensor, clusters: int, restarts: int) -> Tensor:
    """Draw k-means++ starts: each row with probability proportional to its squared distance to the previous ones."""
    first = torch.randint(len(rows), (restarts,), device=rows.device)
    centres = rows[first][:, None]  # (S, 1, D)
    for _ in range(clusters - 1):
        far = _squares(rows, centres).amin(-1) + 1e-12  # (S, R), never all zero
        centres = torch.cat((centres, rows[torch.multinomial(far, 1)]), 1)
    return centres


def _squares(rows: Tensor, centres: Tensor) -> Tensor:
    """Return the squared distances of rows (R, D) to centres (S, K, D), as (S, R, K)."""
    return torch.cdist(rows, centres, compute_mode="donot_use_mm_for_euclid_dist").square()
