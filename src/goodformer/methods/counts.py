"""Methods that read the counts of environments and are fitted at once, without gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix, vstack
from torch import Tensor

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.methods.base import ALL_TASKS, Method, Prediction, mean_loss, predicted_direction
from goodformer.methods.left_out import FOLDS, Array
from goodformer.models.base import GraphModel
from goodformer.models.fingerprint import Fingerprint
from goodformer.spec import Task

Sharing = Annotated[
    float | None,
    Field(
        ge=0,
        lt=1,
        description="Share of the training environment's mean in each label; null chooses it on left-out environments.",
    ),
]
SHARES = (0.0, 0.5, 0.9)
"""Shares of the environment's mean in a label that cross-validation chooses from."""


class CountMethod(Method):
    """Base of methods on fingerprints: a subclass learns from a table of counts and explains by its columns.

    The score of an edge is the sum of its shares of all environments it lies in. The share of an environment is the
    contribution of its column to the prediction, divided by the number of such environments and by their edges.
    Contributions of environments that the graph lacks, and of further columns, belong to no edge.

    With ``sharing`` s, a training graph has the label (1 - s) y + s m, where m is the mean label of its ``env``, the
    group of training graphs that it comes from, such as an assay (see `shared`). Where labels differ between groups
    more than structure explains within one, such labels say more about new groups.
    """

    at_once, tasks, scores_are_shares = True, ALL_TASKS, True
    model: Fingerprint

    def __init__(self, model: GraphModel, task: Task, sharing: float | None) -> None:
        if not isinstance(model, Fingerprint):
            raise InputError(
                f"method {type(self).__name__} reads counts of environments, which {type(model).__name__} does not "
                "have; use it with model fingerprint."
            )
        if sharing and task.kind == "multiclass":
            raise InputError(f"sharing is {sharing:g}, but classes have no mean; set method.sharing=0.")
        super().__init__(model, task)
        self.sharing = sharing

    def learn(self, counts: csr_matrix, y: Array, env: Array, seed: int, threads: int) -> None:
        """Learn from the counts (G, F), the labels and the environments (G,) of all training graphs."""
        raise NotImplementedError

    def logits(self, counts: Tensor) -> Tensor:
        """Return logits (B, C) from counts (B, F)."""
        raise NotImplementedError

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the output, weighted by ``direction`` (B, C), into a constant (B,) and terms of the columns (B, F)."""
        raise NotImplementedError

    def explained(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B, C) and the terms (B, F) of what they predict; a subclass may share work between both."""
        logits = self.logits(counts)
        return logits, self.contributions(counts, predicted_direction(self.task, logits).to(counts))[1]

    def fit(self, batches: Iterable[Batch], seed: int, threads: int = 1) -> None:
        """Count the environments of all training graphs and learn from them."""
        self.learn(*self.table(batches), seed, threads)

    @torch.no_grad()
    def table(self, batches: Iterable[Batch]) -> tuple[csr_matrix, Array, Array]:
        """Return the counts (G, F), the labels and the environments (G,) of graphs."""
        parts = [
            (csr_matrix(self.model.counts(batch).cpu().numpy()), batch.y.cpu().numpy(), batch.env.cpu().numpy())
            for batch in batches
        ]
        counts, y, env = zip(*parts, strict=True)
        return vstack(counts, "csr"), np.concatenate(y), np.concatenate(env)

    def targets(self, y: Array) -> list[Array]:
        """Return the labels (G,) of each target: classes, binary labels or standardised values."""
        if y.ndim == 1:
            return [y.astype(int)]
        if not self.task.measured:
            return list(y.T)
        pairs = zip(y.T, self.task.centre, self.task.scale, strict=True)
        return [(values.astype(float) - mean) / deviation for values, mean, deviation in pairs]

    def shares(self, targets: Sequence[Array], env: Array) -> tuple[float, ...]:
        """Return the shares to choose from, given labels (G,) of each target and environments (G,).

        Labels from fewer environments than folds cannot be judged on left-out ones, and classes have no mean.
        """
        if self.sharing is not None:
            return (self.sharing,)
        if self.task.kind == "multiclass":
            return SHARES[:1]
        fewest = min(len(np.unique(env[~np.isnan(target)])) for target in targets)
        return SHARES if fewest >= FOLDS else SHARES[:1]

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        return self.logits(self.model.counts(batch))

    def weighted_logits(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """Logits (B, C) where an environment counts the product of the weights of its edges."""
        return self.logits(self.model.counts(batch, edge_weight))

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The mean loss, which `fit` does not minimise by gradients."""
        return {"risk": mean_loss(self.task, self(batch), batch.y)}

    def predict(self, batch: Batch) -> Prediction:
        """Return logits, edge scores and a projection of the counts, counted once."""
        near = self.model.near(batch)
        counts = self.model.counts(batch, near=near)
        logits, terms = self.explained(counts)
        return Prediction(logits, self.model.spread(batch, terms.to(counts), near), self.model.project(counts))

    def outputs(self, batch: Batch) -> Prediction:
        """Return the same without edge scores, which take as long as the rest."""
        counts = self.model.counts(batch)
        return Prediction(self.logits(counts), None, self.model.project(counts))

    def edge_scores(self, batch: Batch) -> Tensor:
        """Return each edge's share of the contributions to the prediction, positive = for it, (E,).

        Of a measured value that is a push away from the mean of the training graphs.
        """
        scores = self.predict(batch).edge_scores
        assert scores is not None
        return scores


def check_labels(targets: Sequence[Array]) -> None:
    """Raise an error if a target has no label in training."""
    for place, target in enumerate(targets):
        if np.isnan(target).all():
            raise InputError(f"target {place + 1} has no label in training; remove it, or choose another split.")


def shared(y: Array, env: Array, share: float) -> Array:
    """Return labels (G,) of which a share is the mean of their environment.

    The mean is shrunk towards that of all graphs, as if the environment had one further graph with the overall mean.
    """
    _, group, size = np.unique(env, return_inverse=True, return_counts=True)
    mean = (np.bincount(group, y) + y.mean()) / (size + 1)
    return (1 - share) * y + share * mean[group]


def class_weights(y: Array, soft: Array, balanced: bool) -> tuple[Array, Array]:
    """Return the weight (G,) of each graph as a negative and as a positive one.

    Args:
        y: Binary labels (G,).
        soft: Labels after sharing (G,).
        balanced: Whether both classes weigh the same.
    """
    positive = float(y.mean()) if balanced else 0.5
    return (1 - soft) * 0.5 / (1 - positive), soft * 0.5 / positive
