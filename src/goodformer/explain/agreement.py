"""Stability: whether runs that differ only in their seed explain the same graphs by the same edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.explain.fidelity import joined_scores
from goodformer.explain.subgraph import Size, Undirected


@dataclass(frozen=True)
class Agreement:
    """Agreement of several sets of scores on each of B graphs, averaged over all pairs of sets.

    Attributes:
        correlation: Spearman's rank correlation of the scores of undirected edges, (B,); NaN if a graph has fewer than
            two edges or all its scores are equal.
        overlap: Jaccard index of the chosen edges, (B,); NaN if no edge is chosen.
        chance: Expected overlap of random choices of the same size, (B,).
    """

    correlation: Tensor
    overlap: Tensor
    chance: Tensor

    def summary(self) -> dict[str, float | int | None]:
        """Return means over the graphs for which each value is defined."""
        values = {"correlation": self.correlation, "overlap": self.overlap, "chance": self.chance}
        known = {name: value[~value.isnan()] for name, value in values.items()}
        means = {name: round(float(value.mean()), 6) if len(value) else None for name, value in known.items()}
        return {"graphs": len(known["correlation"]), **means}


def agreement(graphs: GraphSet, runs: Sequence[Sequence[Tensor]], k: Size = None) -> Agreement:
    """Compare two or more sets of scores of the same graphs.

    Args:
        graphs: The graphs.
        runs: For each run and graph one score per directed edge, (E,); directions are averaged.
        k: Number or share of undirected edges to choose, see `Undirected.sizes`.
    """
    if len(runs) < 2:
        raise InputError(f"agreement needs two or more sets of scores, got {len(runs)}; give runs of different seeds.")
    pairs = Undirected.of(graphs)
    values = [pairs.mean(joined_scores(graphs, scores)) for scores in runs]  # each (M,)
    ranks = [standard_ranks(one, pairs) for one in values]
    sizes = [pairs.sizes(one, k, graphs.edge.get("truth")) for one in values]  # each (B,)
    chosen = [pairs.best(*both).double() for both in zip(values, sizes, strict=True)]
    correlation = [_sums(a * b, pairs) / pairs.counts for a, b in combinations(ranks, 2)]
    overlap = [_sums(a * b, pairs) / _sums((a + b).clamp(max=1), pairs) for a, b in combinations(chosen, 2)]
    expected = [chance(pairs.counts, a, b) for a, b in combinations(sizes, 2)]
    return Agreement(torch.stack(correlation).mean(0), *(torch.stack(one).nanmean(0) for one in (overlap, expected)))


def standard_ranks(values: Tensor, pairs: Undirected) -> Tensor:
    """Return the ranks of undirected edges within their graph, ties averaged, scaled to mean 0 and variance 1, (M,)."""
    order = pairs.ranked(-values)  # by graph, within it from the lowest
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
    return centred / spread[pairs.graph]  # 0 / 0 is NaN: without an order there is no correlation


def chance(counts: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the expected Jaccard index of random choices of ``first`` and ``second`` edges out of ``counts``, (B,).

    E = sum over i of P(i in common) i / (a + b - i), P hypergeometric; NaN if both choices are empty.
    """

    def log_choose(n: Tensor, k: Tensor) -> Tensor:
        n, k = n.clamp(min=0), k.clamp(min=0)  # values outside 0 <= k <= n are masked below
        return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)

    most = int(torch.minimum(first, second).max()) if len(first) else 0
    a, b, m = (one.double()[:, None] for one in (first, second, counts))  # (B, 1)
    common = torch.arange(most + 1, dtype=torch.double)
    possible = (common <= a) & (common <= b) & (common >= a + b - m)
    log = log_choose(a, common) + log_choose(m - a, b - common) - log_choose(m, b)  # (B, most + 1)
    each = torch.where(possible, log, -torch.inf).exp() * common / (a + b - common).clamp(min=1)
    return torch.where(first + second > 0, each.sum(1), torch.nan)


def _sums(values: Tensor, pairs: Undirected) -> Tensor:
    """Return sums over the undirected edges of each graph: (M,) -> (B,)."""
    return torch.zeros(len(pairs.counts), dtype=values.dtype).index_add_(0, pairs.graph, values)
