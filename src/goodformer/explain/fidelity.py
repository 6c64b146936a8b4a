"""Fidelity: how a prediction changes when its explanation is removed, or when only the explanation is left.

*Removed*: the chosen edges are deleted, and the nodes that have no edge left go with them. *Kept*: only the chosen
edges and their nodes stay. Encodings are computed for the cut graph. Random parts of equal size serve as the baseline:
a cut graph always differs from training graphs, so a drop in probability alone means little. A verdict says in one of
three ways whether the chosen part matters more than random parts.

Of a measured value, the drop is the absolute change of the predicted value in training standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.hashes import mix
from goodformer.errors import InputError
from goodformer.explain.subgraph import Size, Undirected
from goodformer.methods.base import standardised
from goodformer.spec import Task

Predict = Callable[[GraphSet], Tensor]
"""Returns the probabilities or measured values (B, C) of graphs that carry no encodings."""

DECIDES, CONTRIBUTES, NONE = "decides", "contributes", "no single part"
VERDICTS = {
    DECIDES: "without the marked part the prediction falls, and with that part alone it stays, much more than with "
    "random parts of equal size",
    CONTRIBUTES: "only one of the two holds",
    NONE: "neither holds: no part is marked, because random parts matter as much",
}
"""Whether the chosen part of a graph decides its prediction."""
MARGIN = 0.2
"""Difference in probability to random parts from which a part counts as necessary or sufficient.

