"""Positions of the nodes of a batch in a padded tensor, computed once per batch and passed to every layer.

Letters used in shapes throughout: N nodes, E edges, B graphs, n padded nodes per graph, H heads, D width, C classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch


class _Pad(torch.autograd.Function):
    """Scatter of rows into a zero tensor. Positions are distinct, so the gradient is a gather."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(place)
        return rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, place, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Unpad.apply(grad, ctx.saved_tensors[0]), None, None


class _Unpad(torch.autograd.Function):
    """Gather of rows. Positions are distinct, so the gradient is a copy instead of a sum."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.size = padded.shape[0]
        return padded.index_select(0, place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Pad.apply(grad, ctx.saved_tensors[0], ctx.size), None


class Layout:
    """The padding of one batch.

    Attributes:
        graph: The graph of every node, (N,).
        sizes: Nodes in every graph, (B,).
        place: Row of every node in the padded (B * n) rows, (N,).
        mask: True where a padded row is a node, (B, n).
        src, dst: Source and target node of every edge, (E,).
    """

    def __init__(self, batch: Batch) -> None:
        ptr = batch.ptr
        self.graph: Tensor = batch.batch
        self.sizes: Tensor = ptr.diff()
        self.num_nodes = self.graph.numel()
        self.num_graphs = self.sizes.numel()
        self.width = int(self.sizes.max()) if self.num_graphs else 0
        self.local: Tensor = torch.arange(self.num_nodes, device=ptr.device) - ptr[self.graph]  # (N,)
        self.place = self.graph * self.width + self.local
        self.mask = torch.arange(self.width, device=ptr.device) < self.sizes[:, None]  # (B, n)
        self.src, self.dst = batch.edge_index[0], batch.edge_index[1]

    def pad(self, rows: Tensor) -> Tensor:
        """(N, D) -> (B, n, D), zero at padding."""
        padded: Tensor = _Pad.apply(rows, self.place, self.num_graphs * self.width)
        return padded.view(self.num_graphs, self.width, *rows.shape[1:])

    def unpad(self, padded: Tensor) -> Tensor:
        """(B, n, D) -> (N, D)."""
        return _Unpad.apply(padded.reshape(-1, *padded.shape[2:]), self.place)

    def pairs(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the positions of node pairs (row = target, column = source) in a flattened (B, n, n) tensor."""
        return self.place[target] * self.width + self.local[source]

    def edge_values(self, square: Tensor) -> Tensor:
        """(B, n, n) -> (E,): the entry of every edge, row = target (query), column = source (key)."""
        return square.reshape(-1)[self.pairs(self.src, self.dst)]

    def undirected(self) -> tuple[Tensor, int]:
        """Return an index per edge (E,), equal for both directions of a pair, and the number of pairs."""
        first, second = torch.minimum(self.src, self.dst), torch.maximum(self.src, self.dst)
        values, number = (first * self.num_nodes + second).unique(return_inverse=True)
        return number, values.numel()

    def twice(self) -> Layout:
        """Return the layout of two copies of the batch, one after the other."""
        twin = object.__new__(Layout)
        twin.num_nodes, twin.num_graphs, twin.width = 2 * self.num_nodes, 2 * self.num_graphs, self.width
        twin.sizes, twin.local, twin.mask = (torch.cat((part, part)) for part in (self.sizes, self.local, self.mask))
        twin.graph = torch.cat((self.graph, self.graph + self.num_graphs))
        twin.place = torch.cat((self.place, self.place + self.num_graphs * self.width))
        twin.src = torch.cat((self.src, self.src + self.num_nodes))
        twin.dst = torch.cat((self.dst, self.dst + self.num_nodes))
        return twin
