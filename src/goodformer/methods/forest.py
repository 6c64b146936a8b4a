"""Random forest on fingerprints."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix
from torch import Tensor

from goodformer.methods.counts import Array, CountMethod
from goodformer.models.base import GraphModel
from goodformer.nn.trees import Trees
from goodformer.spec import Task

VALUE_FEATURES = 1 / 3
"""Share of the columns that trees for measured values try at each node, as Breiman recommends."""


class Forest(CountMethod):
    """p(y | G) = mean over the trees of the class shares in the leaf that the counts of G reach.

    Logits are log p of the classes, or log-odds for binary targets, with one vote for each class added. Every binary
    target has a forest of its own, grown from the graphs whose label is known. For measured targets, trees hold the
    mean standardised value of their leaves, whose mean over the trees is the prediction. Contributions of columns are
    the exact decomposition of p along the decision paths (`goodformer.nn.trees.Trees.contributions`).

    Paper: Breiman, "Random Forests", 2001; on Morgan fingerprints: Svetnik et al., 2003.
    """

    in_words = (
        "Grows a random forest on counts of substructures, quickly and without gradients; fit it first, because "
        "on small molecular data sets it often beats neural networks."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        trees: Annotated[int, Field(ge=1, description="Number of trees, per binary target.")] = 300,
        balanced: Annotated[bool, Field(description="Whether all classes weigh the same, however many graphs.")] = True,
        min_leaf: Annotated[int, Field(ge=1, description="Smallest number of graphs in a leaf.")] = 1,
        max_features: Annotated[
            float | None,
            Field(
                gt=0,
                le=1,
                description="Share of the columns tried at each node; null: the square root, or one third for values.",
            ),
        ] = None,
    ) -> None:
        super().__init__(model, task)
        self.trees, self.balanced, self.min_leaf, self.max_features = trees, balanced, min_leaf, max_features
        several = task.kind != "multiclass"
        self.grown = Trees(self.model.columns, task.outputs if several else 1, 1 if several else task.outputs)

    def logits(self, counts: Tensor) -> Tensor:
        """Log-odds, log-probabilities of classes, or standardised values (B, C)."""
        if self.task.measured:
            return self.grown(counts)[..., 0].float()
        votes = self.grown(counts) * self.trees  # (B, G, V)
        if self.task.kind == "multiclass":
            return ((votes[:, 0] + 1) / (self.trees + self.task.outputs)).log().to(counts)
        return ((votes[..., 0] + 1).log() - (self.trees - votes[..., 0] + 1).log()).to(counts)

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the mean probability or value, weighted by ``direction`` (B, C)."""
        several = self.task.kind != "multiclass"
        return self.grown.contributions(counts, direction[..., None] if several else direction[:, None])

    def learn(self, counts: csr_matrix, y: Array, env: Array, seed: int, threads: int) -> None:
        """Grow the trees; environments are ignored."""
        rows, grown = counts.toarray(), []
        for place, target in enumerate([y] if y.ndim == 1 else y.T):
            known = np.flatnonzero(~np.isnan(target))
            some = rows if len(known) == len(rows) else rows[known]
            grown += self._grow(some, target[known], place, seed + place, threads)
        starts = np.cumsum([0, *(len(tree["child"]) for tree in grown)])
        joined = {name: np.concatenate([tree[name] for tree in grown]) for name in grown[0]}
        joined["child"] += np.repeat(starts[:-1], np.diff(starts)).astype(np.int32)
        if self.task.kind == "binary":
            joined["value"] = joined["value"][:, 1:]
        joined["root"] = starts[:-1].astype(np.int32).reshape(-1, self.trees)
        self.grown.set({name: torch.from_numpy(value) for name, value in joined.items()})

    def _grow(self, rows: Array, y: Array, place: int, seed: int, threads: int) -> list[dict[str, Any]]:
        """Grow the trees of the target at a place with scikit-learn and return each as arrays."""
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        settings: dict[str, Any] = {
            "min_samples_leaf": self.min_leaf,
            "n_jobs": threads,
            "random_state": seed % 2**32,
        }
        if self.task.measured:
            settings["max_features"] = VALUE_FEATURES if self.max_features is None else self.max_features
            standard = (y.astype(float) - self.task.centre[place]) / self.task.scale[place]
            forest = RandomForestRegressor(self.trees, **settings).fit(rows, standard)
            return [arrays(tree.tree_, None, 1, self.model.columns) for tree in forest.estimators_]
        settings["max_features"] = "sqrt" if self.max_features is None else self.max_features
        settings["class_weight"] = "balanced" if self.balanced else None
        forest = RandomForestClassifier(self.trees, **settings).fit(rows, y.astype(int))
        classes = self.task.outputs if self.task.kind == "multiclass" else 2
        return [arrays(tree.tree_, forest.classes_, classes, self.model.columns) for tree in forest.estimators_]


def arrays(tree: Any, found: Array | None, classes: int, columns: int) -> dict[str, Array]:
    """Return a tree of scikit-learn as arrays in the layout of `Trees`, nodes numbered level by level.

    Args:
        tree: The attribute ``tree_`` of a fitted tree.
        found: The classes that it knows; None for a tree of values.
        classes: Number of classes of the task; 1 for a tree of values.
        columns: Number of columns that nodes may compare.
    """
    left, right = tree.children_left, tree.children_right
    levels = [np.zeros(1, dtype=np.int64)]
    while len(levels[-1]):
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.stack((left[inner], right[inner]), 1).reshape(-1))
    order = np.concatenate(levels)  # old numbers in the new order
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    leaf = left[order] < 0
    # scikit-learn compares float32 values with float64 thresholds; rounding these down changes no comparison.
    exact = tree.threshold[order]
    threshold = exact.astype(np.float32)
    threshold = np.where(threshold > exact, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    shares = tree.value[order, 0, :]
    value = np.zeros((len(order), classes), dtype=np.float32)
    value[:, slice(None) if found is None else found] = (
        shares if found is None else shares / shares.sum(1, keepdims=True)
    )
    return {
        "child": np.where(leaf, np.arange(len(order)), number[left[order]]).astype(np.int32),
        "feature": np.where(leaf, 0, tree.feature[order]).astype(np.int16 if columns <= 1 << 15 else np.int32),
        "threshold": np.where(leaf, np.float32(np.inf), threshold),
        "value": value,
    }
