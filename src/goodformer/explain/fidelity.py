"""Fidelity: how a prediction changes when its explanation is removed, or when only the explanation is left.

*Removed*: the chosen edges are deleted and all nodes stay, because a node of the subgraph usually has other edges too.
*Kept*: only the chosen edges and their nodes stay, because isolated nodes would still be read. Encodings are computed
for the cut graph. The same number of random edges serves as the baseline: a cut graph always differs from training
graphs, so a drop in probability alone means little.

Of a measured value, the drop is the absolute change of the predicted value in training standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.explain.subgraph import Undirected
from goodformer.methods.base import standardised
from goodformer.spec import Task

Predict = Callable[[GraphSet], Tensor]
"""Returns the probabilities or measured values (B, C) of graphs that carry no encodings."""


@dataclass(frozen=True)
class Fidelity:
    """Probability of the predicted class for B graphs, whole and cut; NaN for a graph without a subgraph.

    For measured targets: minus the absolute change of the predicted value, see `confidence`.

    Attributes:
        edges: Undirected edges of each subgraph, (B,).
        whole: On the whole graph, (B,); the mean over targets if there are several binary targets.
        removed: Without the subgraph, (B,).
        kept: On the subgraph alone, (B,).
        random_removed, random_kept: The same for random edges, averaged over draws, (B,).
    """

    edges: Tensor
    whole: Tensor
    removed: Tensor
    kept: Tensor
    random_removed: Tensor
    random_kept: Tensor

    def summary(self) -> dict[str, float | int | None]:
        """Return mean drops in probability over the graphs that have a subgraph.

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

        return {
            "graphs": int((self.edges > 0).sum()),
            "probability": mean(self.whole),
            "removed": mean(self.whole - self.removed),
            "random_removed": mean(self.whole - self.random_removed),
            "removed_error": error(self.random_removed - self.removed),
            "kept": mean(self.whole - self.kept),
            "random_kept": mean(self.whole - self.random_kept),
            "kept_error": error(self.kept - self.random_kept),
        }


def fidelity(
    predict: Predict,
    task: Task,
    graphs: GraphSet,
    scores: Sequence[Tensor],
    k: int | None = None,
    draws: int = 5,
    seed: int = 0,
    whole: Tensor | None = None,
) -> Fidelity:
    """Predict graphs whole, without their best-scored edges, with these alone, and the same with random edges.

    This takes 2 + 2 ``draws`` prediction passes over cut graphs, and one over the whole graphs unless ``whole`` is
    given.

    Args:
        predict: Returns the probabilities of graphs and computes their encodings, e.g. `FittedModel.probabilities`.
        task: What is predicted.
        graphs: The graphs.
        scores: For each graph one score per directed edge, (E,), larger = more decisive.
        k: Undirected edges of the subgraph; by default the number of true edges if known, otherwise one third.
        draws: Random subgraphs per graph.
        seed: Seed of the random subgraphs.
        whole: The probabilities of the whole graphs (B, C), if they are known.
    """
    flat = joined_scores(graphs, scores)
    plain, pairs = without_encodings(graphs), Undirected.of(graphs)
    sizes = pairs.sizes(k, graphs.edge.get("truth"))  # (B,)
    said = predict(plain) if whole is None else whole  # (B, C)
    generator = torch.Generator().manual_seed(seed)

    def parts(values: Tensor) -> tuple[Tensor, Tensor]:
        chosen = pairs.best(values, sizes)[pairs.number]  # (E,)
        cut = [without_edges(plain, chosen), only_edges(plain, chosen)]
        removed, kept = (torch.where(sizes > 0, confidence(task, said, predict(part)), torch.nan) for part in cut)
        return removed, kept

    removed, kept = parts(pairs.mean(flat))
    draw = [parts(torch.rand(len(pairs.graph), generator=generator)) for _ in range(draws)]
    random_removed, random_kept = (torch.stack(rows).mean(0) for rows in zip(*draw, strict=True))
    before = torch.where(sizes > 0, confidence(task, said, said), torch.nan)
    return Fidelity(sizes, before, removed, kept, random_removed, random_kept)


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
    """Return the graphs without the chosen edges (E,) but with all nodes."""
    return _cut(graphs, torch.ones(int(graphs.node_ptr[-1]), dtype=torch.bool), ~chosen)


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
