"""From edge scores to a subgraph a person can look at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer.registry import InputError


@dataclass(frozen=True)
class Subgraph:
    """The best-scored part of one graph.

    Attributes:
        edges: Undirected edges, smaller node number first, best score first, (2, k).
        scores: The score of each of them, (k,).
        places: Which of the graph's undirected edges they are, as `symmetric_scores` numbers them, (k,).
    """

    edges: Tensor
    scores: Tensor
    places: Tensor

    @property
    def nodes(self) -> Tensor:
        """The nodes its edges touch, in ascending order."""
        nodes: Tensor = self.edges.unique()
        return nodes


def symmetric_scores(edge_index: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Each undirected edge once, (2, M), and the mean score of its directions, (M,)."""
    if edge_index.shape[-1] != scores.shape[0]:
        raise InputError(f"got {scores.shape[0]} scores for {edge_index.shape[-1]} edges; give one score an edge.")
    pairs = edge_index.sort(dim=0).values  # (2, E)
    edges, place = pairs.unique(dim=1, return_inverse=True)  # (2, M), (E,)
    total = scores.new_zeros(edges.shape[1]).index_add_(0, place, scores)  # (M,)
    return edges, total / torch.bincount(place, minlength=edges.shape[1]).clamp(min=1)


def true_edges(graph: Data) -> Tensor | None:
    """Whether each undirected edge, as `symmetric_scores` numbers them, is truly invariant, (M,); None if unknown."""
    if graph.get("edge_truth") is None:
        return None
    return symmetric_scores(graph.edge_index, graph.edge_truth.float())[1].cpu() > 0.5


def top_subgraph(edge_index: Tensor, scores: Tensor, k: int) -> Subgraph:
    """The subgraph of the ``k`` best undirected edges, all of them where there are fewer.

    Args:
        edge_index: Directed edges of one graph, (2, E).
        scores: Score of each directed edge, (E,); the two directions of an edge are averaged.
        k: Undirected edges to keep. Equal scores keep the order of the node numbers.
    """
    if k < 1:
        raise InputError(f"a subgraph of {k} edges is empty; ask for k = 1 or more.")
    edges, mean = symmetric_scores(edge_index, scores)
    best = mean.argsort(descending=True, stable=True)[:k]
    return Subgraph(edges[:, best], mean[best], best)
