"""Attention along the edges of a sparse graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from goodformer.nn.layout import Layout

LARGEST = 5.0
"""Logits are kept between -5 and 5."""


@dataclass(frozen=True)
class Connections:
    """Who attends to whom among the N nodes of a batch and the V virtual nodes of each graph, which come after them.

    Attributes:
        source, target: Who is seen and who sees, (K,), one kind of connection after the other.
        counts: Connections of each kind: the graph's own edges, extra edges, from nodes to the first, second, ...
            virtual node, and from these to nodes; T in all.
        edges: Vectors of the graph's own edges, (E, D); None where edges carry nothing.
        weight: How much a connection counts, (K,); None where all count alike.
    """

    source: Tensor
    target: Tensor
    counts: tuple[int, ...]
    edges: Tensor | None
    weight: Tensor | None


def connect(
    layout: Layout, extra: Tensor, virtual: int, edges: Tensor | None = None, edge_weight: Tensor | None = None
) -> Connections:
    """The graph's own edges, extra ones (2, X), and each of ``virtual`` nodes to and from all nodes of its graph."""
    device, n = layout.graph.device, layout.num_nodes
    nodes = torch.arange(n, device=device).repeat(virtual)  # (V * N,)
    number = torch.arange(virtual, device=device)[:, None]  # (V, 1)
    hubs = (n + layout.graph * virtual + number).flatten()
    counts = (layout.src.numel(), extra.shape[1], *[n] * 2 * virtual)
    ones = None if edge_weight is None else edge_weight.new_ones(sum(counts[1:]))
    return Connections(
        source=torch.cat((layout.src, extra[0], nodes, hubs)),
        target=torch.cat((layout.dst, extra[1], hubs, nodes)),
        counts=counts,
        edges=edges,
        weight=None if edge_weight is None or ones is None else torch.cat((edge_weight, ones)),
    )


class SparseAttention(nn.Module):
    """out_i = sum_j alpha_ij v_j over connections j -> i, alpha = softmax_j(clamp(sum_c q_ic k_jc e_ijc / sqrt(d))).

    Queries, keys, values and edge vectors e are linear in node and connection vectors, without bias, H heads of width
    d, and heads are joined without a further projection. A connection of weight w counts w times.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.edge = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, h: Tensor, connections: Connections, kinds: Tensor) -> Tensor:
        """Vectors of nodes and virtual nodes (M, D) and of kinds of connections (T, D) -> (M, D)."""
        q, k, v = self.qkv(h).chunk(3, 1)  # each (M, D)
        source, target = (ends.split(connections.counts) for ends in (connections.source, connections.target))
        scores = torch.cat(
            [
                self._scores(q, k, s, t, vector, connections.edges if kind == 0 else None)
                for kind, (s, t, vector) in enumerate(zip(source, target, self.edge(kinds), strict=True))
            ]
        )
        alpha = segment_softmax(scores, connections.target, len(h), connections.weight).split(connections.counts)
        out = torch.zeros_like(h)
        for s, t, share in zip(source, target, alpha, strict=True):
            out = out.index_add(0, t, self._per_head(v.index_select(0, s), share))
        return out

    def _scores(self, q: Tensor, k: Tensor, source: Tensor, target: Tensor, e: Tensor, edges: Tensor | None) -> Tensor:
        """sum_c q_ic k_jc e_ijc / sqrt(d) of the connections of one kind (K, H), between -5 and 5."""
        if edges is None:  # one vector for all is put into the queries, of which there are fewer than connections
            queries = (q * e).index_select(0, target)
        else:
            queries = q.index_select(0, target) * (e + self.edge(edges))
        scores = (queries * k.index_select(0, source)).unflatten(1, (self.heads, -1)).sum(-1)
        return (scores * (self.heads / q.shape[1]) ** 0.5).clamp(-LARGEST, LARGEST)

    def _per_head(self, rows: Tensor, share: Tensor) -> Tensor:
        """Rows (K, D) times a number for each head (K, H)."""
        return (rows.unflatten(1, (self.heads, -1)) * share[..., None]).flatten(1)


def segment_softmax(logits: Tensor, segment: Tensor, segments: int, weight: Tensor | None = None) -> Tensor:
    """Softmax of logits (K, H) over the rows of each segment (K,), each row counting ``weight`` times (K,) if given.

    The largest logit of a segment is taken off first, so that none is too large to be raised to a power. A segment
    whose rows all have weight 0 gets zeros.
    """
    index = segment[:, None].expand_as(logits)
    top = torch.full_like(logits[:1], -torch.inf).expand(segments, -1).scatter_reduce(0, index, logits.detach(), "amax")
    raised = (logits - top[segment]).exp()  # (K, H)
    if weight is not None:
        raised = raised * weight[:, None]
    total = torch.zeros_like(top).index_add(0, segment, raised)  # (S, H)
    return raised / total.clamp(min=1e-12)[segment]
