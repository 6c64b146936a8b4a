"""Memory bank of vectors from earlier batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bank(nn.Module):
    """First-in, first-out memory of the last ``size`` vectors. It is a buffer, so a resumed run continues with it."""

    rows: Tensor
    seen: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, dim))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, rows: Tensor) -> None:
        """Replace the oldest rows by the given rows (B, D)."""
        size = len(self.rows)
        kept = rows[-size:]
        place = (self.seen + torch.arange(len(kept), device=rows.device)) % size
        self.rows[place] = kept.to(self.rows)
        self.seen += len(kept)

    def draw(self, count: int) -> Tensor:
        """Draw up to ``count`` different rows at random, without gradient."""
        there = min(int(self.seen), len(self.rows))
        return self.rows[torch.randperm(there, device=self.rows.device)[:count]]
