"""Duplicates: which graphs of a collection are equal.

Letters: N nodes, E edges, G graphs, F columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.hashes import Hashes, hash_graphs, hash_rows, mix, sums
from goodformer.data.readers.collection import Collection

Ints = npt.NDArray[np.int64]

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


def row_keys(collection: Collection) -> Tensor:
    """Return a hash of the graph of each row (R,), by which a saved split knows its rows again; 0 without a graph."""
    found = hash_graphs(collection.graphs) if collection.molecules is None else _surroundings(collection.graphs)
    keys = torch.zeros(collection.count, dtype=torch.long)
    keys[collection.rows] = torch.from_numpy((found >> np.uint64(32)).astype(np.int64))
    return keys


def same_graphs(collection: Collection) -> Ints:
    """Return a number for each graph (G,), equal for equal molecules or for identical other graphs."""
    molecules = same_molecules(collection)
    return np.unique(hash_graphs(collection.graphs), return_inverse=True)[1] if molecules is None else molecules


def _surroundings(graphs: GraphSet) -> Hashes:
    """Return a hash of each molecule that does not depend on the order of its atoms (G,)."""
    atom = hash_rows(graphs.node["x"][:, INVARIANT])  # (N,)
    source, target = graphs.edge_index.numpy()
    bond = mix(graphs.edge["attr"][:, 0].numpy().astype(np.uint64))  # (E,)
    for _ in range(ROUNDS):
        near = np.zeros_like(atom)
        np.add.at(near, target, mix(atom[source] + bond))
        atom = mix(atom + mix(near))
    return sums(atom, graphs.node_ptr)
