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
    """Return the mean of the highest and the average score of the edges at each node (N,); NaN for one without edges.

    A node of the subgraph may have most of its edges outside, which lowers the average; a node outside may have one
    edge to the subgraph, which raises the highest. On validation graphs of ``molecule-rules``, for GOODFormer and for
    the blend, the mean of both has a higher node ROC-AUC than either; for the forest the average is as good.

    Args:
        scores: Score of each edge, (E,).
        edge_index: Ends of the edges, (2, E); it may hold every edge once, or both of its directions.
        nodes: Number of nodes N.
    """
    other = edge_index[0] != edge_index[1]  # a self-loop counts once
    ends, each = torch.cat((edge_index[0], edge_index[1, other])), torch.cat((scores, scores[other]))
    average = scores.new_zeros(nodes).index_add_(0, ends, each) / torch.bincount(ends, minlength=nodes)
    return (scores.new_zeros(nodes).scatter_reduce_(0, ends, each, "amax", include_self=False) + average) / 2


def edge_auc(scores: Tensor, truth: Tensor) -> float:
    """Return the probability that a true edge or node outscores a false one; NaN if one kind is missing.

    Ties count half. Whatever has no score (NaN) is below everything else.
    """
    scores, truth = scores.double().nan_to_num(nan=-torch.inf), truth.bool()
    positive, negative = int(truth.sum()), int((~truth).sum())
    if not positive or not negative:
        return float("nan")
    _, place, count = scores.unique(return_inverse=True, return_counts=True)
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
