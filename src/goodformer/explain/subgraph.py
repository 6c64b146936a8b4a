"""From edge scores to the subgraph of the best edges.

Letters: N nodes, E directed edges, M undirected edges, B graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.graphs import GraphSet
from goodformer.registry import InputError


@dataclass(frozen=True)
class Undirected:
    """The undirected edges of many graphs, graph by graph, within a graph in the order of their node numbers.

    Attributes:
        ends: The two nodes of each undirected edge, smaller number first, (2, M).
        number: The undirected edge of each directed edge, (E,).
        graph: The graph of each undirected edge, (M,), ascending.
        counts: Undirected edges of each graph, (B,).
    """

    ends: Tensor
    number: Tensor
    graph: Tensor
    counts: Tensor

    @classmethod
    def of(cls, graphs: GraphSet) -> Undirected:
        """Return the undirected edges of a set of graphs, in global node numbers."""
        return cls.among(graphs.edge_index, graphs.node_ptr)

    @classmethod
    def among(cls, edge_index: Tensor, node_ptr: Tensor) -> Undirected:
        """Return those of directed edges (2, E) in global node numbers; graphs begin at ``node_ptr`` (B + 1,)."""
        low, high = edge_index.sort(dim=0).values  # (E,), (E,)
        nodes = max(int(node_ptr[-1]), 1)
        codes, number = (low * nodes + high).unique(return_inverse=True)  # (M,), (E,)
        ends = torch.stack((codes // nodes, codes % nodes))
        graph = torch.searchsorted(node_ptr, ends[0], right=True) - 1
        return cls(ends, number, graph, torch.bincount(graph, minlength=len(node_ptr) - 1))

    @property
    def start(self) -> Tensor:
        """The first undirected edge of each graph, (B,)."""
        return self.counts.cumsum(0) - self.counts

    def mean(self, scores: Tensor) -> Tensor:
        """Return the mean score of the directions of each edge: (E,) -> (M,)."""
        total = scores.new_zeros(len(self.graph)).index_add_(0, self.number, scores)
        return total / torch.bincount(self.number, minlength=len(self.graph)).clamp(min=1)

    def ranked(self, values: Tensor) -> Tensor:
        """Return the places of all undirected edges, graph by graph, best value first; ties keep their order, (M,)."""
        order = values.argsort(descending=True, stable=True)
        return order[self.graph[order].argsort(stable=True)]

    def best(self, values: Tensor, k: Tensor) -> Tensor:
        """Return True at the ``k`` (B,) best undirected edges of each graph, (M,)."""
        chosen = torch.zeros(len(values), dtype=torch.bool)
        chosen[self.ranked(values)] = torch.arange(len(values)) - self.start[self.graph] < k[self.graph]
        return chosen

    def sizes(self, k: int | None = None, truth: Tensor | None = None) -> Tensor:
        """Return how many edges to choose in each graph, (B,).

        Args:
            k: The number for every graph, at most the edges it has; by default the number of true edges if ``truth``
                is known, otherwise one third of the edges.
            truth: Whether each directed edge belongs to the true subgraph, (E,).
        """
        if k is not None:
            return self.counts.clamp(max=k)
        if truth is not None:
            return torch.bincount(self.graph[self.mean(truth.float()) > 0.5], minlength=len(self.counts))
        return -(-self.counts // 3)

    def node_means(self, values: Tensor, nodes: int) -> Tensor:
        """Return the mean value of the undirected edges at each node, (N,); NaN for a node without edges."""
        other = self.ends[0] != self.ends[1]  # a self-loop counts once
        ends, each = torch.cat((self.ends[0], self.ends[1, other])), torch.cat((values, values[other]))
        return values.new_zeros(nodes).index_add_(0, ends, each) / torch.bincount(ends, minlength=nodes)


@dataclass(frozen=True)
class Subgraph:
    """The best-scored part of one graph.

    Attributes:
        edges: Undirected edges, smaller node number first, best score first, (2, k).
        scores: Their scores, (k,).
        places: Their places among the undirected edges of the graph, (k,).
    """

    edges: Tensor
    scores: Tensor
    places: Tensor

    @property
    def nodes(self) -> Tensor:
        """The nodes of its edges, in ascending order."""
        nodes: Tensor = self.edges.unique()
        return nodes


def top_subgraph(edge_index: Tensor, scores: Tensor, k: int) -> Subgraph:
    """Return the subgraph of the ``k`` best undirected edges of one graph, or of all edges if there are fewer.

    Args:
        edge_index: Directed edges, (2, E).
        scores: One score per directed edge, (E,); the two directions are averaged.
        k: Undirected edges to keep. Ties keep the order of the node numbers.
    """
    if k < 1:
        raise InputError(f"k = {k} selects no edge; give k = 1 or more.")
    pairs = _of_one(edge_index, scores)
    mean = pairs.mean(scores)
    best = pairs.ranked(mean)[:k]
    return Subgraph(pairs.ends[:, best], mean[best], best)


def symmetric_scores(edge_index: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return each undirected edge of one graph once, (2, M), and the mean score of its directions, (M,)."""
    pairs = _of_one(edge_index, scores)
    return pairs.ends, pairs.mean(scores)


def node_scores(edge_index: Tensor, scores: Tensor, nodes: int) -> Tensor:
    """Return the mean score of the undirected edges at each node of one graph, (N,); NaN for a node without edges."""
    pairs = _of_one(edge_index, scores)
    return pairs.node_means(pairs.mean(scores), nodes)


def true_edges(graph: Data) -> Tensor | None:
    """Return whether each undirected edge of a graph belongs to the true subgraph, (M,); None if unknown."""
    if graph.get("edge_truth") is None:
        return None
    return symmetric_scores(graph.edge_index, graph.edge_truth.float())[1].cpu() > 0.5


def subgraph_size(graph: Data, k: int | None = None) -> int:
    """Return how many undirected edges to choose in one graph, see `Undirected.sizes`; ``k`` itself if given."""
    if k is not None:
        return k
    truth = graph.get("edge_truth")
    return int(_of_one(graph.edge_index, truth).sizes(None, truth)[0])


def shades(values: Tensor) -> Tensor:
    """Return the values of one graph rescaled to 0..1 for display; 0 where a value is NaN or all are equal."""
    known = values[~values.isnan()]
    if not len(known) or bool(known.max() == known.min()):
        return torch.zeros_like(values)
    return ((values - known.min()) / (known.max() - known.min())).nan_to_num(nan=0.0)


def _of_one(edge_index: Tensor, scores: Tensor | None) -> Undirected:
    """Return the undirected edges of one graph; raise if scores do not match the edges."""
    if scores is not None and edge_index.shape[-1] != scores.shape[0]:
        raise InputError(f"got {scores.shape[0]} scores for {edge_index.shape[-1]} edges; give one score per edge.")
    nodes = int(edge_index.max()) + 1 if edge_index.numel() else 1
    return Undirected.among(edge_index, torch.tensor([0, nodes], device=edge_index.device))
