"""Morgan environments: a code for the neighbourhood of each node at each radius.

Letters: N nodes, E directed edges, M undirected edges, R largest radius, B graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from goodformer.spec import Features, FeatureSpec
from goodformer.transforms.structure import Structure

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]

VERSION = 1
"""Increase this when the values change, so that cached encodings are recomputed."""

DROPPED = -1
"""Stands for an environment that repeats another one of its graph."""

MOLECULE = FeatureSpec(Features.categorical(119, 9, 11, 12, 9, 5, 8, 2, 2), Features.categorical(22, 6, 2))
"""Features of molecules, whose codes are those of RDKit; `goodformer.data.molecule.FEATURES` describes them."""
ELEMENT, DEGREE, CHARGE, HYDROGENS, RING = 0, 2, 3, 4, 8
"""Columns of the atom features that decide the code of radius 0."""
CHARGE_OFFSET = 5
CHUNK = 2**22
"""Entries of the sparse matrices of one chunk of nodes."""


def environments(graphs: Structure, width: int) -> Tensor:
    """Return a code for the environment of each node of radius r = 0 .. R, (N, R + 1), int64.

    The code of radius r hashes the node's own code of radius r - 1 and, for each neighbour, the features of the edge
    and the neighbour's code of radius r - 1, in sorted order. Codes lie in 0 .. 2^32 - 1 and do not depend on the order
    of nodes and edges. The code of radius 0 hashes the node's features: all columns of categorical features, and the
    degree alone for continuous or missing ones.

    An environment is `DROPPED` if its set of edges equals that of another one of its graph, of this or a smaller
    radius; larger radii of this node are then dropped, too. Of several nodes with the same set of edges, the one with
    the smallest code keeps it; among equal codes, the first node does. Nodes without edges have an environment of
    radius 0 only.

    Molecules have the identifiers of RDKit's Morgan generator up to radius 3, except for isotopes, which their features
    do not contain: element, degree, hydrogens, charge and ring membership of atoms, type of bonds.

    Paper: Rogers & Hahn, "Extended-Connectivity Fingerprints", 2010; the hash function is RDKit's.

    Args:
        graphs: The graphs.
        width: Largest radius R.
    """
    links = _links(graphs)
    codes = [_node_codes(graphs, links)]  # uint32 (N,) for each radius
    for radius in range(1, width + 1):
        codes.append(_wider(codes[-1], links, radius))
    kept = [codes[0].astype(np.int64)]
    alive = links.degree > 0  # (N,)
    seen = np.empty(0, dtype=np.uint64)
    for radius in range(1, width + 1):
        nodes = np.flatnonzero(alive)
        sets = _edge_sets(links, nodes, radius)  # uint64
        order = np.lexsort((codes[radius][nodes], sets))
        nodes, sets = nodes[order], sets[order]
        new = np.diff(sets, prepend=~sets[:1]) != 0  # the first node of each set
        new &= ~np.isin(sets, seen)
        alive[nodes] = new
        seen = np.concatenate([seen, sets[new]])
        kept.append(np.where(alive, codes[radius].astype(np.int64), DROPPED))
    return torch.from_numpy(np.stack(kept, 1)).to(graphs.edge_index.device)


def counts(codes: ArrayLike, ptr: ArrayLike, size: int) -> csr_array:
    """Return how often each code occurs in each graph, folded to code mod ``size``, (B, size), int64.

    For molecules this is RDKit's folded count fingerprint.

    Args:
        codes: Codes of `environments` (N, R + 1); pass fewer columns for a smaller radius.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        size: Number of columns.
    """
    table, bounds = np.asarray(codes), np.asarray(ptr)
    kept = table != DROPPED  # (N, R + 1)
    graph = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[:, None]  # (N, 1)
    places = np.broadcast_to(graph, table.shape)[kept], table[kept] % size
    found = csr_array((np.ones(int(kept.sum()), dtype=np.int64), places), shape=(len(bounds) - 1, size))
    found.sum_duplicates()
    return found


# Graphs ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Links:
    """Edges without self-loops, once in each direction, sorted by source.

    Attributes:
        source: Node whose neighbour is at the other end (E,).
        target: The neighbour (E,).
        code: Code of the edge's features (E,).
        degree: Number of neighbours of each node (N,).
        incidence: Boolean matrix of nodes and undirected edges (N, M).
        reach: Boolean matrix of nodes and their neighbours, with the nodes themselves (N, N).
    """

    source: Ints
    target: Ints
    code: Codes
    degree: Ints
    incidence: csr_array
    reach: csr_array


def _links(graphs: Structure) -> _Links:
    """Return the edges of simple, undirected graphs; of repeated edges the smallest code counts."""
    nodes = int(graphs.ptr[-1])
    u, v = graphs.edge_index.cpu().numpy()
    code = _edge_codes(graphs)
    there, back = np.concatenate([u, v]), np.concatenate([v, u])
    both = np.concatenate([code, code])
    order = np.lexsort((both, back, there))
    source, target, code = there[order], back[order], both[order]
    first = (source != target) & ((np.diff(source, prepend=-1) != 0) | (np.diff(target, prepend=-1) != 0))
    source, target, code = source[first], target[first], code[first]
    low, high = np.minimum(source, target), np.maximum(source, target)
    edge = np.unique(low * nodes + high, return_inverse=True)[1].reshape(-1)  # undirected edge of each directed one
    ones = np.ones(len(source), dtype=bool)
    adjacency = csr_array((ones, (source, target)), shape=(nodes, nodes))
    return _Links(
        source,
        target,
        code,
        np.bincount(source, minlength=nodes),
        csr_array((ones, (source, edge)), shape=(nodes, len(ones) // 2)),
        (adjacency + eye_array(nodes, dtype=bool, format="csr")).tocsr(),
    )


def _edge_codes(graphs: Structure) -> Codes:
    """Return the code of each edge's features (E,): the bond type of molecules, a hash of any other codes, or 1."""
    features, attr = graphs.features.edge, graphs.edge_attr
    if attr is None or features.kind != "categorical":
        return np.ones(graphs.edge_index.shape[1], dtype=np.uint32)
    values = attr.cpu().numpy().astype(np.uint32)
    return values[:, 0] if graphs.features == MOLECULE else _hashed(values.T)


