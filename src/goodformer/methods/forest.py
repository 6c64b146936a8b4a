"""Random forest on fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix
from torch import Tensor

from goodformer.batch import Batch
from goodformer.methods.base import predicted_direction
from goodformer.methods.counts import CountMethod, Sharing, check_labels, class_weights, shared
from goodformer.methods.left_out import Array, best_value
from goodformer.models.base import GraphModel
from goodformer.nn.trees import Trees
from goodformer.spec import Task

VALUE_FEATURES = 1 / 3
"""Share of the columns that trees for measured values try at each node, as Breiman recommends."""
LEAVES, CHOICE_TREES = (1, 3, 10, 30), 50
"""Sizes of leaves that cross-validation chooses from, and the most trees of each of its forests."""


class Forest(CountMethod):
    """p(y | G) = mean over the trees of the class shares in the leaf that the counts of G reach.

    Logits are log p of the classes, or log-odds for binary targets, with one vote for each class added. Every binary
    target has a forest of its own, grown from the graphs whose label is known. For measured targets, trees hold the
    mean standardised value of their leaves, whose mean over the trees is the prediction. Contributions of columns are
    the exact decomposition of p along the decision paths (`goodformer.nn.trees.Trees.contributions`). Without a given
    size of leaves, cross-validation that leaves out whole training environments chooses it, on at most 5,000 graphs; it
    is not scaled to all of them. ``sharing=None`` then chooses in the same way how much of a label is the mean of its
    environment. Shared labels make no pure leaves, so such trees are several times larger.

    Paper: Breiman, "Random Forests", 2001; on Morgan fingerprints: Svetnik et al., 2003.
    """

    differentiable = False
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
        min_leaf: Annotated[
            int | None,
            Field(
                ge=1,
                description="Smallest number of graphs in a leaf; null chooses it on left-out training environments.",
            ),
        ] = 1,
        max_features: Annotated[
            float | None,
            Field(
                gt=0,
                le=1,
                description="Share of the columns tried at each node; null: the square root, or one third for values.",
            ),
        ] = None,
        sharing: Sharing = 0.0,
    ) -> None:
        super().__init__(model, task, sharing)
        self.trees, self.balanced, self.min_leaf, self.max_features = trees, balanced, min_leaf, max_features
        several = task.kind != "multiclass"
        self.grown = Trees(self.model.columns, task.outputs if several else 1, 1 if several else task.outputs)

    def logits(self, counts: Tensor) -> Tensor:
        """Log-odds, log-probabilities of classes, or standardised values (B, C)."""
        return self._logits(self.grown(counts), counts)

    def _logits(self, means: Tensor, counts: Tensor) -> Tensor:
        """Return logits (B, C) from the means of the trees (B, G, V), in the precision of the counts."""
        if self.task.measured:
            return means[..., 0].float()
        votes = means * self.trees  # (B, G, V)
        if self.task.kind == "multiclass":
            return ((votes[:, 0] + 1) / (self.trees + self.task.outputs)).log().to(counts)
        return ((votes[..., 0] + 1).log() - (self.trees - votes[..., 0] + 1).log()).to(counts)

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the mean probability or value, weighted by ``direction`` (B, C)."""
        return self.grown.contributions(counts, self._grouped(direction))

    def explained(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B, C) and the terms (B, F) of what they predict, from one walk down the trees."""

        def direct(means: Tensor) -> Tensor:
            return self._grouped(predicted_direction(self.task, self._logits(means, counts)).to(counts))

        means, _, terms = self.grown.explained(counts, direct)
        return self._logits(means, counts), terms

    def _grouped(self, direction: Tensor) -> Tensor:
        """Return a direction (B, C) as weights of the outputs of the trees (B, G, V)."""
        return direction[:, None] if self.task.kind == "multiclass" else direction[..., None]

    def learn(self, counts: csr_matrix, y: Array, env: Array, seed: int, threads: int) -> None:
        """Choose the size of leaves and the share of the environment in labels, if not given, and grow the trees."""
        rows, targets, grown = counts.toarray(), self.targets(y), []
        check_labels(targets)
        chosen = self._choose(rows, targets, env, seed, threads)
        for place, target in enumerate(targets):
            known = np.flatnonzero(~np.isnan(target))
            some = rows if len(known) == len(rows) else rows[known]
            forest = self._grow(chosen, some, target[known], env[known], self.trees, seed + place, threads)
            found = getattr(forest, "classes_", None)
            classes = 1 if found is None else self.task.outputs if self.task.kind == "multiclass" else 2
            for tree in (arrays(one.tree_, found, classes, self.model.columns) for one in forest.estimators_):
                grown.append({**tree, "value": tree["value"][:, -self.grown.outputs :]})  # of two classes the second
        starts = np.cumsum([0, *(len(tree["child"]) for tree in grown)])
        joined = {name: np.concatenate([tree[name] for tree in grown]) for name in grown[0]}
        joined["child"] += np.repeat(starts[:-1], np.diff(starts)).astype(np.int32)
        joined["root"] = starts[:-1].astype(np.int32).reshape(-1, self.trees)
        self.grown.set({name: torch.from_numpy(value) for name, value in joined.items()})

    def out_of_bag(self, batches: Iterable[Batch], seed: int, threads: int = 1) -> Array:
        """Return what trees predict for the training graphs that they did not see: p of binary targets (G, T).

        Graphs without a label, and targets with a single class, keep their labels.
        """
        counts, y, env = self.table(batches)
        rows, targets = counts.toarray(), self.targets(y)
        chosen, found = self._choose(rows, targets, env, seed, threads), np.array(y, dtype=float)
        for place, target in enumerate(targets):
            known = np.flatnonzero(~np.isnan(target))
            if len(np.unique(target[known])) == 2:
                grown = self._grow(
                    chosen, rows[known], target[known], env[known], self.trees, seed + place, threads, True
                )
                p = grown.oob_prediction_ if hasattr(grown, "oob_prediction_") else grown.oob_decision_function_[:, 1]
                found[known, place] = np.where(np.isnan(p), target[known], p)
        return found

    def _choose(self, rows: Array, targets: Sequence[Array], env: Array, seed: int, threads: int) -> tuple[float, int]:
        """Return the share of the environment in labels and the size of leaves, as given or as left-out graphs say."""

        def scorer(
            choice: tuple[float, int], some: Array, labels: Array, groups: Array, more: float
        ) -> Callable[[Array], Array]:
            forest = self._grow(choice, some, labels, groups, min(self.trees, CHOICE_TREES), seed, threads)
            if hasattr(forest, "predict_proba") and self.task.kind == "binary":
                return lambda held: forest.predict_proba(held)[:, 1]
            return forest.predict  # type: ignore[no-any-return]

        def best(choices: list[tuple[float, int]], otherwise: tuple[float, int]) -> tuple[float, int]:
            return best_value(choices, scorer, rows, targets, env, self.task, seed, otherwise)

        shares, leaves = self.shares(targets, env), (self.min_leaf,) if self.min_leaf else LEAVES
        chosen = best([(shares[0], leaf) for leaf in leaves], (shares[0], leaves[len(leaves) // 2]))
        return best([(share, chosen[1]) for share in shares], chosen)

    def _grow(
        self,
        choice: tuple[float, int],
        rows: Array,
        y: Array,
        env: Array,
        trees: int,
        seed: int,
        threads: int,
        out_of_bag: bool = False,
    ) -> Any:
        """Return scikit-learn's forest; one of values if labels are measured or shared."""
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        share, min_leaf = choice
        settings: dict[str, Any] = {"min_samples_leaf": min_leaf, "n_jobs": threads, "random_state": seed % 2**32}
        settings["oob_score"] = out_of_bag
        soft = shared(y, env, share) if share else y
        if self.task.measured:
            columns = VALUE_FEATURES if self.max_features is None else self.max_features
            return RandomForestRegressor(trees, max_features=columns, **settings).fit(rows, soft)
        settings["max_features"] = "sqrt" if self.max_features is None else self.max_features
        if share and 0 < y.mean() < 1:
            negative, positive = class_weights(y, soft, self.balanced)
            weight = negative + positive
            return RandomForestRegressor(trees, **settings).fit(rows, positive / weight, weight)
        settings["class_weight"] = "balanced" if self.balanced else None
        return RandomForestClassifier(trees, **settings).fit(rows, y.astype(int))


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
