"""Logistic regression on fingerprints."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from goodformer.methods.counts import CountMethod
from goodformer.models.base import GraphModel
from goodformer.spec import Task

STEPS = 1000
"""Most iterations of the solver."""


class Linear(CountMethod):
    """logits = W log(1 + c) + b, where c counts the environments of a graph; W has an L2 penalty.

    Means and standard deviations of continuous node features are standardised instead of taking their logarithm. Every
    binary target is fitted to the graphs whose label is known. The contribution of a column to a logit is its weight
    times its value.
    """

    in_words = (
        "Fits a logistic regression to counts of substructures, within seconds; choose it as the simplest baseline, and "
        "if every prediction must be a sum of terms that a reader can check."
    )
    weight: Tensor
    bias: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        strength: Annotated[
            float, Field(gt=0, description="Inverse of the L2 penalty (C of scikit-learn); larger fits closer.")
        ] = 0.03,
        balanced: Annotated[bool, Field(description="Whether all classes weigh the same, however many graphs.")] = True,
    ) -> None:
        super().__init__(model, task)
        self.strength, self.balanced = strength, balanced
        self.register_buffer("weight", torch.zeros(task.outputs, self.model.columns))
        self.register_buffer("bias", torch.zeros(task.outputs))
        self.register_buffer("centre", torch.zeros(2 * self.model.measured))
        self.register_buffer("scale", torch.ones(2 * self.model.measured))

    def logits(self, counts: Tensor) -> Tensor:
        """Logits (B, C)."""
        return self._inputs(counts) @ self.weight.T + self.bias

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the logits, weighted by ``direction`` (B, C)."""
        return direction @ self.bias, self._inputs(counts) * (direction @ self.weight)

    def learn(self, counts: Tensor, y: Tensor, seed: int, threads: int) -> None:
        """Fit the weights of all outputs."""
        further = counts[:, self.model.table :].double()
        self.centre = further.mean(0).float().to(self.device)
        deviation = further.std(0, correction=0).float()
        self.scale = torch.where(deviation > 0, deviation, 1.0).to(self.device)
        inputs = self._inputs(counts.to(self.device)).cpu()
        if self.task.kind == "multiclass":
            weight, bias = self._fit(inputs, y, seed)
        else:
            fitted = [self._fit(inputs[known], one[known], seed) for one in y.T for known in [~one.isnan()]]
            weight, bias = (torch.cat(part) for part in zip(*fitted, strict=True))
        self.weight, self.bias = weight.to(self.weight), bias.to(self.bias)

    def _inputs(self, counts: Tensor) -> Tensor:
        """Return what the weights multiply, (B, F)."""
        table = self.model.table
        return torch.cat((counts[:, :table].log1p(), (counts[:, table:] - self.centre) / self.scale), 1)

    def _fit(self, inputs: Tensor, y: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """Return weights (K, F) and biases (K,): of K classes, or of one binary target (K = 1).

        Balanced weights shift the bias by the log of the class shares; the shift is taken back, so that
        probabilities refer to the shares of the training graphs.
        """
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression

        found, codes = y.long().unique(return_inverse=True)
        share = codes.bincount() / len(codes)
        outputs = self.task.outputs if self.task.kind == "multiclass" else 2
        weight = torch.zeros(outputs, inputs.shape[1])
        bias = ((y.long().bincount(minlength=outputs) + 1) / (len(y) + outputs)).log()  # for classes without graphs
        if len(found) > 1:
            weights = "balanced" if self.balanced else None
            made = LogisticRegression(C=self.strength, class_weight=weights, max_iter=STEPS, random_state=seed % 2**32)
            made.fit(csr_matrix(inputs.double().numpy()), codes.numpy())
            rows, starts = torch.from_numpy(made.coef_).float(), torch.from_numpy(made.intercept_).float()
            if len(rows) == 1:  # two classes: half of the difference each
                rows, starts = torch.cat((-rows, rows)) / 2, torch.cat((-starts, starts)) / 2
            weight[found] = rows - rows.mean(0)
            bias[found] = starts - starts.mean() + (share.log() if self.balanced else 0.0)
        if self.task.kind == "multiclass":
            return weight, bias
        return weight[1:] - weight[:1], bias[1:] - bias[:1]
