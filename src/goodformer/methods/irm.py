"""Invariant risk minimisation."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from goodformer.batch import Batch
from goodformer.methods.base import losses
from goodformer.methods.environments import environment_means
from goodformer.methods.erm import ERM
from goodformer.models.base import GraphModel
from goodformer.spec import Task


class IRM(ERM):
    """L = mean l(f(G), y) + lambda mean_e (dR_e / dw)^2, where R_e(w) = mean of l(w f(G), y) over e, at w = 1.

    The penalty is zero if no environment would improve by rescaling the logits: the classifier is then optimal in all.

    Paper: Arjovsky et al., "Invariant Risk Minimization", 2019, the practical version IRMv1, with the estimate of the
    GOOD benchmark (Gui et al., 2022): the mean is over the environments present in the batch.
    Differs from the paper: lambda is constant from the first epoch on, as in the benchmark; the penalty
        squares the mean of the whole batch instead of multiplying two independent halves, which biases it upwards in
        small batches.
    """

    in_words = (
        "Learns a classifier that is optimal in every environment at once; choose it if environments (labs, years) "
        "are known."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        penalty_weight: Annotated[float, Field(ge=0, description="lambda, weight of the squared gradients.")] = 0.1,
    ) -> None:
        super().__init__(model, task)
        self.penalty_weight = penalty_weight

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The mean loss and the gradient penalty."""
        logits = self(batch)
        scale = torch.ones_like(logits[:, :1]).requires_grad_()  # w, one per graph: gradients (B,) from one pass
        each = losses(self.task, scale * logits, batch.y)  # (B,)
        (slope,) = torch.autograd.grad(each.sum(), scale, create_graph=True)
        slopes = environment_means(self.task, slope[:, 0], batch.y, batch.env)  # dR_e / dw, (K,)
        penalty = slopes.square().sum() / max(slopes.numel(), 1)
        return {"risk": each.mean(), "penalty": self.penalty_weight * penalty}
