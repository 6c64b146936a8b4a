"""Graphs to compute encodings of, and their plain matrices."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor


def packed(graphs: list[nx.Graph]) -> tuple[Tensor, Tensor]:
    """Global edges (2, E), both directions, and node bounds (B + 1,)."""
    ptr = np.cumsum([0, *(graph.number_of_nodes() for graph in graphs)])
    edges = [(u + low, v + low) for graph, low in zip(graphs, ptr, strict=False) for u, v in graph.to_directed().edges]
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T.contiguous(), torch.from_numpy(ptr)


def awkward() -> list[nx.Graph]:
    """Single nodes, edgeless, disconnected, tiny, symmetric and larger graphs, sizes mixed."""
    return [
        nx.empty_graph(1),
        nx.ladder_graph(9),
        nx.empty_graph(4),
        nx.path_graph(2),
        nx.disjoint_union(nx.cycle_graph(5), nx.disjoint_union(nx.path_graph(3), nx.empty_graph(1))),
        nx.star_graph(11),
        nx.complete_graph(6),
        nx.empty_graph(1),
        nx.wheel_graph(12),
        nx.balanced_tree(2, 3),
        nx.gnp_random_graph(40, 0.1, seed=3),
        nx.cycle_graph(3),
    ]


@st.composite
def random_graph(draw: st.DrawFn, most: int = 9) -> nx.Graph:
    """Any simple graph of 1 to ``most`` nodes."""
    n = draw(st.integers(1, most))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    graph = nx.empty_graph(n)
    graph.add_edges_from(pair for pair in pairs if draw(st.booleans()))
    return graph
