"""A trained method that stands alone: graphs in, probabilities and edge scores out, saved without any code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.features import check_features
from goodformer.data.graphs import GraphSet
from goodformer.engine.evaluate import Metrics, evaluate, infer
from goodformer.engine.store import Run
from goodformer.engine.weights import ModelFile, load_weights, save_weights
from goodformer.methods.base import Method, class_scores
from goodformer.registry import InputError, unknown
from goodformer.spec import Encoding
from goodformer.transforms import encode
from goodformer.uncertainty.observe import look
from goodformer.uncertainty.uncertainty import Sureness, saved_in


@dataclass(frozen=True)
class Predictions:
    """What is said of B graphs, in the order they were given.

    Attributes:
        logits: Unnormalised scores, (B, C).
        probabilities: Of each class, or of each binary target, (B, C).
        classes: The likeliest class, (B,), or 0 and 1 for each binary target, (B, C).
        edge_scores: For each graph a score of each of its edges in its own edge order, larger = more invariant; None
            where the method does not explain itself.
        calibrated: Probabilities that mean what they say on graphs like the training ones, (B, C); this and what
            follows is None where the predictor does not know how sure it is.
        domain_score: Share of validation graphs that are less unusual, (B,) in [0, 1].
        outside: Whether a graph is more unusual than nearly all graphs like the training ones, (B,).
    """

    logits: Tensor
    probabilities: Tensor
    classes: Tensor
    edge_scores: list[Tensor] | None
    calibrated: Tensor | None = None
    domain_score: Tensor | None = None
    outside: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)


class FittedModel:
    """A trained method with what it takes to use it on new graphs, and, once `Sureness.fit` was asked, how sure."""

    def __init__(self, method: Method, file: ModelFile, sureness: Sureness | None = None) -> None:
        self.method, self.file, self.sureness = method.eval(), file, sureness

    @classmethod
    def of_run(cls, run: Run, weights: str = "best") -> Self:
        """Return the trained method of a run at the selected epoch (``best``) or the latest one (``last``)."""
        if weights not in ("best", "last"):
            raise unknown("weights", weights, ("best", "last"))
        if not (run.folder / weights).is_dir():
            raise InputError(f"{run.folder} has no weights yet; train it for at least one epoch.")
        return cls.load(run.folder / weights)

    def predict(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 256) -> Predictions:
        """Probabilities and edge scores of graphs, which need no labels; encodings are attached here.

        Args:
            graphs: PyG graphs with ``x`` (unless nodes are all alike) and ``edge_index``, or a set of them.
            batch_size: Graphs predicted at once; the answer does not depend on it.
        """
        ready = self.prepare(graphs)
        order: list[Tensor] = []
        logits: list[Tensor] = []
        scores: list[Tensor] = []
        unusual: list[Tensor] = []
        for positions, batch, prediction in infer(self.method, ready, batch_size):
            order.append(positions)
            logits.append(prediction.logits.detach().float().cpu())
            if prediction.edge_scores is not None:
                scores += prediction.edge_scores.detach().cpu().split(ready.edge_ptr.diff()[positions].tolist())
            if self.sureness:
                unusual.append(self.sureness.unusual(look(self.method, batch, prediction, self.sureness.embeds)))
        back = torch.cat(order).argsort()  # from batch order to the caller's
        return self._predictions(
            torch.cat(logits)[back],
            [scores[place] for place in back.tolist()] if scores else None,
            torch.cat(unusual)[back] if unusual else None,
        )

    def evaluate(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 256) -> Metrics:
        """What the predictions are worth on graphs that carry labels."""
        ready = self.prepare(graphs)
        if "y" not in ready.graph:
            raise InputError("the graphs carry no labels; attach y to every graph, or use predict.")
        return evaluate(self.method, ready, batch_size)

    def prepare(self, graphs: Sequence[Data] | GraphSet) -> GraphSet:
        """The graphs as a checked set that carries the method's encodings."""
        ready = graphs if isinstance(graphs, GraphSet) else GraphSet.from_list(list(graphs))
        _check_set(ready)
        check_features(ready, self.file.features, "the graphs to predict")
        for text in self.method.encodings:
            attribute = Encoding.parse(text).attribute
            if attribute not in ready.node:
                ready = ready.with_node(attribute, encode(text, ready.edge_index, ready.node_ptr))
        return ready

    def to(self, device: str | torch.device) -> Self:
        """Move the weights to a device, where predictions are then computed."""
        self.method.to(device)
        return self

    def save(self, folder: str | Path) -> Path:
        """Write weights (safetensors) and description (JSON) into a folder, and how sure it is where it knows."""
        place = Path(folder)
        self.file = save_weights(place, self.file, self.method.state_dict())
        if self.sureness:
            self.sureness.save(place, self.file.sha256)
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote; nothing in the folder is ever executed."""
        method, file = load_weights(Path(folder))
        sureness = Sureness.load(folder, file.sha256) if saved_in(Path(folder)) else None
        return cls(method, file, sureness)

    def _predictions(self, logits: Tensor, scores: list[Tensor] | None, unusual: Tensor | None) -> Predictions:
        task, sure = self.file.task, self.sureness
        classes = logits.argmax(-1) if task.kind == "multiclass" else (logits > 0).long()
        answer = Predictions(logits, class_scores(task, logits), classes, scores)
        if sure is None or unusual is None:
            return answer
        return replace(
            answer,
            calibrated=sure.probabilities(logits),
            domain_score=sure.domain_score(unusual),
            outside=sure.outside(unusual),
        )


def _check_set(graphs: GraphSet) -> None:
    if not len(graphs):
        raise InputError("there is no graph to predict; give at least one.")
    empty = (graphs.sizes == 0).nonzero().flatten()
    if len(empty):
        raise InputError(f"graph {int(empty[0])} is empty; every graph needs at least one node.")
