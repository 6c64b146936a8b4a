"""Edge and node scores as plain values for JSON."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from goodformer.explain.subgraph import node_scores, shades, subgraph_size, top_subgraph, true_edges


def edge_record(graph: Data, scores: Tensor, k: int | None = None) -> dict[str, Any]:
    """Return the scores of one graph, in the node numbers of the input.

    Args:
        graph: The graph.
        scores: One score per directed edge, (E,).
        k: Undirected edges to choose; by default the number of true edges if known, otherwise one third of the edges.

    Returns:
        ``num_nodes``; ``edges``, each undirected edge once, best first, and their ``scores``, means of both directions;
        ``k``, the number of edges in the chosen subgraph, and its ``subgraph_nodes``; ``node_scores``, the mean score
        of the edges at each node (None without edges), and ``node_shades``, the same rescaled to 0..1 for display;
        ``truth``, whether each edge belongs to the true subgraph, where known.
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
    """Return numbers for JSON, with None for NaN."""
    return [None if math.isnan(value) else round(value, 6) for value in values.double().tolist()]
