"""The contract every method keeps, and the loss of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.models.base import GraphModel
from goodformer.spec import Task


@dataclass(frozen=True)
class Prediction:
    """What a method says of a batch, and what it has at hand anyway.

    Attributes:
        logits: Unnormalised scores, (B, C).
        edge_scores: A score of each edge, (E,), where the method explains itself.
        embedding: What the logits are read from, (B, D), where it costs no second pass.
        signals: Figures of the method's own that tell graphs apart, each (B,).
        edge_logits: The edge scores before a sigmoid that may saturate, (E,), where the method has them.
    """

    logits: Tensor
    edge_scores: Tensor | None
    embedding: Tensor | None = None
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    edge_logits: Tensor | None = None


class Method(nn.Module):
    """What is minimised in training, predicted at test time, and shown as explanation.

    Attributes:
        in_words: What it does and when to choose it, for people who want no formula.
    """

    in_words: str = ""

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__()
        self.model = model
        self.task = task

    @property
    def encodings(self) -> tuple[str, ...]:
        """Computed node attributes (``name:width``) the batch must carry."""
        return self.model.encodings

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        raise NotImplementedError

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Named, weighted terms; their sum is minimised."""
        raise NotImplementedError

    def edge_scores(self, batch: Batch) -> Tensor | None:
        """A score for each edge (E,), larger = more invariant; None where the method has none."""
        return None

    def weighted_logits(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """Logits (B, C) with each edge's message times ``edge_weight`` (E,), for methods without edge scores."""
        raise NotImplementedError

    def predict(self, batch: Batch) -> Prediction:
        """Logits and edge scores together; a method that gets both from one pass overrides this."""
        return Prediction(self(batch), self.edge_scores(batch))

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """The parameters this epoch updates; for methods that alternate."""
        return self.parameters()


def losses(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """The loss of every prediction, (*, C) against labels, as (*).

    ``y`` is (*) class indices, or (*, C) zeros and ones with NaN where a label is missing. Missing labels count
    nothing, and the mean of the result over all predictions is the mean over the labels that are there.
    """
    if task.kind == "multiclass":
        return F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
    known = ~y.isnan()  # (*, C)
    terms = F.binary_cross_entropy_with_logits(logits, y.nan_to_num(), reduction="none") * known
    return terms.sum(-1) * (known[..., 0].numel() / known.sum().clamp(min=1))


def mean_loss(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """Mean loss over the labels that are there."""
    return losses(task, logits, y).mean()


def class_scores(task: Task, logits: Tensor) -> Tensor:
    """Probabilities from logits, of the same shape."""
    return logits.softmax(-1) if task.kind == "multiclass" else torch.sigmoid(logits)
