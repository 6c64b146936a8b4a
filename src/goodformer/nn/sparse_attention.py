"""Attention along the edges of a sparse graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from goodformer.nn.layout import Layout, apart

LARGEST = 5.0
"""Logits are clamped to [-5, 5]."""


@dataclass(frozen=True)
class Connections:
    """Pairs that attend to each other among the N nodes of a batch, followed by V virtual nodes per graph.

    Attributes:
        source, target: Key and query of each connection, (K,), grouped by kind.
        counts: Connections per kind: the graph's own edges, extra edges, edges from nodes to the first, second, ...
            virtual node, and edges back to nodes; T kinds in total.
        edges: Vectors of the graph's own edges, (E, D); None without edge features.
        weight: Weight of each connection, (K,); None if all are 1.
    """

    source: Tensor
    target: Tensor
    counts: tuple[int, ...]
    edges: Tensor | None
    weight: Tensor | None


def connect(
    layout: Layout,
    extra: Tensor,
    virtual: int,
    edges: Tensor | None = None,
    edge_weight: Tensor | None = None,
    there: Tensor | None = None,
) -> Connections:
    """Connect nodes by the graph's own edges, extra ones (2, X), and ``virtual`` nodes joined to all nodes.

    ``there`` says which of the extra edges exist (X,); all by default.
    """
    device, n = layout.graph.device, layout.num_nodes
    nodes = torch.arange(n, device=device).repeat(virtual)  # (V * N,)
    number = torch.arange(virtual, device=device)[:, None]  # (V, 1)
    hubs = (n + layout.graph * virtual + number).flatten()
    counts = (layout.src.numel(), extra.shape[1], *[n] * 2 * virtual)
    weight = None
    if edge_weight is not None or there is not None:
        dtype = torch.float if edge_weight is None else edge_weight.dtype
        parts = [torch.ones(count, dtype=dtype, device=device) for count in (*counts[:2], sum(counts[2:]))]
        parts[0] = parts[0] if edge_weight is None else edge_weight
        parts[1] = parts[1] if there is None else there.to(dtype)
        weight = torch.cat(parts)
    return Connections(
        source=torch.cat((layout.src, extra[0], nodes, hubs)),
        target=torch.cat((layout.dst, extra[1], hubs, nodes)),
        counts=counts,
        edges=edges,
        weight=weight,
    )


class SparseAttention(nn.Module):
    """out_i = sum_j alpha_ij v_j over connections j -> i, alpha = softmax_j(clamp(sum_c q_ic k_jc e_ijc / sqrt(d))).

    Queries, keys, values and edge vectors e are linear maps without bias of node and connection vectors, H heads of
    width d; there is no output projection. A connection of weight w counts w times.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.edge = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, h: Tensor, connections: Connections, kinds: Tensor) -> Tensor:
        """Vectors of nodes and virtual nodes (M, D) and of kinds of connections (T, D) -> (M, D)."""
        q, k, v = self.qkv(h).chunk(3, 1)  # each (M, D)
        source, target = (apart(ends, connections.counts) for ends in (connections.source, connections.target))
        scores = torch.cat(
            [
                self._scores(q, k, s, t, vector, connections.edges if kind == 0 else None)
                for kind, (s, t, vector) in enumerate(zip(source, target, self.edge(kinds), strict=True))
            ]
        )
        alpha = apart(segment_softmax(scores, connections.target, h.shape[0], connections.weight), connections.counts)
        out = torch.zeros_like(h)
        for s, t, share in zip(source, target, alpha, strict=True):
            out = out.index_add(0, t, self._per_head(v.index_select(0, s), share))
        return out

    def _scores(self, q: Tensor, k: Tensor, source: Tensor, target: Tensor, e: Tensor, edges: Tensor | None) -> Tensor:
        """Return sum_c q_ic k_jc e_ijc / sqrt(d) for the connections of one kind (K, H), clamped to [-5, 5]."""
        if edges is None:  # a shared vector multiplies the queries, which are fewer than the connections
            queries = (q * e).index_select(0, target)
        else:
            queries = q.index_select(0, target) * (e + self.edge(edges))
        scores = (queries * k.index_select(0, source)).unflatten(1, (self.heads, -1)).sum(-1)
        return (scores * (self.heads / q.shape[1]) ** 0.5).clamp(-LARGEST, LARGEST)

    def _per_head(self, rows: Tensor, share: Tensor) -> Tensor:
        """Multiply rows (K, D) by one number per head (K, H)."""
        return (rows.unflatten(1, (self.heads, -1)) * share[..., None]).flatten(1)


def segment_softmax(logits: Tensor, segment: Tensor, segments: int, weight: Tensor | None = None) -> Tensor:
    """Return the softmax of logits (K, H) over the rows of each segment (K,), with optional row weights (K,).

    The largest logit of a segment is subtracted first to avoid overflow. A segment whose weights are all 0 gets zeros.
    """
    index = segment[:, None].expand_as(logits)
    top = torch.full_like(logits[:1], -torch.inf).expand(segments, -1).scatter_reduce(0, index, logits.detach(), "amax")
    raised = (logits - top[segment]).exp()  # (K, H)
    if weight is not None:
        raised = raised * weight[:, None]
    total = torch.zeros_like(top).index_add(0, segment, raised)  # (S, H)
    return raised / total.clamp(min=1e-12)[segment]
