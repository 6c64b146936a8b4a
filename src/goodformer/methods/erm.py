"""Empirical risk minimisation."""

from __future__ import annotations

from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.methods.base import ALL_TASKS, Method, Prediction, mean_loss
from goodformer.models.base import GraphModel
from goodformer.spec import Task


class ERM(Method):
    """L = mean l(f(G), y), the mean loss over the training graphs; environments are ignored.

    Paper: Vapnik, "Principles of Risk Minimization for Learning Theory", 1992; the baseline of the GOOD benchmark.
    """

    in_words = (
        "Minimises the mean training loss, without protection against a shift; choose it as the baseline, or if new "
        "data resemble the training data."
    )
    tasks = ALL_TASKS

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__(model, task)
        self.classifier = nn.Linear(model.dim, task.outputs)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        return self.classifier(self._embed(batch))

    def weighted_logits(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """Logits (B, C) with each edge's message multiplied by ``edge_weight`` (E,)."""
        return self.classifier(self._embed(batch, edge_weight))

    def predict(self, batch: Batch) -> Prediction:
        """Return logits and graph embeddings from one pass."""
        if type(self).forward is not ERM.forward:  # a subclass that computes its logits differently
            return super().predict(batch)
        z = self._embed(batch)  # (B, D)
        return Prediction(self.classifier(z), self.edge_scores(batch), z)

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The mean loss."""
        return {"risk": mean_loss(self.task, self(batch), batch.y)}

    def _embed(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Graph embeddings (B, D)."""
        return self.model.graph_embedding(batch, edge_weight)
