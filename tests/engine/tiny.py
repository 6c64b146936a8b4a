"""Small runs, and methods that do what the registered ones do not."""

from __future__ import annotations

import atexit
import multiprocessing
import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch_geometric.data import Batch
from torch_geometric.nn import global_mean_pool

from goodformer.config.run import Hardware, RunConfig
from goodformer.methods.base import Prediction, mean_loss
from goodformer.methods.erm import ERM
from goodformer.models.base import GraphModel
from goodformer.spec import Task

QUIET = Hardware(progress=False)


def tiny_config(*, training: dict[str, Any] | None = None, **parts: Any) -> RunConfig:
    """GIN and ERM on 200 graphs, parts replaced as given."""
    fields: dict[str, Any] = {
        "dataset": {"name": "good-motif", "graphs": 200},
        "model": {"name": "gin", "dim": 16, "layers": 2},
        "method": "erm",
        "training": {"epochs": 2, "batch_size": 32, "learning_rate": 0.01} | (training or {}),
    }
    return RunConfig(**(fields | parts))


class Noisy(ERM):
    """Risk minimisation with noise on the logits, drawn from the global generator, and two loss terms."""

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        logits = self(batch)
        noisy = logits + 0.1 * torch.randn_like(logits)
        return {"risk": mean_loss(self.task, noisy, batch.y), "size": 0.01 * logits.square().mean()}


class Alternating(ERM):
    """Updates the classifier in even epochs and the model in odd ones."""

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        return self.model.parameters() if epoch % 2 else self.classifier.parameters()


class Diverging(ERM):
    """Loses its number in the second epoch."""

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        return {"risk": super().loss(batch, epoch)["risk"] / (1 - min(epoch, 1))}


class Frozen(ERM):
    """Has no parameter that a gradient could change."""

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__(model, task)
        self.requires_grad_(False)


class NeedsGrad(ERM):
    """Takes a gradient to predict, and asks for it itself."""

    def predict(self, batch: Batch) -> Prediction:
        with torch.enable_grad():
            shift = torch.zeros((), requires_grad=True)
            logits = self(batch) + shift
            (slope,) = torch.autograd.grad(logits.sum(), shift)
        return Prediction(logits.detach() + 0 * slope, None)


class Plain(ERM):
    """Risk minimisation on degrees alone: no statistics over the batch, so shares of a batch add up exactly.

    Updates its two layers in turn, so that under several processes parameters are left without gradient.
    """

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__(model, task)
        self.hidden = nn.Linear(8, model.dim)

    def forward(self, batch: Batch) -> Tensor:
        degree = torch.bincount(batch.edge_index[0], minlength=len(batch.x)).clamp(max=7)
        return self.classifier(global_mean_pool(self.hidden(one_hot(degree, 8).float()), batch.batch))

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        return self.hidden.parameters() if epoch % 2 else self.classifier.parameters()


class Aborting(Plain):
    """Aborts a training process that shuts its interpreter down, as threads of torch.distributed may."""

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        if multiprocessing.parent_process() is not None:
            atexit.register(os.abort)
        return super().loss(batch, epoch)
