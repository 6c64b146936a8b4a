"""From edge scores to the subgraph of the best edges.

How many edges are chosen follows from the scores, unless a number or a share is given. Edges with equal scores are
chosen or left together, so symmetric parts of a graph are marked alike. Letters: N nodes, E directed edges, M
undirected edges, B graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.engine.precision import node_scores
from goodformer.errors import InputError

Size = int | float | None
"""Size of a chosen subgraph: a number of edges, a share of them (below 1), or None for one that follows the scores."""
MOST = 0.5
"""Largest share of the edges that the scores choose by themselves."""
EQUAL = 1e-5
"""Share of the range of a graph's scores within which two of them count as equal."""


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

    def sizes(self, values: Tensor, k: Size = None, truth: Tensor | None = None) -> Tensor:
        """Return how many edges to choose in each graph, (B,); none if all scores of a graph are equal.

        Edges that score like the last chosen one are chosen, too.

        Args:
            values: Score of each undirected edge, (M,).
            k: A number of edges, or a share of them; by default the number of true edges if ``truth`` is known,
                otherwise Otsu's threshold: the cut into high and low scores with the largest variance between them.
            truth: Whether each directed edge belongs to the true subgraph, (E,).
        """
        order = self.ranked(values)
        row, graph = values[order].double(), self.graph[order]  # best first
        size = torch.arange(len(row)) - self.start[graph] + 1  # of a choice that ends here, (M,)

        def extreme(of: Tensor, how: str) -> Tensor:
            """Return the largest (amax) or smallest (amin) value of each graph, 0 without edges, (B,)."""
            return of.new_zeros(len(self.counts)).scatter_reduce_(0, graph, of, how, include_self=False)

        high, low = extreme(row, "amax"), extreme(row, "amin")  # (B,)
        ends = row - row.roll(-1) > EQUAL * (high - low)[graph]  # False within a group of equal scores
        ends |= size == self.counts[graph]
        if k is None and truth is None:
            mean = torch.zeros_like(high).index_add_(0, graph, row) / self.counts.clamp(min=1)
            sums = (row - mean[graph]).cumsum(0)  # restarts in each graph, whose centred scores add up to 0
            between = sums.square() / (size * (self.counts[graph] - size)).clamp(min=1)
            first = size == extreme(torch.where(ends, size, len(row)), "amin")[graph]
            allowed = ends & (size < self.counts[graph]) & ((size <= MOST * self.counts[graph]) | first)
            between = torch.where(allowed, between, -1.0)
            found = extreme(torch.where(between == extreme(between, "amax")[graph], size, 0), "amax")
        else:
            if k is None:
                assert truth is not None
                wanted = torch.bincount(self.graph[self.mean(truth.float()) > 0.5], minlength=len(self.counts))
            else:
                wanted = self.counts.clamp(max=k) if isinstance(k, int) else (self.counts * k).ceil().long()
            found = extreme(torch.where(ends & (size >= wanted[graph]), size, len(row)), "amin")
            found = torch.where(wanted > 0, found, 0)
        return torch.where(high - low > EQUAL * high.abs().maximum(low.abs()), found, 0)


@dataclass(frozen=True)
class ScoredEdges:
    """The undirected edges of one graph, in the order of their node numbers.

    Attributes:
        pairs: The edges.
        scores: Their scores, means of both directions, (M,).
        order: Their places from the best to the worst score; ties keep the order of the node numbers, (M,).
        size: Number of edges in the chosen subgraph, the first ones in ``order``.
        truth: Whether each belongs to the true subgraph, (M,); None if unknown.
    """

    pairs: Undirected
    scores: Tensor
    order: Tensor
    size: int
    truth: Tensor | None = None

    @property
    def ends(self) -> Tensor:
        """The two nodes of each edge, smaller number first, (2, M)."""
        return self.pairs.ends

    @property
    def chosen(self) -> Tensor:
        """Whether each edge is in the chosen subgraph, (M,)."""
        return torch.zeros(len(self.order), dtype=torch.bool).index_fill_(0, self.order[: self.size], True)

    @property
    def subgraph(self) -> Tensor:
        """The two nodes of each chosen edge, best score first, (2, size)."""
        return self.ends[:, self.order[: self.size]]

    @property
    def nodes(self) -> Tensor:
        """The nodes of the chosen edges, in ascending order."""
        nodes: Tensor = self.subgraph.unique()
        return nodes

    def node_scores(self, nodes: int) -> Tensor:
        """Return the score of each node, (N,); see `goodformer.engine.precision.node_scores`."""
        return node_scores(self.scores, self.ends, nodes)


def score_edges(edge_index: Tensor, scores: Tensor, k: Size = None, truth: Tensor | None = None) -> ScoredEdges:
    """Return the undirected edges of one graph with their scores and the chosen subgraph.

    Args:
        edge_index: Directed edges, (2, E).
        scores: One score per directed edge, (E,); the two directions are averaged.
        k: Number or share of undirected edges to choose, see `Undirected.sizes`.
        truth: Whether each directed edge belongs to the true subgraph, (E,).
    """
    if edge_index.shape[-1] != scores.shape[0]:
        raise InputError(f"got {scores.shape[0]} scores for {edge_index.shape[-1]} edges; give one score per edge.")
    index, values = edge_index.cpu(), scores.detach().cpu()
    truth = None if truth is None else truth.cpu()
    pairs = Undirected.among(index, torch.tensor([0, int(index.max()) + 1 if index.numel() else 1]))
    mean = pairs.mean(values)
    known = None if truth is None else pairs.mean(truth.float()) > 0.5
    return ScoredEdges(pairs, mean, pairs.ranked(mean), int(pairs.sizes(mean, k, truth)[0]), known)


def shades(values: Tensor) -> Tensor:
    """Return the values of one graph rescaled to 0..1 for display; 0 where a value is NaN or all are equal."""
    known = values[~values.isnan()]
    if not len(known) or bool(known.max() == known.min()):
        return torch.zeros_like(values)
    return ((values - known.min()) / (known.max() - known.min())).nan_to_num(nan=0.0)
