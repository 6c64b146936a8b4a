"""Stability: whether trainings that differ in their seed only explain the same graphs by the same edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.explain.fidelity import joined_scores
from goodformer.explain.subgraph import Undirected, subgraph_sizes
from goodformer.registry import InputError


@dataclass(frozen=True)
class Agreement:
    """How far several sets of scores agree on each of B graphs, means over all pairs of sets.

    Attributes:
        correlation: Spearman's rank correlation of the scores of undirected edges, (B,); NaN where a graph has fewer
            than two edges or a set scores all of them alike.
        overlap: Jaccard index of the chosen edges, common ones over all, (B,); NaN where none is chosen.
        chance: What the overlap of random choices of the same size would be on average, (B,).
    """

    correlation: Tensor
    overlap: Tensor
    chance: Tensor

    def summary(self) -> dict[str, float | int | None]:
        """Means over the graphs for which each is defined, as plain values."""
        figures = {"correlation": self.correlation, "overlap": self.overlap, "chance": self.chance}
        known = {name: values[~values.isnan()] for name, values in figures.items()}
        means = {name: round(float(values.mean()), 6) if len(values) else None for name, values in known.items()}
        return {"graphs": len(known["correlation"]), **means}


def agreement(graphs: GraphSet, runs: Sequence[Sequence[Tensor]], k: int | None = None) -> Agreement:
    """Compare two or more sets of scores of the same graphs.

    Args:
        graphs: The graphs.
        runs: For each run and graph a score of each directed edge, (E,); directions are averaged.
        k: Undirected edges to choose; by default as many as are true, or a third where nobody knows.
    """
    if len(runs) < 2:
        raise InputError(f"agreement was asked of {len(runs)} set of scores; give two or more, from different seeds.")
    pairs = Undirected.of(graphs)
    sizes = subgraph_sizes(graphs, k, pairs)
    values = [pairs.mean(joined_scores(graphs, scores)) for scores in runs]  # each (M,)
    ranks = [standard_ranks(one, pairs) for one in values]
    chosen = [pairs.best(one, sizes).double() for one in values]
    correlation = [_sums(a * b, pairs) / pairs.counts for a, b in combinations(ranks, 2)]
    overlap = [_sums(a * b, pairs) / _sums((a + b).clamp(max=1), pairs) for a, b in combinations(chosen, 2)]
    return Agreement(torch.stack(correlation).mean(0), torch.stack(overlap).mean(0), chance(pairs.counts, sizes))


def standard_ranks(values: Tensor, pairs: Undirected) -> Tensor:
    """Ranks of undirected edges within their graph, ties at their mean rank, brought to mean 0 and variance 1, (M,)."""
    order = values.argsort(stable=True)
    order = order[pairs.graph[order].argsort(stable=True)]  # by graph, within it from the lowest
    row, graph = values[order], pairs.graph[order]
    new = torch.ones(len(row), dtype=torch.bool)
    new[1:] = (row[1:] != row[:-1]) | (graph[1:] != graph[:-1])
    tie = new.cumsum(0) - 1  # (M,)
    place = torch.arange(len(row), dtype=torch.double)
    mean_place = torch.zeros(int(new.sum()), dtype=torch.double).index_add_(0, tie, place) / torch.bincount(tie)
    ranks = torch.empty(len(row), dtype=torch.double)
    ranks[order] = mean_place[tie]
    centred = ranks - (_sums(ranks, pairs) / pairs.counts)[pairs.graph]
    spread = (_sums(centred.square(), pairs) / pairs.counts).sqrt()  # (B,)
    return centred / spread[pairs.graph]  # 0 / 0 is NaN: no order, no correlation


def chance(counts: Tensor, sizes: Tensor) -> Tensor:
    """Expected Jaccard index of two random choices of ``sizes`` (B,) among ``counts`` (B,) edges, (B,); NaN for none.

    E = sum over i of P(i in common) i / (2k - i), P hypergeometric.
    """
    most = int(sizes.max()) if len(sizes) else 0
    k, m = sizes.double()[:, None], counts.double()[:, None]  # (B, 1)
    common = torch.arange(most + 1, dtype=torch.double)  # (k + 1,)
    possible = (common <= k) & (common >= 2 * k - m)
    log = _log_choose(k, common) + _log_choose(m - k, k - common) - _log_choose(m, k)  # (B, k + 1)
    each = torch.where(possible, log, -torch.inf).exp() * common / (2 * k - common).clamp(min=1)
    return torch.where(sizes > 0, each.sum(1), torch.nan)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """log of n over k; meaningless, but no error, where k is not between 0 and n."""
    n, k = n.clamp(min=0), k.clamp(min=0)
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)


def _sums(values: Tensor, pairs: Undirected) -> Tensor:
    """Sums over the undirected edges of each graph: (M,) -> (B,)."""
    return torch.zeros(len(pairs.counts), dtype=values.dtype).index_add_(0, pairs.graph, values)
