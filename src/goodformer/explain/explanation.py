"""Explanations in memory: predictions, edge scores and their fidelity, and the same as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from goodformer.batch import Graph
from goodformer.data.graphs import GraphSet, check_several
from goodformer.errors import InputError
from goodformer.explain.fidelity import NONE, Fidelity, fidelity, joined_scores
from goodformer.explain.subgraph import Size, Undirected, score_edges, shades
from goodformer.explain.symmetry import even_scores
from goodformer.fitted import FittedModel, Predictions

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Explanation:
    """Graphs with their predictions and edge scores.

    Attributes:
        graphs: The graphs, with nodes numbered as in the input.
        names: A name for each graph.
        answer: The predictions.
        scores: For each graph one score per directed edge in its own edge order, larger = more decisive.
        source: ``own`` if the method scores edges itself, otherwise ``post-hoc``.
        fidelity: How much predictions depend on the chosen edges; None if it was not measured.
        smiles: The SMILES of each graph, where known.
        classes: For each target the names of its classes.
        node_names: Names of the nodes of each graph, where they are not numbers.
    """

    graphs: GraphSet
    names: Sequence[str]
    answer: Predictions
    scores: Sequence[Tensor]
    source: str
    fidelity: Fidelity | None = None
    smiles: Sequence[str] | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    node_names: Sequence[Sequence[str | int]] | None = None

    def record(self, place: int, k: Size = None) -> dict[str, Any]:
        """Return prediction, verdict and scores of one graph as plain values."""
        graph = self.graphs.batch([place])
        record: dict[str, Any] = {"graph": self.names[place]}
        if self.smiles is not None:
            record["smiles"] = self.smiles[place]
        record["label"] = label_of(graph)
        record["predicted"] = self.predicted(place)
        record["probabilities"] = [round(value, 6) for value in self.answer.probabilities[place].tolist()]
        if self.fidelity is not None:
            record["verdict"] = self.verdicts[place]
            parts = ("whole", "removed", "kept", "random_removed", "random_kept")
            record["fidelity"] = {name: plain(getattr(self.fidelity, name)[place : place + 1])[0] for name in parts}
        record |= edge_record(graph, self.scores[place], k)
        if self.node_names is not None:
            names = self.node_names[place]
            record["node_names"] = list(names)
            record["edge_names"] = [[names[one], names[other]] for one, other in record["edges"]]
        return record

    def predicted(self, place: int) -> Any:
        """Return the class of one graph, or a list with that of each binary target; a value, or a list of values."""
        if self.answer.values is None:
            return self.answer.classes[place].tolist()
        values = [float(f"{value:.7g}") for value in self.answer.values[place].tolist()]
        return values[0] if len(values) == 1 else values

    @property
    def verdicts(self) -> list[str]:
        """Whether the marked part of each graph decides (`goodformer.explain.fidelity.VERDICTS`); empty if unknown."""
        return [] if self.fidelity is None else self.fidelity.verdicts

    def notes(self) -> list[str]:
        """Return a sentence if several targets share one explanation, and one if no graph has a part that matters."""
        outputs = self.answer.classes if self.answer.values is None else self.answer.values  # (B,) or (B, T)
        notes, targets = [], outputs.shape[1] if outputs.dim() > 1 else 1
        if targets > 1:
            notes.append(
                f"scores and verdicts are about all {targets} targets together; to explain one of them, fit it alone."
            )
        if self.fidelity is not None and set(self.verdicts) == {NONE}:
            notes.append(
                "no marked part matters more than random parts of equal size: these edge scores give no reason for "
                "the predictions, and nothing is marked."
            )
        return notes

    def title(self, place: int) -> str:
        """Return name, label and prediction of one graph, and the probability if there is one target."""
        label, predicted = label_of(self.graphs.batch([place])), self.answer.classes[place]
        if self.answer.values is not None:
            truth = "" if label is None else f"measured {class_name(label, self.classes)}, "
            return f"{self.names[place]}: {truth}predicted value {class_name(self.predicted(place), self.classes)}"
        truth = "" if label is None else f"class {class_name(label, self.classes)}, "
        text = f"{self.names[place]}: {truth}predicted {class_name(predicted.tolist(), self.classes)}"
        if predicted.numel() > 1:
            return text
        shares, code = self.answer.probabilities[place], int(predicted)
        return f"{text} ({float(shares[code] if predicted.dim() == 0 else (1 - shares, shares)[code]):.2f})"


def explain(
    model: FittedModel,
    graphs: Sequence[Data] | GraphSet,
    names: Sequence[str] | None = None,
    k: Size = None,
    smiles: Sequence[str] | None = None,
    measure: bool = True,
    known: tuple[Predictions, Sequence[Tensor], str] | None = None,
    measured: Fidelity | None = None,
) -> Explanation:
    """Predict graphs, score their edges and measure the fidelity of the scores.

    Args:
        model: A fitted model.
        graphs: The graphs.
        names: A name for each graph; its number by default.
        k: Number or share of undirected edges to choose, see `Undirected.sizes`.
        smiles: The SMILES of each graph, where known.
        measure: Whether to measure fidelity, which takes 22 predictions per graph.
        known: Predictions, edge scores and their source, if the graphs are already predicted.
        measured: Their fidelity, if it is known.
    """
    if not isinstance(graphs, GraphSet):
        check_several(graphs, "graphs")
    whole = graphs if isinstance(graphs, GraphSet) else GraphSet.from_list(list(graphs))
    named = list(names) if names is not None else [f"graph {number}" for number in range(len(whole))]
    for kind, given in (("names", named), ("SMILES", smiles)):
        if given is not None and len(given) != len(whole):
            raise InputError(f"got {len(given)} {kind} for {len(whole)} graphs; give one for each graph.")
    if known is None:
        ready = model.prepare(whole)
        answer = model.predict(ready)
        known = answer, *edge_scores(model, ready, answer)
    answer, scores, source = known
    found = measured
    if measure and found is None:
        found = measure_fidelity(model, whole, answer, scores, k)
    return Explanation(whole.as_given(), named, answer, scores, source, found, smiles, model.classes)


def measure_fidelity(
    model: FittedModel, graphs: GraphSet, answer: Predictions, scores: Sequence[Tensor], k: Size = None
) -> Fidelity:
    """Measure how much the predictions of graphs depend on their best-scored edges, see `fidelity`."""
    said = answer.probabilities if answer.values is None else answer.values
    return fidelity(model.probabilities, model.task, graphs, scores, k, whole=said)


def edge_scores(
    model: FittedModel, graphs: GraphSet, answer: Predictions | None = None, algorithm: str = "occlusion"
) -> tuple[list[Tensor], str]:
    """Return one score per directed edge of each graph, and whether they are the method's ``own`` or ``post-hoc``.

    Symmetric edges of a graph have equal scores, see `goodformer.explain.symmetry`.

    Args:
        model: A fitted model.
        graphs: The graphs.
        answer: Their predictions, if known.
        algorithm: How to score edges if the method does not, see `goodformer.explain.posthoc`.
    """
    ready = model.prepare(graphs)
    known = None if answer is None else answer.edge_scores
    own = model.edge_scores(ready) if known is None else known
    if own is not None:
        return even_scores(ready, own), "own"
    from goodformer.explain import posthoc  # loads PyG, which takes two seconds

    return even_scores(ready, posthoc.edge_scores(model.method, ready, algorithm=algorithm)), "post-hoc"


def marked_nodes(graphs: GraphSet, scores: Sequence[Tensor], k: Size = None) -> list[list[int]]:
    """Return the nodes of the chosen edges of each graph, numbered as in the input, in ascending order."""
    given = graphs.as_given()
    pairs = Undirected.of(given)
    values = pairs.mean(joined_scores(given, scores))
    chosen = pairs.best(values, pairs.sizes(values, k, given.edge.get("truth")))
    touched = torch.zeros(int(given.node_ptr[-1]), dtype=torch.bool)
    touched[pairs.ends[:, chosen].flatten()] = True
    return [part.nonzero().flatten().tolist() for part in touched.split(given.sizes.tolist())]


def kind_of_scores(model: FittedModel, source: str) -> str:
    """Return ``post-hoc``, ``own``, ``contributions`` (of fingerprints), or ``mixed`` (a blend that has both)."""
    if source != "own":
        return source
    shares = {member.scores_are_shares for member in model.method.members}
    return "mixed" if len(shares) > 1 else "contributions" if shares == {True} else "own"


def class_name(value: Any, classes: Mapping[str, Sequence[str]]) -> str:
    """Return the name of a class code, or of several targets "target name, target name".

    Measured values and codes without a name are shown as numbers.
    """
    codes = value if isinstance(value, list) else [value]
    named = list(classes.items()) if len(classes) == len(codes) else [("", ())] * len(codes)
    words = [
        "?" if code is None else names[int(code)] if 0 <= code < len(names) else f"{code:.4g}"
        for code, (_, names) in zip(codes, named, strict=True)
    ]
    if len(words) == 1:
        return words[0]
    return ", ".join(f"{target} {word}".strip() for (target, _), word in zip(named, words, strict=True))


def label_of(graph: Graph) -> Any:
    """Return the class, or the list of binary targets, of a graph; None where unknown."""
    if graph.get("y") is None:
        return None
    values = [None if math.isnan(value) else value for value in torch.as_tensor(graph.y).flatten().tolist()]
    return values[0] if len(values) == 1 else values


def edge_record(graph: Graph, scores: Tensor, k: Size = None) -> dict[str, Any]:
    """Return the scores of one graph, in the node numbers of the input.

    Args:
        graph: The graph.
        scores: One score per directed edge, (E,).
        k: Number or share of undirected edges to choose, see `Undirected.sizes`.

    Returns:
        ``num_nodes``; ``edges``, each undirected edge once, best first, and their ``scores``, means of both directions;
        ``k``, the number of edges in the chosen subgraph, and its ``subgraph_nodes``; ``node_scores``, the mean of
        the highest and the average score of the edges at each node (None without edges), and ``node_shades``, the same
        rescaled to 0..1 for display;
        ``truth``, whether each edge belongs to the true subgraph, where known.
    """
    nodes = int(graph.num_nodes or 0)
    edges = score_edges(graph.edge_index, scores, k, graph.get("edge_truth"))
    by_node = edges.node_scores(nodes)
    record: dict[str, Any] = {
        "num_nodes": nodes,
        "edges": edges.ends[:, edges.order].T.tolist(),
        "scores": plain(edges.scores[edges.order]),
        "k": edges.size,
        "subgraph_nodes": edges.nodes.tolist(),
        "node_scores": plain(by_node),
        "node_shades": plain(shades(by_node)),
    }
    return record if edges.truth is None else {**record, "truth": edges.truth[edges.order].tolist()}


def plain(values: Tensor) -> list[float | None]:
    """Return numbers for JSON, with None for NaN."""
    return [None if math.isnan(value) else round(value, 6) for value in values.double().tolist()]
