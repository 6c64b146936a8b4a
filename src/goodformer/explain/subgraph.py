"""From edge scores to a subgraph a person can look at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.graphs import GraphSet
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


@dataclass(frozen=True)
class Undirected:
    """The undirected edges of many graphs, graph by graph, within a graph in the order of their node numbers.

    Attributes:
        number: Which undirected edge each directed edge is, (E,).
        graph: The graph of each undirected edge, (M,), ascending.
        counts: Undirected edges of each graph, (B,).
    """

    number: Tensor
    graph: Tensor
    counts: Tensor

    @classmethod
    def of(cls, graphs: GraphSet) -> Undirected:
        """Those of a set of graphs."""
        return cls.among(graphs.edge_index, graphs.node_ptr)

    @classmethod
    def among(cls, edge_index: Tensor, node_ptr: Tensor) -> Undirected:
        """Those of directed edges (2, E) in global node numbers, where graphs begin at ``node_ptr`` (B + 1,)."""
        low, high = edge_index.sort(dim=0).values  # (E,), (E,)
        nodes = max(int(node_ptr[-1]), 1)
        pairs, number = (low * nodes + high).unique(return_inverse=True)  # (M,), (E,)
        graph = torch.searchsorted(node_ptr, pairs // nodes, right=True) - 1
        return cls(number, graph, torch.bincount(graph, minlength=len(node_ptr) - 1))

    @property
    def start(self) -> Tensor:
        """The first undirected edge of each graph, (B,)."""
        return self.counts.cumsum(0) - self.counts

    def mean(self, scores: Tensor) -> Tensor:
        """The mean score of an edge's directions: (E,) -> (M,)."""
        total = scores.new_zeros(len(self.graph)).index_add_(0, self.number, scores)
        return total / torch.bincount(self.number, minlength=len(self.graph)).clamp(min=1)

    def best(self, values: Tensor, k: Tensor) -> Tensor:
        """True at the ``k`` (B,) best of each graph's undirected edges, (M,); equal values keep their order."""
        order = values.argsort(descending=True, stable=True)
        order = order[self.graph[order].argsort(stable=True)]  # by graph, within it from the best
        chosen = torch.zeros(len(values), dtype=torch.bool)
        chosen[order] = torch.arange(len(values)) - self.start[self.graph] < k[self.graph]
        return chosen


def symmetric_scores(edge_index: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Each undirected edge once, (2, M), and the mean score of its directions, (M,)."""
    if edge_index.shape[-1] != scores.shape[0]:
        raise InputError(f"got {scores.shape[0]} scores for {edge_index.shape[-1]} edges; give one score an edge.")
    pairs = edge_index.sort(dim=0).values  # (2, E)
    edges, place = pairs.unique(dim=1, return_inverse=True)  # (2, M), (E,)
    total = scores.new_zeros(edges.shape[1]).index_add_(0, place, scores)  # (M,)
    return edges, total / torch.bincount(place, minlength=edges.shape[1]).clamp(min=1)


def node_scores(edge_index: Tensor, scores: Tensor, nodes: int) -> Tensor:
    """A score for each node, (N,): the mean over its incident undirected edges of their scores; NaN where it has none.

    Args:
        edge_index: Directed edges of one graph, (2, E).
        scores: Score of each directed edge, (E,); the two directions of an edge are averaged first.
        nodes: Number of nodes N.
    """
    edges, mean = symmetric_scores(edge_index, scores)
    loops = edges[0] == edges[1]
    ends, values = torch.cat((edges[0], edges[1, ~loops])), torch.cat((mean, mean[~loops]))  # a loop touches one node
    total = values.new_zeros(nodes).index_add_(0, ends, values)
    return total / torch.bincount(ends, minlength=nodes)  # 0 / 0 is NaN: no edge, no score


def shades(values: Tensor) -> Tensor:
    """Values of one graph moved and stretched to 0..1, for display only; 0 where unknown or where all are equal."""
    known = values[~values.isnan()]
    if not len(known) or bool(known.max() == known.min()):
        return torch.zeros_like(values)
    return ((values - known.min()) / (known.max() - known.min())).nan_to_num(nan=0.0)


def true_edges(graph: Data) -> Tensor | None:
    """Whether each undirected edge, as `symmetric_scores` numbers them, is truly invariant, (M,); None if unknown."""
    if graph.get("edge_truth") is None:
        return None
    return symmetric_scores(graph.edge_index, graph.edge_truth.float())[1].cpu() > 0.5


def subgraph_size(graph: Data, k: int | None = None) -> int:
    """Undirected edges to choose: ``k``, by default as many as are true, or a third where nobody knows."""
    if k is not None:
        return k
    truth = true_edges(graph)
    if truth is not None:
        return int(truth.sum())
    return -(-graph.edge_index.sort(dim=0).values.unique(dim=1).shape[1] // 3)


def subgraph_sizes(graphs: GraphSet, k: int | None = None, undirected: Undirected | None = None) -> Tensor:
    """`subgraph_size` of every graph of a set, at most the edges it has, (B,)."""
    pairs = Undirected.of(graphs) if undirected is None else undirected
    if k is not None:
        return pairs.counts.clamp(max=k)
    if "truth" in graphs.edge:
        true = pairs.mean(graphs.edge["truth"].float()) > 0.5  # (M,)
        return torch.bincount(pairs.graph[true], minlength=len(graphs))
    return -(-pairs.counts // 3)


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
