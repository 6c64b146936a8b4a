"""Vectors of earlier batches, kept for later ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bank(nn.Module):
    """The last ``size`` vectors seen, first in, first out. They are a buffer, so a resumed run goes on with them."""

    rows: Tensor
    seen: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, dim))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, rows: Tensor) -> None:
        """Put rows (B, D) in the place of the oldest."""
        size = len(self.rows)
        kept = rows[-size:]
        place = (self.seen + torch.arange(len(kept), device=rows.device)) % size
        self.rows[place] = kept.to(self.rows)
        self.seen += len(kept)

    def draw(self, count: int) -> Tensor:
        """Different rows at random, ``count`` of them or as many as there are, without gradient."""
        there = min(int(self.seen), len(self.rows))
        return self.rows[torch.randperm(there, device=self.rows.device)[:count]]
