"""Equal scores for symmetric edges: the three methyl groups of a tert-butyl group are marked alike.

Some inputs of models number symmetric nodes one after the other, for example Laplacian eigenvectors and Morgan
environments that are counted once. Letters: N nodes, E directed edges, B graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.hashes import Hashes, hash_rows, mix


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
    start, end = graphs.edge_index.numpy()
    graph = torch.repeat_interleave(graphs.sizes).numpy().astype(np.uint64)  # (N,)
    kind = _hashed(graphs.edge.get("attr"), len(start))
    colour = mix(mix(graph) + _hashed(graphs.node.get("x"), len(graph)))
    different = 0
    while different < (found := len(np.unique(colour))):  # refined until no further node differs
        different = found
        around = np.zeros_like(colour)
        np.add.at(around, end, mix(mix(colour[start]) + kind))
        colour = mix(mix(colour) + around)
    both = mix(mix(colour[start]) + mix(colour[end]) + kind)
    return torch.from_numpy(np.unique(both, return_inverse=True)[1])


def _hashed(values: Tensor | None, rows: int) -> Hashes:
    """Return a hash of each row of a table (N, F); all are equal without a table."""
    return np.zeros(rows, dtype=np.uint64) if values is None else hash_rows(values.reshape(rows, -1))
