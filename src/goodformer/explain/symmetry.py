"""Equal scores for symmetric edges: the three methyl groups of a tert-butyl group are marked alike.

Some inputs of models number symmetric nodes one after the other, for example Laplacian eigenvectors and Morgan
environments that are counted once. Letters: N nodes, E directed edges, B graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.nn.colours import mix


def even_scores(graphs: GraphSet, scores: Sequence[Tensor]) -> list[Tensor]:
    """Return for each graph its edge scores (E,), averaged over symmetric edges of the graph."""
    if not len(scores) or not int(graphs.edge_ptr[-1]):
        return list(scores)
    group = symmetric_edges(graphs)
    flat = torch.cat([score.double() for score in scores])
    total = flat.new_zeros(int(group.max()) + 1).index_add_(0, group, flat)
    return list((total / group.bincount())[group].split(graphs.edge_ptr.diff().tolist()))


def symmetric_edges(graphs: GraphSet) -> Tensor:
    """Return a number for each edge (E,), equal for the symmetric edges of a graph and for both directions of an edge.

    Edges are symmetric if colour refinement, which begins with the features of nodes and edges, cannot tell them apart.
    """
    start, end = graphs.edge_index
    graph = torch.repeat_interleave(graphs.sizes)  # (N,)
    kind = _hashed(graphs.edge["attr"]) if "attr" in graphs.edge else torch.zeros_like(start)
    colour = mix(graph * 2 + 1) + (_hashed(graphs.node["x"]) if "x" in graphs.node else 0)
    different = 0
    while different < (found := len(colour.unique())):  # refined until no further node differs
        different = found
        around = torch.zeros_like(colour).index_add(0, end, mix(mix(colour[start]) + kind))
        colour = mix(colour * 3 + around)
    return (mix(mix(colour[start]) + mix(colour[end])) + kind).unique(return_inverse=True)[1]


def _hashed(values: Tensor) -> Tensor:
    """Return an integer for each row of a table (N, F)."""
    table = values.view(len(values), -1)
    whole = (table.double() * 4096).round().long() if table.is_floating_point() else table.long()
    return mix((whole * mix(torch.arange(table.shape[1]) + 1)).sum(1))
