"""Shortest-path distances and path features, computed for a whole batch at once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from goodformer.limits import limit
from goodformer.nn.layout import Layout

# index_reduce is the only reduction of bytes in torch; it warns once per process that its interface may change.
warnings.filterwarnings("ignore", message=r"index_reduce\(\) is in beta")


def hop_distances(layout: Layout, cap: int, keep: Tensor | None = None) -> Tensor:
    """Return the hops between all nodes of each graph, (N, n): row = target, column = index of the source in its graph.

    A breadth-first search moves along all edges of all graphs, at most ``cap`` times. Pairs farther apart count as
    ``cap``; disconnected pairs and the columns of padding as ``cap + 1``.

    Args:
        layout: Positions of nodes and edges.
        cap: The largest distance that is distinguished, at most 250.
        keep: Mask of the edges to use, (E,); all by default.
    """
    if layout.positions is not None:
        return _dense_distances(layout, cap, keep)
    src, dst = (layout.src, layout.dst) if keep is None else (layout.src[keep], layout.dst[keep])
    # Bytes, because the search reads and writes its (E, n) entries at every hop.
    hops = torch.full((layout.num_nodes, layout.width), cap + 1, dtype=torch.uint8, device=src.device)
    hops.scatter_(1, layout.local[:, None], 0)
    front = hops == 0
    for hop in range(1, cap + 1):
        around = front.byte().index_select(0, src)  # (E, n)
        front = torch.zeros_like(hops).index_reduce_(0, dst, around, "amax").bool() & (hops > cap)
        if not front.any():
            return hops.long()
        hops.masked_fill_(front, hop)
    far = same_component(layout, src, dst) & (hops > cap)
    return hops.masked_fill_(far, cap).long()


def _dense_distances(layout: Layout, cap: int, keep: Tensor | None) -> Tensor:
    """Return the same by products of adjacency matrices, for a layout of one bucket: no shape depends on a value."""
    n, device = layout.width, layout.src.device
    there = torch.ones(layout.src.shape, device=device) if keep is None else keep.float()
    pair = (layout.graph[layout.dst] * n + layout.local[layout.dst]) * n + layout.local[layout.src]
    step = torch.zeros(layout.num_graphs * n * n, device=device).index_add(0, pair, there).view(-1, n, n).clamp(max=1)
    reached = torch.eye(n, device=device).expand_as(step)  # 1 where a row can be reached from a column
    hops = ((1 - reached) * (cap + 1)).long()
    for hop in range(1, cap + 1):
        reached = (reached + step @ reached).clamp(max=1)
        hops = torch.where((reached > 0) & (hops > cap), hop, hops)
    joined = (reached + step.transpose(1, 2)).clamp(max=1)
    joined = (joined + joined.transpose(1, 2)).clamp(max=1)
    for _ in range(limit("attention").bit_length()):  # each product doubles the length of the paths
        joined = (joined @ joined).clamp(max=1)
    return layout.unpad([torch.where((joined > 0) & (hops > cap), cap, hops)])


def same_component(layout: Layout, src: Tensor, dst: Tensor) -> Tensor:
    """Return whether two nodes of a graph are connected by the given edges, ignoring their direction, (N, n)."""
    label = components(layout.num_nodes, src, dst)
    table = label.new_full((layout.num_graphs, layout.width), -1)  # -1 where there is no node
    table[layout.graph, layout.local] = label
    return table[layout.graph] == label[:, None]


def components(nodes: int, src: Tensor, dst: Tensor) -> Tensor:
    """Return the smallest node number in the connected component of every node (N,).

    Each round takes the smallest label among neighbours and then follows labels once, which halves path lengths.
    """
    label = torch.arange(nodes, device=src.device)
    while True:
        lower = label.scatter_reduce(0, dst, label[src], "amin").scatter_reduce(0, src, label[dst], "amin")
        lower = lower[lower]
        if torch.equal(lower, label):
            return label
        label = lower


def path_means(edges: Tensor, maps: Tensor, hops: Tensor, layout: Layout, keep: Tensor | None = None) -> Tensor:
    """Return (1/d) sum_k W_k e_k over the k-th edges of a shortest path of d hops, (N, n, H); 0 beyond K hops.

    If several edges end a shortest path, their mean is used, so the result does not depend on node numbering.

    Args:
        edges: Edge features e, (E, H).
        maps: W_k of the first, second, ... edge of a path, (K, H, H).
        hops: Distances from `hop_distances`, (N, n).
        layout: Positions of nodes and edges.
        keep: Mask of the edges to use, (E,); all by default.
    """
    there = torch.ones_like(layout.src, dtype=torch.bool) if keep is None else keep
    total = sums = edges.new_zeros(*hops.shape, edges.shape[1])  # (N, n, H)
    before, after = hops[layout.src], hops[layout.dst]  # (E, n)
    for hop, matrix in enumerate(maps.unbind(0), start=1):
        # Edges that end a shortest path of this many hops, (E, n).
        last = ((before == hop - 1) & (after == hop) & there[:, None]).to(edges)
        ways = (sums[layout.src] + (edges @ matrix)[:, None]) * last[..., None]  # (E, n, H)
        count = edges.new_zeros(hops.shape).index_add(0, layout.dst, last).clamp(min=1)
        sums = torch.zeros_like(sums).index_add(0, layout.dst, ways) / count[..., None]
        total = total + sums / hop
    return total
