"""Duplicates: which graphs of a collection are equal.

Letters: N nodes, E edges, G graphs, F columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.readers.collection import Collection

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

INVARIANT = [0, 2, 3, 4, 7, 8]
"""Atom columns that are compared first; molecules that differ only in chirality are told apart by their SMILES."""
ROUNDS = 3
"""Radius of the neighbourhoods that are compared before molecules are."""


def same_molecules(collection: Collection) -> Ints | None:
    """Return a number for each molecule (G,), equal for equal molecules; None if the graphs are not molecules.

    Canonical SMILES are slow to write, so they are written only for molecules with equal atom neighbourhoods.
    """
    if collection.molecules is None:
        return None
    _, number, counts = np.unique(_surroundings(collection.graphs), return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[number] > 1)
    written = collection.molecules.subset(alike.tolist()).canonical()
    found = np.arange(len(collection))
    if len(alike):
        _, first, number = np.unique(np.array(written, dtype=object), return_index=True, return_inverse=True)
        found[alike] = alike[first[number]]
    return found


def same_graphs(collection: Collection) -> Ints:
    """Return a number for each graph (G,), equal for equal molecules or for identical other graphs."""
    molecules = same_molecules(collection)
    return np.unique(_as_written(collection.graphs), return_inverse=True)[1] if molecules is None else molecules


def _surroundings(graphs: GraphSet) -> Hashes:
    """Return a hash of each molecule that does not depend on the order of its atoms (G,)."""
    atom = _of_rows(graphs.node["x"][:, INVARIANT])  # (N,)
    source, target = graphs.edge_index.numpy()
    bond = _mixed(graphs.edge["attr"][:, 0].numpy().astype(np.uint64))  # (E,)
    for _ in range(ROUNDS):
        near = np.zeros_like(atom)
        np.add.at(near, target, _mixed(atom[source] + bond))
        atom = _mixed(atom + _mixed(near))
    return _sums(atom, graphs.node_ptr)


def _as_written(graphs: GraphSet) -> Hashes:
    """Return a hash of nodes, edges and features in their order (G,)."""
    found = _sums(_of_rows(graphs.node["x"], graphs.node_ptr), graphs.node_ptr)
    for value in (graphs.edge["index"].T, graphs.edge.get("attr")):
        if value is not None:
            found = _mixed(found) + _sums(_of_rows(value, graphs.edge_ptr), graphs.edge_ptr)
    return found


def _of_rows(values: Tensor, ptr: Tensor | None = None) -> Hashes:
    """Return a hash of each row of a table (N, F), including its position in its graph if ``ptr`` is given (N,)."""
    places = np.zeros(len(values), dtype=np.uint64)
    if ptr is not None:
        places = (np.arange(len(values)) - np.repeat(ptr[:-1].numpy(), ptr.diff().numpy())).astype(np.uint64)
    found = _mixed(places)
    for column in values.double().numpy().T:
        found = _mixed(found + (np.ascontiguousarray(column) + 0.0).view(np.uint64))  # -0.0 is 0.0
    return found


def _sums(values: Hashes, ptr: Tensor) -> Hashes:
    """Return the sum of the hashes of each graph (G,)."""
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(values, dtype=np.uint64)])
    return running[ptr[1:].numpy()] - running[ptr[:-1].numpy()]


def _mixed(values: Hashes) -> Hashes:
    """Spread every bit over all bits (the last steps of splitmix64)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
