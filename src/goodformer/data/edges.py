"""The one rule by which edges are stored: each of them once in each direction, and no loops.

A loop is no edge between two nodes: models look at every node itself anyway, and an explanation cannot leave it out
without leaving out the node.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def each_way_once(edges: Ints, nodes: int) -> tuple[Ints, Bools]:
    """Which of the written edges (2, e) are stored, and which of these the other way round (E,).

    Loops are left out, and of edges written more than once all but the first. Those in the direction they are written
    in come first, in their order; then those of which one direction alone is written, turned round.

    Args:
        edges: Ends of the edges as written.
        nodes: Number of nodes, all ends lie below it.
    """
    u, v = edges
    there, back = u * max(nodes, 1) + v, v * max(nodes, 1) + u  # (e,)
    first = np.unique(there, return_index=True)[1]
    once = np.sort(first[u[first] != v[first]])
    alone = once[~np.isin(back[once], there)]
    return np.concatenate([once, alone]), np.arange(len(once) + len(alone)) >= len(once)