``lab/reasons.py`` measures it on molecules whose deciding group is known, and on untrained models."""
TOGETHER = 4096
"""Cut graphs that are predicted at a time."""


@dataclass(frozen=True)
class Fidelity:
    """Probability of the predicted class for B graphs, whole and cut; NaN for a graph without a subgraph.

    For measured targets: minus the absolute change of the predicted value, see `confidence`.

    Attributes:
        edges: Undirected edges of each subgraph, (B,).
        whole: On the whole graph, (B,); the mean over targets if there are several binary targets.
        removed: Without the subgraph, (B,).
        kept: On the subgraph alone, (B,).
        random_removed, random_kept: The same for random parts of equal size, (B,): scattered edges or connected pieces,
            whichever are the stronger baseline, averaged over draws.
    """

    edges: Tensor
    whole: Tensor
    removed: Tensor
    kept: Tensor
    random_removed: Tensor
    random_kept: Tensor

    @property
    def verdicts(self) -> list[str]:
        """One of `VERDICTS` for each graph."""
        necessary = self.random_removed - self.removed >= MARGIN  # False for NaN
        sufficient = self.kept - self.random_kept >= MARGIN
        return [(NONE, CONTRIBUTES, DECIDES)[count] for count in (necessary.long() + sufficient.long()).tolist()]

    def subset(self, places: Sequence[int]) -> Fidelity:
        """Return the values of some of the graphs."""
        return Fidelity(*(getattr(self, field.name)[list(places)] for field in fields(self)))

    @staticmethod
    def concat(parts: Sequence[Fidelity]) -> Fidelity:
        """Join the values of several sets of graphs."""
        return Fidelity(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Fidelity)))

    def summary(self) -> dict[str, float | int | None]:
        """Return mean drops in probability over the graphs that have a subgraph, and how often each verdict occurs.

        ``removed`` (fidelity+) should be larger than ``random_removed``: the subgraph is necessary. ``kept``
        (fidelity-) should be smaller than ``random_kept``: it is sufficient. The standard errors are those of the
        differences.
        """

        def mean(values: Tensor) -> float | None:
            known = values[~values.isnan()]
            return round(float(known.mean()), 6) if len(known) else None

        def error(values: Tensor) -> float | None:
            known = values[~values.isnan()]
            return round(float(known.std() / len(known) ** 0.5), 6) if len(known) > 1 else None

        verdicts = self.verdicts
        return {
            "graphs": int((self.edges > 0).sum()),
            "probability": mean(self.whole),
            "removed": mean(self.whole - self.removed),
            "random_removed": mean(self.whole - self.random_removed),
            "removed_error": error(self.random_removed - self.removed),
            "kept": mean(self.whole - self.kept),
            "random_kept": mean(self.whole - self.random_kept),
            "kept_error": error(self.kept - self.random_kept),
            **{verdict: verdicts.count(verdict) for verdict in VERDICTS},
        }


def is_marked(verdict: str | None) -> bool:
    """Return whether pictures and tables mark the chosen part of a graph: not if no part matters."""
    return verdict != NONE


def fidelity(
    predict: Predict,
    task: Task,
    graphs: GraphSet,
    scores: Sequence[Tensor],
    k: Size = None,
    draws: int = 5,
    seed: int = 0,
    whole: Tensor | None = None,
) -> Fidelity:
    """Predict graphs whole, without their best-scored edges, with these alone, and the same with random parts.

    This predicts 2 + 4 ``draws`` cut graphs for each graph, many at a time, and the whole graphs unless ``whole`` is
    given. Random parts depend on the graph alone, not on the other graphs.

    Args:
        predict: Returns the probabilities of graphs and computes their encodings, e.g. `FittedModel.probabilities`.
        task: What is predicted.
        graphs: The graphs.
        scores: For each graph one score per directed edge, (E,), larger = more decisive.
        k: Number or share of undirected edges in the subgraph, see `Undirected.sizes`.
        draws: Random parts of each kind per graph.
        seed: Seed of the random parts.
        whole: The probabilities of the whole graphs (B, C), if they are known.
    """
    flat = joined_scores(graphs, scores)
    plain, pairs = without_encodings(graphs), Undirected.of(graphs)
    values = pairs.mean(flat)
    sizes = pairs.sizes(values, k, graphs.edge.get("truth"))  # (B,)
    said = predict(plain) if whole is None else whole  # (B, C)
    noise = [_noise(pairs, seed, draw) for draw in range(2 * draws)]
    ranks = [values, *noise[:draws], *(_around(pairs, one, int(graphs.node_ptr[-1])) for one in noise[draws:])]
    chosen = [pairs.best(rank, sizes)[pairs.number] for rank in ranks]  # each (E,)
    cuts = [cut(plain, one) for cut in (without_edges, only_edges) for one in chosen]
    step = max(TOGETHER // max(len(graphs), 1), 1)
    parts = [predict(GraphSet.concat(cuts[first : first + step])) for first in range(0, len(cuts), step)]
    found = torch.stack([confidence(task, said, part) for part in torch.cat(parts).chunk(len(cuts))])  # (cuts, B)
    found = torch.where(sizes > 0, found, torch.nan)
    removed, kept = found.double().chunk(2)  # (1 + 2 draws, B) each
    return Fidelity(
        sizes,
        torch.where(sizes > 0, confidence(task, said, said), torch.nan).double(),
        removed[0],
        kept[0],
        torch.minimum(*(part.mean(0) for part in removed[1:].chunk(2))),
        torch.maximum(*(part.mean(0) for part in kept[1:].chunk(2))),
    )


def _noise(pairs: Undirected, seed: int, draw: int) -> Tensor:
    """Return a random number in [0, 1) for each undirected edge, from its place and the graph's size alone, (M,)."""
    place = torch.arange(len(pairs.graph)) - pairs.start[pairs.graph]
    base = mix(np.array([seed, draw], dtype=np.uint64))
    hashed = mix(mix(base[0] + pairs.counts[pairs.graph].numpy().astype(np.uint64)) + place.numpy().astype(np.uint64))
    return torch.from_numpy((mix(hashed + base[1]) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _around(pairs: Undirected, noise: Tensor, nodes: int) -> Tensor:
    """Return values (M,) that are highest near a random edge of each graph: the best ones are a connected piece."""
    start = pairs.best(noise, pairs.counts.clamp(max=1))  # (M,)
    steps = torch.full((nodes,), torch.inf, dtype=torch.double)
    steps[pairs.ends[:, start].flatten()] = 0.0
    while True:  # as often as the longest path has edges
        near = steps[pairs.ends].amin(0)  # (M,)
        further = steps.scatter_reduce(0, pairs.ends.flatten(), (near + 1).repeat(2), "amin")
        if torch.equal(further, steps):
            return noise - near.clamp(max=nodes)
        steps = further


def joined_scores(graphs: GraphSet, scores: Sequence[Tensor]) -> Tensor:
    """Return the scores of all graphs in one row, (E,); raise if they do not match the edges."""
    wanted = graphs.edge_ptr.diff().tolist()
    if [len(score) for score in scores] != wanted:
        raise InputError(
            f"got {sum(map(len, scores))} scores of {len(scores)} graphs for {len(graphs)} graphs with "
            f"{sum(wanted)} edges; give one score per edge."
        )
    return torch.cat([score.detach().double().cpu() for score in scores]) if scores else torch.empty(0).double()


def confidence(task: Task, said: Tensor, probabilities: Tensor) -> Tensor:
    """Return the probability (B,) that ``probabilities`` (B, C) give to the prediction of ``said`` (B, C).

    For measured targets both are values, and the result is minus their absolute difference in training standard
    deviations, averaged over targets: 0 where nothing changed.
    """
    if task.measured:
        return -(standardised(task, probabilities) - standardised(task, said)).abs().mean(1)
    if task.kind == "multiclass":
        return probabilities.gather(1, said.argmax(1, keepdim=True))[:, 0]
    return torch.where(said > 0.5, probabilities, 1 - probabilities).mean(1)


def without_encodings(graphs: GraphSet) -> GraphSet:
    """Return the graphs without encodings, which a cut graph must not inherit."""
    node = {"x": graphs.node["x"]} if "x" in graphs.node else {}
    return GraphSet(node, graphs.edge, graphs.graph, graphs.node_ptr, graphs.edge_ptr)


def without_edges(graphs: GraphSet, chosen: Tensor) -> GraphSet:
    """Return the graphs without the chosen edges (E,) and without nodes that lose all their edges.

    If a graph would lose all its nodes, all of them stay.
    """
    left, lost = (torch.zeros(int(graphs.node_ptr[-1]), dtype=torch.bool) for _ in range(2))
    left[graphs.edge_index[:, ~chosen].flatten()] = True
    lost[graphs.edge_index[:, chosen].flatten()] = True
    kept, graph = left | ~lost, torch.repeat_interleave(graphs.sizes)
    some = torch.zeros(len(graphs), dtype=torch.bool)
    some[graph[kept]] = True
    return _cut(graphs, kept | ~some[graph], ~chosen)


def only_edges(graphs: GraphSet, chosen: Tensor) -> GraphSet:
    """Return the chosen edges (E,) and their nodes; a graph without a chosen edge stays whole."""
    touched = torch.zeros(int(graphs.node_ptr[-1]), dtype=torch.bool)
    touched[graphs.edge_index[:, chosen].flatten()] = True
    some = torch.zeros(len(graphs), dtype=torch.bool)
    some[graphs.edge_graph[chosen]] = True
    return _cut(graphs, touched | ~some.repeat_interleave(graphs.sizes), chosen | ~some[graphs.edge_graph])


def _cut(graphs: GraphSet, nodes: Tensor, edges: Tensor) -> GraphSet:
    """Return the graphs with only the marked nodes (N,) and edges (E,), nodes renumbered."""

    def bounds(marked: Tensor, ptr: Tensor) -> Tensor:
        return torch.nn.functional.pad(marked.cumsum(0), (1, 0))[ptr]

    node_ptr, edge_ptr = bounds(nodes, graphs.node_ptr), bounds(edges, graphs.edge_ptr)
    local = nodes.cumsum(0) - 1 - node_ptr[:-1].repeat_interleave(graphs.sizes)  # (N,), the new number within its graph
    index = local[graphs.edge_index[:, edges]]
    kept = {name: value[edges] for name, value in graphs.edge.items() if name != "index"}
    return GraphSet(
        {name: value[nodes] for name, value in graphs.node.items()},
        {"index": index, **kept},
        graphs.graph,
        node_ptr,
        edge_ptr,
    )
