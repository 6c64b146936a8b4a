"""Edge and node scores as plain values for JSON."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from goodformer.explain.subgraph import score_edges, shades


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
    nodes = int(graph.num_nodes or 0)
    edges = score_edges(graph.edge_index, scores.float(), k, graph.get("edge_truth"))
    by_node = edges.node_scores(nodes)
    record: dict[str, Any] = {
        "num_nodes": nodes,
        "edges": edges.ends[:, edges.order].T.tolist(),
        "scores": plain(edges.scores[edges.order]),
        "k": edges.size,
        "subgraph_nodes": edges.nodes.tolist(),
        "node_scores": plain(by_node),
        "node_shades": plain(shades(by_node)),
    }
    return record if edges.truth is None else {**record, "truth": edges.truth[edges.order].tolist()}


def plain(values: Tensor) -> list[float | None]:
    """Return numbers for JSON, with None for NaN."""
    return [None if math.isnan(value) else round(value, 6) for value in values.double().tolist()]
