"""Logistic and ridge regression on fingerprints."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix, hstack, vstack
from torch import Tensor

from goodformer.methods.counts import CountMethod, Sharing, class_weights, shared
from goodformer.methods.left_out import Array, best_value
from goodformer.models.base import GraphModel
from goodformer.spec import Task

STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Inverse penalties that cross-validation chooses from; of equals the first, which keeps probabilities apart."""
STEPS = 1000
"""Most iterations of the solver."""


class Linear(CountMethod):
    """logits = W log(1 + c) + b, where c counts the environments and pairs of a graph; W has an L2 penalty.

    The penalty, and with ``sharing=None`` the share of the environment's mean in a label, are chosen by
    cross-validation within the training graphs. Whole training environments are left out at a time, so that the choice
    suits graphs from environments that training does not contain.

    Means and standard deviations of continuous node features are standardised instead of taking their logarithm. Every
    binary target is fitted to the graphs whose label is known. Standardised measured targets are fitted by squared
    errors (ridge regression) instead of the logistic loss. The contribution of a column to a logit is its weight times
    its value.
    """

    seedless = True
    in_words = (
        "Fits a logistic or ridge regression to counts of substructures, within seconds; choose it as the simplest "
        "baseline, or if every prediction must be a sum of terms that a reader can check."
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
            float | None,
            Field(gt=0, description="Inverse of the L2 penalty (C of scikit-learn); null chooses it."),
        ] = None,
        balanced: Annotated[bool, Field(description="Whether all classes weigh the same, however many graphs.")] = True,
        sharing: Sharing = 0.0,
    ) -> None:
        super().__init__(model, task, sharing)
        self.strength, self.balanced = strength, balanced
        self.register_buffer("weight", torch.zeros(task.outputs, self.model.columns))
        self.register_buffer("bias", torch.zeros(task.outputs))
        further = self.model.columns - self.model.counted
        self.register_buffer("centre", torch.zeros(further))
        self.register_buffer("scale", torch.ones(further))

    def logits(self, counts: Tensor) -> Tensor:
        """Logits (B, C)."""
        return self._inputs(counts) @ self.weight.T + self.bias

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the logits, weighted by ``direction`` (B, C)."""
        return direction @ self.bias, self._inputs(counts) * (direction @ self.weight)

    def learn(self, counts: csr_matrix, y: Array, env: Array, seed: int, threads: int) -> None:
        """Choose the penalty and fit the weights of all outputs."""
        table = self.model.counted
        further = counts[:, table:].toarray().astype(float)
        centre, deviation = further.mean(0), further.std(0)
        scale = np.where(deviation > 0, deviation, 1.0)
        inputs = hstack((counts[:, :table].astype(float).log1p(), (further - centre) / scale), "csr")
        targets = self.targets(y)
        strengths = (self.strength,) if self.strength else STRENGTHS
        choices = list(product(self.shares(targets, env), strengths))
        middle = choices[len(strengths) // 2]
        chosen = best_value(choices, self._scorer, inputs, targets, env, self.task, seed, middle)
        fitted = []
        for target in targets:
            known = np.flatnonzero(~np.isnan(target))
            fitted.append(self._fit(inputs[known], target[known], env[known], *chosen))
        weight, bias = (np.concatenate(part) for part in zip(*fitted, strict=True))
        for own, found in ((self.weight, weight), (self.bias, bias), (self.centre, centre), (self.scale, scale)):
            own.copy_(torch.from_numpy(found))

    def _inputs(self, counts: Tensor) -> Tensor:
        """Return what the weights multiply, (B, F)."""
        table = self.model.counted
        counts = counts.to(self.weight.dtype)
        return torch.cat((counts[:, :table].log1p(), (counts[:, table:] - self.centre) / self.scale), 1)

    def _solver(self, strength: float, balanced: bool) -> Any:
        """Return scikit-learn's estimator."""
        from sklearn.linear_model import LogisticRegression, Ridge

        if self.task.measured:
            return Ridge(1 / strength)
        return LogisticRegression(C=strength, class_weight="balanced" if balanced else None, max_iter=STEPS)

    def _solved(self, inputs: Any, y: Array, env: Array, share: float, strength: float) -> Any:
        """Return the fitted estimator; a shared binary label counts in part as positive and in part as negative."""
        if not share:
            return self._solver(strength, self.balanced).fit(inputs, y)
        soft = shared(y, env, share)
        if self.task.measured:
            return self._solver(strength, self.balanced).fit(inputs, soft)
        codes, weights = np.repeat((0, 1), len(y)), np.concatenate(class_weights(y, soft, self.balanced))
        return self._solver(strength, False).fit(vstack((inputs, inputs), "csr"), codes, weights)

    def _scorer(
        self, choice: tuple[float, float], inputs: Any, y: Array, env: Array, more: float
    ) -> Callable[[Any], Array]:
        """Fit with a strength that gives the same penalty per graph as the final fit, and return what scores rows."""
        share, strength = choice
        made = self._solved(inputs, y, env, share, strength * more)
        score: Callable[[Any], Array] = made.decision_function if self.task.kind == "binary" else made.predict
        return score

    def _fit(self, inputs: Any, y: Array, env: Array, share: float, strength: float) -> tuple[Array, Array]:
        """Return weights (K, F) and biases (K,): of K classes, or of one binary or measured target (K = 1).

        Balanced weights shift the biases by the log of the class shares; the shift is taken back, so that
        probabilities refer to the shares of the training graphs.
        """
        if self.task.measured:
            made = self._solved(inputs, y, env, share, strength)
            return made.coef_[None], np.array([made.intercept_])
        y, outputs = y.astype(int), self.task.outputs if self.task.kind == "multiclass" else 2
        found, codes = np.unique(y, return_inverse=True)
        weight = np.zeros((outputs, inputs.shape[1]))
        bias = np.log((np.bincount(y, minlength=outputs) + 1) / (len(y) + outputs))  # for classes without graphs
        if len(found) > 1:
            made = self._solved(inputs, codes, env, share, strength)
            rows, starts = made.coef_, made.intercept_
            if len(rows) == 1:  # two classes: half of the difference each
                rows, starts = np.concatenate((-rows, rows)) / 2, np.concatenate((-starts, starts)) / 2
            weight[found] = rows - rows.mean(0)
            bias[found] = starts - starts.mean() + (np.log(np.bincount(codes) / len(codes)) if self.balanced else 0.0)
        if self.task.kind == "multiclass":
            return weight, bias
        return weight[1:] - weight[:1], bias[1:] - bias[:1]
