"""Vector quantisation with codes that are running means (van den Oord et al., 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 4096
"""Rows compared with all codes at once, to bound memory."""


class Quantiser(nn.Module):
    """q(h) = the code nearest to h; the gradient passes straight through.

    Codes are running means: n_k <- d n_k + (1 - d) |S_k|, m_k <- d m_k + (1 - d) sum of S_k, e_k = m_k / n_k, where S_k
    are the rows of a training batch nearest to code k. A code without such rows does not move.
    """

    codes: Tensor
    counts: Tensor
    sums: Tensor

    def __init__(self, dim: int, codes: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        start = nn.init.kaiming_uniform_(torch.empty(codes, dim))
        self.register_buffer("codes", start)  # (K, D)
        self.register_buffer("counts", torch.ones(codes))  # (K,)
        self.register_buffer("sums", start.clone())  # (K, D)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (N, D) -> their codes (N, D), and the commitment mean (sg(code) - h)^2."""
        index = self.nearest(h)
        code = self.codes[index]
        if self.training:
            self._follow(h, index)
        return h + (code - h).detach(), F.mse_loss(h, code)

    @torch.no_grad()
    def nearest(self, h: Tensor) -> Tensor:
        """Return the index of the nearest code of each row (N,), by Euclidean distance."""
        length = (self.codes**2).sum(1)  # (K,)
        return torch.cat([(length - 2 * rows @ self.codes.T).argmin(1) for rows in h.split(ROWS)])

    @torch.no_grad()
    def _follow(self, h: Tensor, index: Tensor) -> None:
        """Move the codes towards the rows assigned to them."""
        members = torch.zeros_like(self.counts).index_add(0, index, h.new_ones(len(index)))
        self.counts.lerp_(members, 1 - self.decay)
        self.sums.lerp_(torch.zeros_like(self.sums).index_add(0, index, h), 1 - self.decay)
        moved = self.sums / self.counts.clamp(min=1e-12)[:, None]
        self.codes.copy_(torch.where(members[:, None] > 0, moved, self.codes))
