"""Hashes of graphs and of their nodes: the same on every machine, computed without a loop over graphs.

Letters: N nodes, E edges, G graphs, F columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from goodformer.data.graphs import GraphSet

Hashes = npt.NDArray[np.uint64]


def hash_graphs(graphs: GraphSet) -> Hashes:
    """Return a hash of nodes, edges and features in their order (G,)."""
    found = sums(hash_rows(graphs.node["x"], graphs.node_ptr), graphs.node_ptr)
    for value in (graphs.edge["index"].T, graphs.edge.get("attr")):
        if value is not None:
            found = mix(found) + sums(hash_rows(value, graphs.edge_ptr), graphs.edge_ptr)
    return found


def hash_rows(values: Tensor, ptr: Tensor | None = None) -> Hashes:
    """Return a hash of each row of a table (N, F), including its position in its graph if ``ptr`` is given (N,)."""
    places = np.zeros(len(values), dtype=np.uint64)
    if ptr is not None:
        places = (np.arange(len(values)) - np.repeat(ptr[:-1].numpy(), ptr.diff().numpy())).astype(np.uint64)
    found = mix(places)
    for column in values.double().numpy().T:
        found = mix(found + (np.ascontiguousarray(column) + 0.0).view(np.uint64))  # -0.0 is 0.0
    return found


def sums(values: Hashes, ptr: Tensor) -> Hashes:
    """Return the sum of the hashes of each graph (G,)."""
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(values, dtype=np.uint64)])
    return running[ptr[1:].numpy()] - running[ptr[:-1].numpy()]


def mix(values: Hashes) -> Hashes:
    """Spread every bit over all bits (the last steps of splitmix64)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
