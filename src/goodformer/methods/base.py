"""The interface of every method, and the loss of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.models.base import GraphModel
from goodformer.spec import Task

SPREAD = "member_spread"
"""Signal of methods with several members: the standard deviation of their probabilities."""


@dataclass(frozen=True)
class Prediction:
    """A method's output for a batch.

    Attributes:
        logits: Unnormalised scores, (B, C).
        edge_scores: One score per edge, (E,); None if the method does not score edges.
        embedding: The graph embedding that the logits are computed from, (B, D), if it needs no second pass.
        signals: Further statistics per graph that the method offers to the domain score, each (B,).
        edge_logits: Edge scores before a sigmoid that may saturate, (E,), if the method has them.
    """

    logits: Tensor
    edge_scores: Tensor | None
    embedding: Tensor | None = None
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    edge_logits: Tensor | None = None


class Method(nn.Module):
    """Base class of methods: the training loss, the prediction and the explanation.

    Attributes:
        in_words: What the method does and when to choose it, in one sentence without formulas.
        at_once: Whether `fit` replaces training by gradients; such a run has one epoch.
    """

    in_words: str = ""
    at_once: ClassVar[bool] = False

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__()
        self.model = model
        self.task = task

    @property
    def encodings(self) -> tuple[str, ...]:
        """Encodings (``name:width``) that the batch must carry."""
        return self.model.encodings

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        raise NotImplementedError

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Return named, weighted loss terms; their sum is minimised."""
        raise NotImplementedError

    def fit(self, batches: Iterable[Batch], seed: int, threads: int = 1) -> None:
        """Learn from all training graphs at once, if `at_once` is true; ``seed`` decides everything random."""
        raise NotImplementedError

    def edge_scores(self, batch: Batch) -> Tensor | None:
        """Return one score per edge (E,), larger = more invariant; None if the method does not score edges."""
        return None

    def weighted_logits(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """Return logits (B, C) with messages multiplied by ``edge_weight`` (E,), for post-hoc explanations."""
        raise NotImplementedError

    def predict(self, batch: Batch) -> Prediction:
        """Return logits and edge scores; a method that computes both in one pass overrides this."""
        return Prediction(self(batch), self.edge_scores(batch))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next((one.device for one in (*self.parameters(), *self.buffers())), torch.device("cpu"))

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """Return the parameters that this epoch updates; for methods that alternate."""
        return self.parameters()


def losses(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every prediction (*, C) as (*).

    ``y`` holds class indices (*), or zeros and ones (*, C) with NaN for missing labels. Missing labels do not count:
    the mean of the result is the mean over the known labels.
    """
    if task.kind == "multiclass":
        return F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
    known = ~y.isnan()  # (*, C)
    terms = F.binary_cross_entropy_with_logits(logits, y.nan_to_num(), reduction="none") * known
    return terms.sum(-1) * (known[..., 0].numel() / known.sum().clamp(min=1))


def mean_loss(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean loss over the known labels."""
    return losses(task, logits, y).mean()


def class_scores(task: Task, logits: Tensor) -> Tensor:
    """Return probabilities from logits, of the same shape."""
    return logits.softmax(-1) if task.kind == "multiclass" else torch.sigmoid(logits)
