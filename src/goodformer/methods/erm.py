"""Empirical risk minimisation."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer.methods.base import Method, mean_loss
from goodformer.models.base import GraphModel
from goodformer.spec import Task


class ERM(Method):
    """L = mean l(f(G), y), the mean loss over the training graphs, whatever their environment.

    Paper: Vapnik, "Principles of Risk Minimization for Learning Theory", 1992; the baseline of the GOOD benchmark.
    """

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__(model, task)
        self.classifier = nn.Linear(model.dim, task.outputs)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        return self.classifier(self.model.readout(self.model(batch), batch))

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The mean loss."""
        return {"risk": mean_loss(self.task, self(batch), batch.y)}
