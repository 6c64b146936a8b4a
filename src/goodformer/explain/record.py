"""Edge scores as plain values, for a file or another program."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from goodformer.explain.subgraph import symmetric_scores


def edge_record(graph: Data, scores: Tensor) -> dict[str, Any]:
    """Every undirected edge with its score, best first, and whether it is truly invariant where that is known."""
    edges, mean = symmetric_scores(graph.edge_index, scores.detach().float().cpu())
    best = mean.argsort(descending=True, stable=True)
    record: dict[str, Any] = {
        "num_nodes": int(graph.num_nodes or 0),
        "edges": edges.T[best].tolist(),
        "scores": [round(score, 6) for score in mean[best].tolist()],
    }
    if graph.get("edge_truth") is not None:
        truth = symmetric_scores(graph.edge_index, graph.edge_truth.float())[1]
        record["truth"] = (truth[best] > 0.5).tolist()
    return record
