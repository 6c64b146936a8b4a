"""Decision trees as plain tensors: prediction, and its exact decomposition into contributions of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from goodformer.errors import InputError

PAIRS = 1 << 20
"""Pairs of a row and a tree that are followed at a time."""
REMEMBERED = 1 << 17
"""The same where all their steps are kept."""
Steps: TypeAlias = Iterable[tuple[Tensor, Tensor, Tensor | None]]


class Trees(nn.Module):
    """f(x) = mean over the trees of the value of the leaf that x reaches.

    At node i, x goes to node child[i] if x[feature[i]] <= threshold[i], otherwise to child[i] + 1. At a leaf
    child[i] = i and threshold[i] is infinite. Children have larger numbers than their parent, so every path ends.
    All trees lie end to end, in groups of equally many trees.

    Attributes:
        child: First child of each node, (M,) int32.
        feature: Column that each node compares, (M,) int16 or int32.
        threshold: Value that it compares with, (M,) float32.
        value: Mean output of the training rows in each node, (M, V) float32.
        root: First node of each tree, (G, T) int32: G groups of T trees.
    """

    child: Tensor
    feature: Tensor
    threshold: Tensor
    value: Tensor
    root: Tensor
    names = ("child", "feature", "threshold", "value", "root")
    fixed_depth: int | None = None
    """Steps that every pair of a row and a tree takes, for exported models; None stops each pair at its leaf."""

    def __init__(self, columns: int, groups: int, outputs: int) -> None:
        super().__init__()
        self.columns, self.groups, self.outputs = columns, groups, outputs
        self.register_buffer("child", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("feature", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(0))
        self.register_buffer("value", torch.zeros(0, outputs))
        self.register_buffer("root", torch.zeros(groups, 0, dtype=torch.int32))

    def set(self, tensors: dict[str, Tensor]) -> None:
        """Replace the trees, after checking them."""
        for reason in self._faults(tensors):
            raise InputError(f"the decision trees are damaged ({reason}); restore the file or train again.")
        device = self.child.device
        for name in self.names:
            setattr(self, name, tensors[name].to(device))

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean value of the leaves of each group, (B, G, V), in double precision."""
        if self.fixed_depth is not None:
            return self._means(self._leaves(x.float(), self.fixed_depth))
        parts = [self._leaf_means(len(part), self._steps(part)) for part in self._parts(x)]
        return torch.cat(parts) if parts else x.new_zeros(0, self.groups, self.outputs).double()

    def contributions(self, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split sum over g, v of direction[g, v] f(x)[g, v] into a constant and one term per column.

        Each step from a node to its child changes the value; the change is the contribution of the column that the
        node compares. The constant is the value of the roots. Constant and terms add up to the weighted output.

        Paper: Saabas, "Interpreting random forests", 2014; Palczewska et al., 2014.

        Args:
            x: Rows, (B, F).
            direction: Weight of each output, for each row, (B, G, V).

        Returns:
            The constants (B,) and the terms (B, F), in double precision.
        """
        parts = zip(self._parts(x), self._parts(direction), strict=True)
        constants, terms = zip(*(self._terms(self._steps(part), weight) for part, weight in parts), strict=True)
        return torch.cat(constants), torch.cat(terms)

    def explained(self, x: Tensor, direct: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return f of rows (B, F) and its `contributions` from one walk; ``direct`` makes directions of rows of f."""
        found = []
        for part in self._parts(x, REMEMBERED):
            steps = list(self._steps(part))
            means = self._leaf_means(len(part), steps)
            found.append((means, *self._terms(steps, direct(means))))
        means, constants, terms = map(torch.cat, zip(*found, strict=True))
        return means, constants, terms

    def _terms(self, steps: Steps, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return `contributions` of some rows, given their steps and the weights of outputs (B, G, V)."""
        rows, trees = len(direction), self.root.shape[1]
        scaled = (direction.double() / trees).repeat_interleave(trees, 1).flatten(0, 1)  # (B G T, V)
        before = scaled.new_zeros(len(scaled))
        constant, found = before[:0], scaled.new_zeros(rows * self.columns)
        for pair, node, compared in steps:
            now = (self.value[node] * scaled[pair]).sum(-1)
            if compared is None:
                constant = now.view(rows, -1).sum(1)
            else:
                found.index_add_(0, compared, now - before[pair])
            before[pair] = now
        return constant, found.view(rows, self.columns)

    def _leaf_means(self, rows: int, steps: Steps) -> Tensor:
        """Return the mean leaf values of some rows, (B, G, V), given their steps."""
        leaf = torch.zeros(rows * self.root.numel(), dtype=torch.long, device=self.child.device)
        for pair, node, _ in steps:
            leaf[pair] = node
        return self._means(leaf.view(rows, -1))

    def _means(self, leaf: Tensor) -> Tensor:
        """Return the mean value of the leaves (B, G T) of each group, (B, G, V)."""
        return self.value[leaf].double().unflatten(1, tuple(self.root.shape)).mean(2)

    def _leaves(self, x: Tensor, depth: int) -> Tensor:
        """Return the leaf that each row reaches in each tree, (B, G T); whoever is at a leaf stays there."""
        node = self.root.flatten().long().expand(x.shape[0], -1)
        for _ in range(depth):
            node = self.child[node].long() + (x.gather(1, self.feature[node].long()) > self.threshold[node])
        return node

    def settle(self) -> None:
        """Let every pair of a row and a tree take as many steps as the deepest tree has, for exported models."""
        self.fixed_depth = self.depth()

    def depth(self) -> int:
        """Return the length of the longest path from a root to a leaf."""
        level = torch.zeros(len(self.child), dtype=torch.long)
        child, last = self.child.long().cpu(), -1
        inner = (child != torch.arange(len(child))).nonzero()[:, 0]
        while int(level.max()) > last:  # each round reaches one level further
            last = int(level.max())
            below = level[inner] + 1
            level[child[inner]] = below
            level[child[inner] + 1] = below
        return last

    def _steps(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Follow all pairs of a row and a tree at once, from the roots down.

        Yields:
            At each step the pairs that moved, their new nodes, and the entry of ``x`` that was compared (numbered along
            the rows); the latter is None at the roots.
        """
        pair = torch.arange(len(x) * self.root.numel(), device=x.device)
        start = pair // self.root.numel() * self.columns  # first entry of the pair's row
        node = self.root.flatten().long().repeat(len(x))
        entries = x.float().flatten()
        yield pair, node, None
        while True:
            inner = self.child[node] != node
            pair, start, node = pair[inner], start[inner], node[inner]
            if not len(pair):
                return
            compared = start + self.feature[node]
            node = self.child[node].long() + (entries[compared] > self.threshold[node])
            yield pair, node, compared

    def _parts(self, rows: Tensor, pairs: int | None = None) -> list[Tensor]:
        """Cut rows into parts of bounded work; the cut does not depend on the values."""
        if not self.root.numel():
            raise InputError("the forest has no trees yet; fit it first.")
        return list(rows.split(max((pairs or PAIRS) // self.root.numel(), 1))) if len(rows) else []

    def _faults(self, tensors: dict[str, Tensor]) -> Iterator[str]:
        """Yield what is wrong with trees; each check relies on those before it."""
        child, feature, threshold, value, root = (tensors[name] for name in self.names)
        nodes = child.numel()
        shapes = {"child": (nodes,), "feature": (nodes,), "threshold": (nodes,), "value": (nodes, self.outputs)}
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                yield f"{name} has the shape {tuple(tensors[name].shape)}, not {shape}"
        if root.dim() != 2 or root.shape[0] != self.groups:
            yield f"{root.shape[0] if root.dim() else 0} groups of trees, not {self.groups}"
        if any(one.is_floating_point() for one in (child, feature, root)):
            yield "real numbers in place of node numbers"
        number = torch.arange(nodes)
        leaf = child == number
        if bool((child < number).any()) or bool((leaf != torch.isposinf(threshold)).any()):
            yield "a path without end"
        limits = (("node", child.long() + ~leaf, nodes), ("root", root, nodes), ("column", feature, self.columns))
        for what, given, size in limits:
            if given.numel() and not (int(given.min()) >= 0 and int(given.max()) < size):
                yield f"a {what} out of range"
        if not bool(value.isfinite().all()) or bool(threshold.isnan().any()):
            yield "values that are not finite"

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Take trees of any size; missing tensors are reported as always."""
        found = {name: state_dict[prefix + name] for name in self.names if prefix + name in state_dict}
        if len(found) == len(self.names):
            self.set({name: value.cpu() for name, value in found.items()})
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[no-untyped-call]