def _node_codes(graphs: Structure, links: _Links) -> Codes:
    """Return the codes of radius 0, (N,)."""
    features, x = graphs.features.node, graphs.x
    if x is None or features.kind != "categorical":
        return _hashed(links.degree.astype(np.uint32)[None])
    values = x.cpu().numpy().astype(np.uint32).T  # (F, N)
    if graphs.features != MOLECULE:
        return _hashed(values)
    charge = values[CHARGE] - np.uint32(CHARGE_OFFSET)  # a negative charge wraps around, as it does in RDKit
    no_isotope = np.zeros_like(charge)
    plain = _hashed([values[ELEMENT], values[DEGREE], values[HYDROGENS], charge, no_isotope])
    return np.where(values[RING] > 0, _combined(plain, np.uint32(1)), plain)


# Hashing --------------------------------------------------------------------------------------------------------------


def _combined(seed: Codes, value: Codes | np.uint32) -> Codes:
    """Return the hash of a seed and one more value, the ``hash_combine`` of Boost and RDKit with 32 bits."""
    return seed ^ (value + np.uint32(0x9E3779B9) + (seed << np.uint32(6)) + (seed >> np.uint32(2)))


def _hashed(columns: npt.NDArray[np.uint32] | list[Codes]) -> Codes:
    """Return the hash of each row, given the columns (F, N) of the rows."""
    seed = np.zeros_like(columns[0])
    for column in columns:
        seed = _combined(seed, column)
    return seed


def _wider(code: Codes, links: _Links, radius: int) -> Codes:
    """Return the codes (N,) of the next radius."""
    pairs = links.code.astype(np.uint64) << np.uint64(32) | code[links.target]  # (E,), sorted by edge, then neighbour
    start = np.cumsum(links.degree) - links.degree  # (N,), first edge of each node
    wider = _combined(np.full_like(code, radius - 1), code)
    for degree in np.unique(links.degree):
        nodes = np.flatnonzero(links.degree == degree)
        around = np.sort(pairs[start[nodes][:, None] + np.arange(degree)], 1).T  # (degree, nodes)
        seed = wider[nodes]
        for pair in around:
            seed = _combined(seed, _hashed([(pair >> np.uint64(32)).astype(np.uint32), pair.astype(np.uint32)]))
        wider[nodes] = seed
    return wider


def _edge_sets(links: _Links, nodes: Ints, radius: int) -> npt.NDArray[np.uint64]:
    """Return a 64-bit number for each node's set of edges that start within ``radius`` - 1 steps, equal for equal sets.

    Every edge has a random number; that of a set is their sum. Nodes are taken in chunks of bounded memory.
    """
    draws = np.random.Generator(np.random.PCG64(0)).integers(2**64, size=links.incidence.shape[1], dtype=np.uint64)
    steps = [links.reach] * (radius - 1) + [links.incidence]
    entries = links.degree.astype(np.float64)  # (N,), at least as many as edges in the set
    for _ in range(radius - 1):
        entries = links.reach @ entries
    chunk = (np.cumsum(entries[nodes]) // CHUNK).astype(np.int64)
    found = []
    for start, stop in pairwise(np.searchsorted(chunk, np.arange(chunk[-1] + 2)) if len(chunk) else ()):
        near = steps[0][nodes[start:stop]]
        for step in steps[1:]:
            near = near @ step
        found.append(near @ draws)  # (n, M) @ (M,)
    return np.concatenate(found) if found else np.empty(0, dtype=np.uint64)
