"""The paper's two theorems on attention, checked on logits alone: no model and no graph is needed.

Letters: n logits of one row of attention, T temperatures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from goodformer.data.benchmarks.motif import MOTIF_NODES
from goodformer.nn.temperature import row_entropy

LOW, HIGH = -2.0, 2.0
"""The bounds m and M of the random logits."""
COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Numbers of nodes n for which random logits are drawn."""
TEMPERATURES = np.geomspace(0.2, 10, 41)
COMPARED = (0.5, 1.0, 2.0)
"""Temperatures at which the paper's expression for the derivative is compared with the exact one."""


# Theorem 1: attention over bounded logits disperses as n grows --------------------------------------------------------


def weight_bound(spread: Tensor, n: int) -> Tensor:
    """Return the upper bound of a weight of Softmax(e), exp(spread) / n, where max e - min e = spread."""
    return spread.exp() / n


def entropy_bound(spread: Tensor, n: int) -> Tensor:
    """Return the lower bound of the entropy of Softmax(e), log n - spread, which follows from `weight_bound`."""
    return math.log(n) - spread


def gap_bound(low: float, high: float, invariant: int, variant: int) -> float:
    """Return Theorem 1's bound on the difference of a weight inside the invariant subgraph and one outside of it.

    Args:
        low: m, the lower bound of the logits outside, which are negative.
        high: M, the upper bound of the logits inside, which are positive.
        invariant: n_c, the number of logits inside.
        variant: n_s, the number of logits outside.
    """
    return (math.exp(high) - math.exp(low)) / (invariant + variant * math.exp(low))


def worst_gap(n: int) -> float:
    """Return the supremum of the gap under Theorem 1's premise: one logit at M, four close to 0, all others at m."""
    top, bottom = math.exp(HIGH), math.exp(LOW)
    return (top - bottom) / (top + MOTIF_NODES - 1 + (n - MOTIF_NODES) * bottom)


def bounded_logits(rows: int, n: int, draw: torch.Generator) -> Tensor:
    """Draw uniform logits (rows, n): the first five in (0, M], all others in [m, 0)."""
    share = 1 - torch.rand(rows, n, generator=draw, dtype=torch.double)  # (0, 1]
    inside = torch.arange(n) < MOTIF_NODES
    return torch.where(inside, HIGH * share, LOW * share)


def dispersion(counts: Sequence[int] = COUNTS, rows: int = 200, seed: int = 0) -> list[dict[str, float]]:
    """Compare random logits that satisfy Theorem 1's premise with its bounds, one entry per number of nodes.

    Every entry holds the most extreme value over all rows beside the value that the bound allows.
    """
    draw = torch.Generator().manual_seed(seed)
    spread = torch.tensor(HIGH - LOW, dtype=torch.double)
    found = []
    for n in counts:
        logits = bounded_logits(rows, n, draw)
        p = logits.softmax(-1)
        gap = p[:, :MOTIF_NODES].amax(-1) - p[:, MOTIF_NODES:].amin(-1)  # the widest gap of each row
        found.append(
            {
                "nodes": n,
                "gap": float(gap.max()),
                "gap_worst": worst_gap(n),
                "gap_bound": gap_bound(LOW, HIGH, MOTIF_NODES, n - MOTIF_NODES),
                "largest": float(p.max()),
                "largest_bound": float(weight_bound(spread, n)),
                "entropy": float(row_entropy(logits, p).min()),
                "entropy_bound": float(entropy_bound(spread, n)),
            }
        )
    return found


# Theorem 2: entropy rises with temperature ----------------------------------------------------------------------------


def entropy_at(e: Tensor, t: Tensor) -> Tensor:
    """Return H(t), the entropy of Softmax(e / t), for logits (n,) and temperatures (T,), as (T,)."""
    logits = e / t[:, None]  # (T, n)
    return row_entropy(logits, logits.softmax(-1))


def entropy_slope(e: Tensor, t: Tensor) -> Tensor:
    """Return dH/dt = Var_p(e) / t^3 with p = Softmax(e / t), exactly, (n,), (T,) -> (T,)."""
    p = (e / t[:, None]).softmax(-1)  # (T, n)
    mean = (p * e).sum(-1, keepdim=True)
    return (p * (e - mean).square()).sum(-1) / t**3


def published_slope(e: Tensor, t: Tensor) -> Tensor:
    """Return the paper's expression for dH/dt, in which dp_i/dt lacks the terms of the other logits."""
    p = (e / t[:, None]).softmax(-1)  # (T, n)
    return (e.square() * p * (1 - p)).sum(-1) / t**3


def autograd_slope(e: Tensor, t: Tensor) -> Tensor:
    """Return dH/dt by automatic differentiation, (n,), (T,) -> (T,)."""
    free = t.clone().requires_grad_()
    return torch.autograd.grad(entropy_at(e, free).sum(), free)[0]


def difference_slope(e: Tensor, t: Tensor, step: float = 1e-4) -> Tensor:
    """Return dH/dt by central differences of the relative width ``step``, (n,), (T,) -> (T,)."""
    return (entropy_at(e, t * (1 + step)) - entropy_at(e, t * (1 - step))) / (2 * step * t)


def vectors() -> dict[str, Tensor]:
    """Return the vectors of logits whose entropy is shown, by name."""
    draw = torch.Generator().manual_seed(0)
    return {
        "1 of 20 stands out": torch.tensor([2.0] + 19 * [-1.0], dtype=torch.double),
        "5 of 50 stand out": torch.tensor(5 * [2.0] + 45 * [-2.0], dtype=torch.double),
        "20 normal draws": torch.randn(20, generator=draw, dtype=torch.double),
    }


def slopes(name: str, e: Tensor) -> dict[str, Any]:
    """Compute the entropy of one vector over all temperatures, its derivative in four ways, and their differences."""
    t = torch.from_numpy(TEMPERATURES)
    some = torch.tensor(COMPARED, dtype=torch.double)
    entropy, exact = entropy_at(e, t), entropy_slope(e, t)
    autograd, difference = autograd_slope(e, t), difference_slope(e, t)

    def error(other: Tensor) -> float:
        """The largest difference to the exact derivative, as a share of the largest value."""
        return float((exact - other).abs().max() / other.abs().max())

    def short(values: Tensor) -> list[float]:
        return [float(f"{value:.6g}") for value in values.tolist()]

    return {
        "name": name,
        "logits": len(e),
        "t": short(t),
        "entropy": short(entropy),
        "slope": short(exact),
        "difference": short(difference),
        "rises": bool((entropy.diff() > 0).all()),
        "error_autograd": error(autograd),
        "error_difference": error(difference),
        "published_ratio": short(published_slope(e, some) / entropy_slope(e, some)),
    }
