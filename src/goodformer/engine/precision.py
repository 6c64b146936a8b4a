"""Agreement of edge scores with the true invariant subgraph: Precision@k, edge ROC-AUC and node scores."""

from __future__ import annotations

import torch
from torch import Tensor


def graph_precision(scores: Tensor, truth: Tensor, edge_graph: Tensor, graphs: int, k: int = 10) -> Tensor:
    """Return Precision@k of every graph, (B,); NaN for a graph without a true edge.

    This is the number of true edges among the ``k`` highest-scored directed edges, divided by ``k``. Edges that tie at
    rank ``k`` share the remaining places: their expected number of hits counts, so neither the order of the edges nor
    a constant score helps. A graph with fewer than ``k`` edges is divided by ``k``, too.

    Args:
        scores: Score of each directed edge, larger = more invariant, (E,).
        truth: Whether the edge is truly invariant, (E,).
        edge_graph: The graph each edge belongs to, (E,).
        graphs: Number of graphs B.
        k: Number of edges that count.
    """
    scores, truth = scores.double().nan_to_num(nan=-torch.inf), truth.double()
    count = torch.bincount(edge_graph, minlength=graphs)  # (B,)
    last = _kth_score(scores, edge_graph, count, k)[edge_graph]  # (E,)
    above, tied = (scores > last).double(), (scores == last).double()  # (E,)
    free = (k - _per_graph(above, edge_graph, graphs)).clamp(min=0)  # (B,)
    places = _per_graph(tied, edge_graph, graphs)  # (B,)
    share = (free / places.clamp(min=1)).clamp(max=1)  # (B,)
    hits = _per_graph(above * truth, edge_graph, graphs) + share * _per_graph(tied * truth, edge_graph, graphs)  # (B,)
    return torch.where(_per_graph(truth, edge_graph, graphs) > 0, hits / k, torch.nan)


def node_scores(scores: Tensor, edge_index: Tensor, nodes: int) -> Tensor:
    """Return the highest score of the edges at each node (N,); minus infinity for a node without edges.

    The highest and not the mean: a node belongs to the subgraph as soon as one of its edges does.

    Args:
        scores: Score of each directed edge, (E,).
        edge_index: Ends of the edges, (2, E).
        nodes: Number of nodes N.
    """
    lowest = scores.new_full((nodes,), -torch.inf)
    return lowest.scatter_reduce(0, edge_index.flatten(), scores.repeat(2), "amax")


def edge_auc(scores: Tensor, truth: Tensor) -> float:
    """Return the probability that a true edge or node outscores a false one; NaN if one kind is missing.

    Ties count half.
    """
    truth = truth.bool()
    positive, negative = int(truth.sum()), int((~truth).sum())
    if not positive or not negative:
        return float("nan")
    _, place, count = scores.double().unique(return_inverse=True, return_counts=True)
    rank = count.cumsum(0) - (count - 1) / 2  # the mean rank of equal scores
    total = float(rank[place[truth]].sum())
    return (total - positive * (positive + 1) / 2) / (positive * negative)


def _kth_score(scores: Tensor, edge_graph: Tensor, count: Tensor, k: int) -> Tensor:
    """Return the k-th highest score of each graph, or its lowest if it has fewer edges, (B,)."""
    order = scores.argsort(descending=True, stable=True)
    order = order[edge_graph[order].argsort(stable=True)]  # by graph, within it from the highest score
    start = count.cumsum(0) - count
    place = (start + count.clamp(max=k) - 1).clamp(min=0)  # an edgeless graph reads any score: no edge asks for it
    if not scores.numel():
        return scores.new_zeros(count.numel())
    return scores[order][place.clamp(max=scores.numel() - 1)]


def _per_graph(values: Tensor, edge_graph: Tensor, graphs: int) -> Tensor:
    """Sum edge values over each graph, (B,)."""
    return values.new_zeros(graphs).index_add_(0, edge_graph, values)
