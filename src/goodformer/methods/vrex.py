"""Risk extrapolation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from goodformer.batch import Batch
from goodformer.methods.base import losses
from goodformer.methods.environments import environment_means
from goodformer.methods.erm import ERM
from goodformer.models.base import GraphModel
from goodformer.spec import Task


class VREx(ERM):
    """L = mean l(f(G), y) + lambda Var_e(R_e), where R_e is the mean loss over the batch's graphs of environment e.

    Paper: Krueger et al., "Out-of-Distribution Generalization via Risk Extrapolation", 2021.
    Differs from the paper: the first term is the mean over graphs, not the sum over environments, and lambda is
        constant from the first epoch on, both as in the GOOD benchmark (Gui et al., 2022).
    Paper silent on: the kind of variance; it is the unbiased one here, and 0 if a batch has one environment.
    """

    in_words = (
        "Penalises differences of the loss between environments; choose it if environments are known and all matter "
        "equally."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        variance_weight: Annotated[float, Field(ge=0, description="lambda, weight of the variance of risks.")] = 1.0,
    ) -> None:
        super().__init__(model, task)
        self.variance_weight = variance_weight

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The mean loss and the variance of the environments' risks."""
        each = losses(self.task, self(batch), batch.y)  # (B,)
        risks = environment_means(self.task, each, batch.y, batch.env)  # R_e, (K,)
        variance = risks.var() if risks.numel() > 1 else each.new_zeros(())
        return {"risk": each.mean(), "variance": self.variance_weight * variance}
