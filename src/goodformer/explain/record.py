"""Edge and node scores as plain values, for a file or another program."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from goodformer.explain.subgraph import node_scores, shades, subgraph_size, top_subgraph, true_edges


def edge_record(graph: Data, scores: Tensor, k: int | None = None) -> dict[str, Any]:
    """What was found in one graph, in the input's own node numbers.

    Args:
        graph: The graph.
        scores: Score of each of its directed edges, (E,).
        k: Undirected edges to choose; by default as many as are true, or a third where nobody knows.

    Returns:
        ``num_nodes``; ``edges``, each undirected edge once, best first, and their ``scores``, means of both directions;
        ``k``, how many of them are the chosen subgraph, and the ``subgraph_nodes`` these touch; ``node_scores``, one a
        node in the input's order, the mean over its edges, None without edge, and ``node_shades``, the same stretched
        to 0..1 for display; ``truth``, whether each edge is truly invariant, where that is known.
    """
    index, values = graph.edge_index.cpu(), scores.detach().float().cpu()
    nodes = int(graph.num_nodes or 0)
    ranked = top_subgraph(index, values, max(graph.num_edges, 1))
    chosen = min(subgraph_size(graph, k), len(ranked.scores))
    by_node = node_scores(index, values, nodes)
    record: dict[str, Any] = {
        "num_nodes": nodes,
        "edges": ranked.edges.T.tolist(),
        "scores": plain(ranked.scores),
        "k": chosen,
        "subgraph_nodes": ranked.edges[:, :chosen].unique().tolist(),
        "node_scores": plain(by_node),
        "node_shades": plain(shades(by_node)),
    }
    truth = true_edges(graph)
    return record if truth is None else {**record, "truth": truth[ranked.places].tolist()}


def plain(values: Tensor) -> list[float | None]:
    """Numbers for JSON, None for what is not one."""
    return [None if math.isnan(value) else round(value, 6) for value in values.double().tolist()]
