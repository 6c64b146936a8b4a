"""Similarity of graphs to kept ones, by what they count and by further properties, and sums of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from goodformer.errors import InputError

LARGEST = 255
"""Counts above this are read as this."""
CHUNK = 1024
"""Rows that are compared with the kept ones at a time."""
STOPS = 8
"""Points of the path along which contributions of further columns are integrated."""


class Kernel(nn.Module):
    """f(x) = constant + sum over kept rows i of alpha_i k(x, x_i).

    k(x, x') = a T(c, c') + b exp(-|p - p'|^2 / 2 l^2) + d p . p', where c are the counts of a row and T is their
    Tanimoto similarity, sum_k min(c_k, c'_k) / sum_k max(c_k, c'_k). Further columns q become
    p = sign(q) log(1 + |q|), standardised and divided by the square root of their number.

    Paper: Ralaivola et al., "Graph Kernels for Chemical Informatics", 2005 (the MinMax kernel).

    Args:
        counted: Number of columns that are counts; they come first.
        columns: Number of all columns.
        outputs: Number of outputs C.

    Attributes:
        rows: Counts of the kept rows (n, counted), uint8.
        points: Their further columns as p (n, P), float32.
        centre: Means of the further columns before they are standardised, (P,).
        scale: What they are divided by, (P,); infinite for columns that are always the same.
        alpha: Weights of the kept rows (n, C), double.
        constant: Constants of the outputs (C,), double.
        shape: a, b, l and d, (4,), double.
    """

    rows: Tensor
    points: Tensor
    centre: Tensor
    scale: Tensor
    alpha: Tensor
    constant: Tensor
    shape: Tensor
    size: Tensor
    unary: Tensor
    column: Tensor
    level: Tensor
    dense = False
    names = ("rows", "points", "centre", "scale", "alpha", "constant", "shape")

    def __init__(self, counted: int, columns: int, outputs: int) -> None:
        super().__init__()
        self.counted, self.further, self.outputs = counted, columns - counted, outputs
        self.register_buffer("rows", torch.zeros(0, counted, dtype=torch.uint8))
        self.register_buffer("points", torch.zeros(0, self.further))
        self.register_buffer("centre", torch.zeros(self.further))
        self.register_buffer("scale", torch.ones(self.further))
        self.register_buffer("alpha", torch.zeros(0, outputs, dtype=torch.double))
        self.register_buffer("constant", torch.zeros(outputs, dtype=torch.double))
        self.register_buffer("shape", torch.ones(4, dtype=torch.double))
        for name in ("size", "unary", "column", "level"):
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def keep(self, x: Tensor) -> None:
        """Keep rows (n, F), and standardise further columns by their means and deviations."""
        logged = signed_log(x[:, self.counted :].double())
        deviation = (logged - logged.mean(0)).square().mean(0).sqrt()
        varied = deviation > 1e-6
        scale = torch.where(varied, deviation * varied.sum().clamp(min=1).sqrt(), torch.inf)
        self.centre, self.scale = logged.mean(0).to(self.centre), scale.to(self.scale)
        self.hold(x)

    def hold(self, x: Tensor) -> None:
        """Keep rows (n, F) without a change of the scales."""
        self.rows, self.points = x[:, : self.counted].round().clamp(0, LARGEST).to(torch.uint8), self.point(x)
        self._unfold()

    def set(self, tensors: dict[str, Tensor]) -> None:
        """Replace the kept rows and all weights, after checking them."""
        for reason in self._faults(tensors):
            raise InputError(f"the kept rows are damaged ({reason}); restore the file or train again.")
        device = self.rows.device
        for name in self.names:
            setattr(self, name, tensors[name].to(device))
        self._unfold()

    def point(self, x: Tensor) -> Tensor:
        """Return p of rows (B, P)."""
        return (signed_log(x[:, self.counted :].to(self.centre)) - self.centre) / self.scale

    def overlap(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return sum_k min(c_k, c'_k) and sum_k max(c_k, c'_k) for rows (B, F) and the kept rows, (B, n) each.

        A kept count c' is a whole number, so min(c, c') = sum over steps s <= c' of min(max(c - s + 1, 0), 1).
        """
        if not len(self.rows):
            raise InputError("the Gaussian process has no training graphs yet; fit it first.")
        shared = self._climbed(self._steps(x))
        total = x[:, : self.counted].clamp(max=LARGEST).sum(1, keepdim=True) + self.size
        return shared, (total - shared).clamp(min=1e-6)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return T, |p - p'|^2 and p . p' for rows (B, F) and the kept rows, (B, n) each, in double precision."""
        return self._parts(x, *self.overlap(x))

    def between(self, x: Tensor) -> Tensor:
        """Return k of rows (B, F) and the kept rows, (B, n), in double precision."""
        return torch.cat([combined(*self.parts(rows), self.shape) for rows in x.split(CHUNK)])

    def holding(self, x: Tensor) -> Kernel:
        """Return a kernel with the same parameters and scales that keeps other rows (n, F); it has no weights."""
        other = Kernel(self.counted, self.counted + self.further, self.outputs)
        other.centre, other.scale, other.shape = self.centre, self.scale, self.shape
        other.hold(x)
        return other

    def forward(self, x: Tensor) -> Tensor:
        """Return f of rows (B, F): (B, C), in double precision."""
        return self.between(x) @ self.alpha + self.constant

    def contributions(self, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split sum_c direction_c f_c(x) into a constant and one term per column.

        The Tanimoto similarity is a sum over counted columns, each with its share of the minimum. Terms of further
        columns are integrated gradients along the line from their means.

        Paper: Sundararajan et al., "Axiomatic Attribution for Deep Networks", 2017.

        Args:
            x: Rows (B, F).
            direction: Weight of each output, for each row, (B, C).

        Returns:
            The constants (B,) and the terms (B, F), in double precision.
        """
        return self.explained(x, lambda values: direction)[1:]

    def explained(self, x: Tensor, direct: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return f of rows (B, F) and its `contributions` from one comparison; ``direct`` makes directions of f."""
        a, b, length, d = self.shape.unbind()
        shared, union = self.overlap(x)
        values = combined(*self._parts(x, shared, union), self.shape) @ self.alpha + self.constant
        direction = direct(values).double()
        weight = direction @ self.alpha.T  # (B, n)
        steps = self._steps(x) * ((a * weight / union).to(self.unary) @ self.unary.T)
        counts = x.new_zeros(len(x), self.counted).index_add(1, self.column, steps.to(x)).double()
        p, kept = self.point(x).double(), self.points.double()
        slope = d * (weight @ kept)
        for stop, share in zip(*(one.tolist() for one in _gauss()), strict=True):
            at = stop * p
            near = weight * b * (-squared_distance(at, kept) / (2 * length**2)).exp()
            slope = slope + share * (near @ kept - near.sum(1, keepdim=True) * at) / length**2
        terms = torch.cat((counts, p * slope), 1)
        return values, (direction * values).sum(1) - terms.sum(1), terms

    def _parts(self, x: Tensor, shared: Tensor, union: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return `parts`, given `overlap`."""
        p, kept = self.point(x).double(), self.points.double()
        return (shared / union).double(), squared_distance(p, kept), p @ kept.T

    def _steps(self, x: Tensor) -> Tensor:
        """Return how much of each step every row climbs, (B, S)."""
        return (x[:, self.column].to(self.unary) - self.level + 1).clamp(0, 1)

    def _climbed(self, steps: Tensor) -> Tensor:
        """Return sum_s steps_s unary_ns for rows (B, S), (B, n); a row climbs few of the steps."""
        if self.dense:
            return steps @ self.unary
        row, step = steps.nonzero(as_tuple=True)
        starts = torch.searchsorted(row, torch.arange(len(steps), device=row.device))
        return embedding_bag(step, self.unary, starts, mode="sum", per_sample_weights=steps[row, step])

    def settle(self) -> None:
        """Compare all steps of every row, for exported models, whose operations cannot depend on values."""
        self.dense = True

    def _unfold(self) -> None:
        """Write the kept counts as steps: one column for every column and every value up to its largest count.

        Their sums are kept, too: adding up the bytes takes longer than any other part of a comparison.
        """
        self.size = self.rows.sum(1)  # (n,)
        largest = self.rows.amax(0).long() if len(self.rows) else self.rows.new_zeros(self.counted).long()
        column = torch.arange(self.counted, device=self.rows.device).repeat_interleave(largest)
        first = (largest.cumsum(0) - largest).repeat_interleave(largest)
        level = torch.arange(len(column), device=self.rows.device) - first + 1
        self.column, self.level = column, level.to(self.centre)
        self.unary = (self.rows[:, column] >= level).T.to(self.centre).contiguous()  # (S, n)

    def _faults(self, tensors: dict[str, Tensor]) -> Iterator[str]:
        """Yield what is wrong with kept rows and weights; each check relies on those before it."""
        rows = tensors["rows"]
        kept = rows.shape[0] if rows.dim() else 0
        shapes = {
            "rows": (kept, self.counted),
            "points": (kept, self.further),
            "centre": (self.further,),
            "scale": (self.further,),
            "alpha": (kept, self.outputs),
            "constant": (self.outputs,),
            "shape": (4,),
        }
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                yield f"{name} has the shape {tuple(tensors[name].shape)}, not {shape}"
        if rows.dtype != torch.uint8:
            yield "counts that are not whole numbers"
        if not all(bool(tensors[name].isfinite().all()) for name in ("points", "centre", "alpha", "constant", "shape")):
            yield "values that are not finite"
        if not bool((tensors["scale"] > 0).all()) or not bool(tensors["shape"][2] > 0):
            yield "a scale that is not positive"

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Take any number of rows; missing tensors are reported as always."""
        found = {name: state_dict[prefix + name] for name in self.names if prefix + name in state_dict}
        if len(found) == len(self.names):
            self.set({name: value.cpu() for name, value in found.items()})
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[no-untyped-call]


def combined(tanimoto: Tensor, distance: Tensor, product: Tensor, shape: Tensor) -> Tensor:
    """Return a T + b exp(-|p - p'|^2 / 2 l^2) + d p . p', given its parts and a, b, l, d."""
    a, b, length, d = shape.unbind()
    return a * tanimoto + b * (-distance / (2 * length**2)).exp() + d * product


def squared_distance(p: Tensor, kept: Tensor) -> Tensor:
    """Return |p - p'|^2 for rows (B, P) and (n, P), (B, n)."""
    return (p.square().sum(1, keepdim=True) + kept.square().sum(1) - 2 * p @ kept.T).clamp(min=0)


def signed_log(q: Tensor) -> Tensor:
    """Return sign(q) log(1 + |q|)."""
    return q.sign() * q.abs().log1p()


def _gauss() -> tuple[Tensor, Tensor]:
    """Return points and weights of Gauss-Legendre quadrature on [0, 1]."""
    at, share = np.polynomial.legendre.leggauss(STOPS)
    return torch.from_numpy((at + 1) / 2), torch.from_numpy(share / 2)
