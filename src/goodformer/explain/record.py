"""Edge scores as plain values, for a file or another program."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from goodformer.explain.subgraph import top_subgraph, true_edges


def edge_record(graph: Data, scores: Tensor) -> dict[str, Any]:
    """Every undirected edge with its score, best first, and whether it is truly invariant where that is known."""
    ranked = top_subgraph(graph.edge_index.cpu(), scores.detach().float().cpu(), max(graph.num_edges, 1))
    record: dict[str, Any] = {
        "num_nodes": int(graph.num_nodes or 0),
        "edges": ranked.edges.T.tolist(),
        "scores": [round(score, 6) for score in ranked.scores.tolist()],
    }
    truth = true_edges(graph)
    return record if truth is None else {**record, "truth": truth[ranked.places].tolist()}
