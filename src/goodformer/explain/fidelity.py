"""Fidelity: what happens to a prediction when its explanation is taken away, or is all that is left.

Two rules, and why. *Removed*: the chosen edges go, every node stays, because a node of the subgraph is usually one of
the rest as well. *Kept alone*: the chosen edges and the nodes they touch stay, because nodes left over would still be
read. Encodings are computed anew for either graph. Random edges of the same number go through the same mill: a figure
says nothing without theirs, since any graph that was cut is unlike the training graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.explain.subgraph import Undirected, subgraph_sizes
from goodformer.registry import InputError
from goodformer.spec import Task

Predict = Callable[[GraphSet], Tensor]
"""Probabilities (B, C) of graphs that carry no encodings."""


@dataclass(frozen=True)
class Fidelity:
    """Probability of what is predicted for B graphs, whole and in part; NaN for a graph without a subgraph.

    Attributes:
        edges: Undirected edges of each subgraph, (B,).
        whole: On the whole graph, (B,); with several binary targets the mean over them of the predicted side's.
        removed: Without the subgraph, (B,).
        kept: On the subgraph alone, (B,).
        random_removed, random_kept: The same for random edges of the same number, mean over draws, (B,).
    """

    edges: Tensor
    whole: Tensor
    removed: Tensor
    kept: Tensor
    random_removed: Tensor
    random_kept: Tensor

    def summary(self) -> dict[str, float | int | None]:
        """Mean drops in probability over the graphs that have a subgraph, as plain values.

        ``removed`` (fidelity+) should be larger than ``random_removed``: the subgraph is needed. ``kept`` (fidelity-)
        should be smaller than ``random_kept``: it is enough. The standard errors are those of the differences.
        """
        return {
            "graphs": int((self.edges > 0).sum()),
            "probability": _mean(self.whole),
            "removed": _mean(self.whole - self.removed),
            "random_removed": _mean(self.whole - self.random_removed),
            "removed_error": _error(self.random_removed - self.removed),
            "kept": _mean(self.whole - self.kept),
            "random_kept": _mean(self.whole - self.random_kept),
            "kept_error": _error(self.kept - self.random_kept),
        }


def fidelity(
    predict: Predict,
    task: Task,
    graphs: GraphSet,
    scores: Sequence[Tensor],
    k: int | None = None,
    draws: int = 5,
    seed: int = 0,
) -> Fidelity:
    """Predict each graph whole, without its best-scored edges, with them alone, and likewise with random edges.

    Args:
        predict: Probabilities of graphs, encodings attached by itself, e.g. those of `FittedModel.predict`.
        task: What is predicted.
        graphs: The graphs.
        scores: For each graph a score of each directed edge, (E,), larger = more decisive.
        k: Undirected edges of the subgraph; by default as many as are true, or a third where nobody knows.
        draws: Random subgraphs of each graph.
        seed: Of the random subgraphs.
    """
    flat = joined_scores(graphs, scores)
    plain, pairs = without_encodings(graphs), Undirected.of(graphs)
    sizes = subgraph_sizes(graphs, k, pairs)  # (B,)
    said = predict(plain)  # (B, C)
    generator = torch.Generator().manual_seed(seed)

    def parts(values: Tensor) -> tuple[Tensor, Tensor]:
        chosen = pairs.best(values, sizes)[pairs.number]  # (E,)
        cut = [without_edges(plain, chosen), only_edges(plain, chosen)]
        removed, kept = (torch.where(sizes > 0, confidence(task, said, predict(part)), torch.nan) for part in cut)
        return removed, kept

    removed, kept = parts(pairs.mean(flat))
    draw = [parts(torch.rand(len(pairs.graph), generator=generator)) for _ in range(draws)]
    random_removed, random_kept = (torch.stack(rows).mean(0) for rows in zip(*draw, strict=True))
    whole = torch.where(sizes > 0, confidence(task, said, said), torch.nan)
    return Fidelity(sizes, whole, removed, kept, random_removed, random_kept)


def joined_scores(graphs: GraphSet, scores: Sequence[Tensor]) -> Tensor:
    """The scores of all graphs in one row, (E,), checked against their edges."""
    wanted = graphs.edge_ptr.diff().tolist()
    if [len(score) for score in scores] != wanted:
        raise InputError(
            f"got scores of {len(scores)} graphs, {sum(map(len, scores))} in all, for {len(graphs)} graphs with "
            f"{sum(wanted)} edges; give each graph one score an edge."
        )
    return torch.cat([score.detach().double().cpu() for score in scores]) if scores else torch.empty(0).double()


def confidence(task: Task, said: Tensor, probabilities: Tensor) -> Tensor:
    """The probability of what was ``said`` (B, C) in other probabilities (B, C), as (B,)."""
    if task.kind == "multiclass":
        return probabilities.gather(1, said.argmax(1, keepdim=True))[:, 0]
    return torch.where(said > 0.5, probabilities, 1 - probabilities).mean(1)


def without_encodings(graphs: GraphSet) -> GraphSet:
    """The same graphs with node features only: what was computed from the structure is to be computed anew."""
    node = {"x": graphs.node["x"]} if "x" in graphs.node else {}
    return GraphSet(node, graphs.edge, graphs.graph, graphs.node_ptr, graphs.edge_ptr)


def without_edges(graphs: GraphSet, chosen: Tensor) -> GraphSet:
    """The graphs without the chosen edges (E,), all nodes left."""
    return _cut(graphs, torch.ones(int(graphs.node_ptr[-1]), dtype=torch.bool), ~chosen)


def only_edges(graphs: GraphSet, chosen: Tensor) -> GraphSet:
    """The chosen edges (E,) and the nodes they touch; a graph of which none is chosen stays whole."""
    touched = torch.zeros(int(graphs.node_ptr[-1]), dtype=torch.bool)
    touched[graphs.edge_index[:, chosen].flatten()] = True
    some = torch.zeros(len(graphs), dtype=torch.bool)
    some[graphs.edge_graph[chosen]] = True
    return _cut(graphs, touched | ~some.repeat_interleave(graphs.sizes), chosen | ~some[graphs.edge_graph])


def _cut(graphs: GraphSet, nodes: Tensor, edges: Tensor) -> GraphSet:
    """The graphs with the marked nodes (N,) and edges (E,) only, nodes numbered anew."""
    node_ptr, edge_ptr = _bounds(nodes, graphs.node_ptr), _bounds(edges, graphs.edge_ptr)
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


def _bounds(marked: Tensor, ptr: Tensor) -> Tensor:
    """Where each graph begins when only what is marked stays, (B + 1,)."""
    return torch.nn.functional.pad(marked.cumsum(0), (1, 0))[ptr]


def _mean(values: Tensor) -> float | None:
    known = values[~values.isnan()]
    return round(float(known.mean()), 6) if len(known) else None


def _error(values: Tensor) -> float | None:
    """The standard error of a mean."""
    known = values[~values.isnan()]
    return round(float(known.std() / len(known) ** 0.5), 6) if len(known) > 1 else None
