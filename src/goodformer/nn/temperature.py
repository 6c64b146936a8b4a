"""Entropy of attention, and the temperature at which it takes a given value (Eqs. 8 to 10, Theorem 2)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

Solver = Literal["exact", "descent", "joint_descent", "none"]

LOWEST, HIGHEST = 0.02, 50.0
"""Range of temperatures; where no temperature reaches the target entropy, the result is a limit of this range."""
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
"""Largest difference of entropies accepted as equal. In double precision the start, which depends on the largest graph
of the batch, no longer changes a prediction."""


STEPS, EXPORTED_STEPS = 40, 20
"""Most Newton steps, and how many an exported model takes; over 21,600 random cases at most 12 were needed."""
LARGE = 48
"""Nodes above which the search for a temperature starts on a few rows."""


def row_entropy(logits: Tensor, p: Tensor) -> Tensor:
    """Return the Shannon entropy of every p = Softmax(e), (..., n) -> (...): H = log sum exp(e) - sum p e.

    The first term is max e - log max p, so that no exponential is taken twice.
    """
    return logits.amax(-1) - p.amax(-1).log() - (p * logits).sum(-1)


class _SoftmaxEntropy(torch.autograd.Function):
    """p = Softmax(e) and its row entropies H. With J the Jacobian of Softmax, dH/de = -J e, so one product with J does.

    Autograd would compute the same in several more passes over e.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        p = logits.softmax(-1)
        ctx.save_for_backward(logits, p)
        ctx.set_materialize_grads(False)
        return p, row_entropy(logits, p)

    @staticmethod
    def backward(ctx: Any, grad_p: Tensor | None, grad_entropy: Tensor | None) -> Tensor | None:
        logits, p = ctx.saved_tensors
        if grad_entropy is not None:
            by_entropy = grad_entropy[..., None] * logits
            grad_p = -by_entropy if grad_p is None else grad_p - by_entropy
        return None if grad_p is None else torch._softmax_backward_data(grad_p, p, -1, p.dtype)


def softmax_entropy(logits: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return p = Softmax(logits), (B, H, n, n), and its mean entropy over rows that are nodes (mask (B, n)), (B, H)."""
    p, entropy = _SoftmaxEntropy.apply(logits)
    weight = rows[:, None].to(p.dtype)  # (B, 1, n)
    return p, (entropy * weight).sum(-1) / weight.sum(-1).clamp(min=1)


def solve_temperature(logits: Tensor, rows: Tensor, target: Tensor, tolerance: float | None = None) -> Tensor:
    """Return the t of each graph and head at which the mean entropy of Softmax(E / t) equals the target.

    Entropy rises with t: with b = 1/t and x the logits, dH/d(log b) = -b^2 Var_p(x). Newton steps on log b stay inside
    a bracket that every evaluation narrows; a step that would leave it is replaced by the bracket's middle. For large
    graphs, the start comes from a few of their rows, so that the full logits are read only two or three times. An
    exported model takes all steps from one start, because its operations cannot depend on values; settled ones change
    nothing.

    Args:
        logits: (B, H, n, n), a large negative number where a key is padding.
        rows: True where a row is a node, (B, n).
        target: Entropy to reach, (H,).
        tolerance: Largest difference of entropies accepted as equal; by default that of `TOLERANCE`.

    Returns:
        Temperatures (B, H).
    """
    tolerance = TOLERANCE.get(logits.dtype, TOLERANCE[torch.float32]) if tolerance is None else tolerance
    shifted, weight, goal = _blocks(logits, rows, target)
    log_b = torch.zeros_like(goal)
    if not torch.compiler.is_exporting():
        large = ((weight > 0).sum(1) > LARGE).nonzero()[:, 0]  # of a graph's own size, whatever it is padded to
        if len(large):
            log_b[large] = _newton(*_some_rows(shifted, weight, large, 12), goal[large], log_b[large], tolerance)
    return (-_newton(shifted, weight, goal, log_b, tolerance)).exp().view(logits.shape[:2])


def _blocks(logits: Tensor, rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return one block per graph and head.

    Logits minus the largest of their row (B*H, n, n), row weights (B*H, n) and goals (B*H,).
    """
    size, heads = logits.shape[:2]
    shifted = (logits - logits.amax(-1, keepdim=True)).flatten(0, 1)
    weight = (rows / rows.sum(1, keepdim=True).clamp(min=1)).to(logits.dtype)  # (B, n)
    weight = weight[:, None].expand(-1, heads, -1).flatten(0, 1)
    return shifted, weight, target.expand(size, heads).flatten().to(logits.dtype)


def _some_rows(shifted: Tensor, weight: Tensor, blocks: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ``count`` rows spread over the graph of each of G blocks, (G, count, n), with weights that sum to one."""
    sizes = (weight[blocks] > 0).sum(1)
    pick = (torch.arange(count, device=weight.device) * sizes[:, None]) // count  # (G, count)
    part = shifted[blocks[:, None], pick]
    return part, torch.full_like(part[..., 0], 1 / count)


def _newton(x: Tensor, weight: Tensor, goal: Tensor, log_b: Tensor, tolerance: float) -> Tensor:
    """Return log(1/t) of each block of x (G, r, n) by safeguarded Newton steps; settled blocks drop out.

    A step beyond a limit of the range ends at the limit, where an unreachable goal is recognised at once.
    """
    bottom, top = -math.log(HIGHEST), -math.log(LOWEST)
    low, high = torch.full_like(goal, bottom - 1), torch.full_like(goal, top + 1)  # the limits are not evaluated yet
    answer, active = log_b.clone(), torch.arange(goal.numel(), device=goal.device)
    exporting = torch.compiler.is_exporting()
    for _ in range(EXPORTED_STEPS if exporting else STEPS):
        entropy, slope = _entropy_and_slope(x, weight, log_b)
        gap = entropy - goal  # above the goal: b must grow
        settled = (gap.abs() <= tolerance) | ((log_b <= bottom) & (gap < 0)) | ((log_b >= top) & (gap > 0))
        low, high = torch.where(gap > 0, log_b, low), torch.where(gap > 0, high, log_b)
        settled |= high - low < tolerance / 100
        step = (log_b - gap / slope.clamp(max=-1e-12)).clamp(bottom, top)
        step = torch.where((step > low) & (step < high), step, ((low + high) / 2).clamp(bottom, top))
        log_b = torch.where(settled, log_b, step)
        if exporting:
            answer = log_b
            continue
        answer[active] = log_b
        left = (~settled).nonzero()[:, 0]
        if not len(left):
            break
        if 2 * len(left) <= len(settled):  # worth a copy
            x, weight, goal, log_b, low, high, active = (
                part[left] for part in (x, weight, goal, log_b, low, high, active)
            )
    return answer


def _entropy_and_slope(x: Tensor, weight: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted mean over rows of the entropy of Softmax(b x), and its derivative by log b."""
    b = log_b.exp()[:, None]
    p = (x * b[..., None]).clamp_(min=-80).exp_()  # (G, r, n), not yet divided by its sum; far underflow is slow
    total = p.sum(-1)
    px = p.mul_(x)
    mean = px.sum(-1) / total
    variance = (px.mul_(x).sum(-1) / total - mean.square()).clamp(min=0)
    entropy = total.log() - b * mean
    return (entropy * weight).sum(-1), -(b.square() * variance * weight).sum(-1)


def descend_temperature(
    logits: Tensor, rows: Tensor, target: Tensor, attentions: int = 1, steps: int = 10, rate: float = 1e-3
) -> Tensor:
    """Return temperatures (B, H) by the published descent: Adam on |H - target| from t = 1 (Eq. 10).

    With 10 steps at rate 0.001, t moves by about 1 % at most. The gradient is the exact
    sign(H - target) Var_p(e) / t^3, so no autograd graph is needed.

    Args:
        logits: (B, H, n, n), a large negative number where a key is padding.
        rows: True where a row is a node, (B, n).
        target: Entropy to reach, (H,) or (B, H).
        attentions: Stacked attentions of the same graphs, first all of one, then all of the next. They share one
            temperature per graph and head, which minimises the sum of their distances.
        steps: Number of Adam steps.
        rate: Learning rate of Adam.
    """
    shifted, weight, goal = _blocks(logits, rows, target)
    with torch.inference_mode(False):
        t = goal.new_ones(goal.numel() // attentions)
        adam = torch.optim.Adam([t], lr=rate)
        for _ in range(steps):
            every = t.repeat(attentions)
            entropy, slope = _entropy_and_slope(shifted, weight, -every.log())
            gradient = (entropy - goal).sign() * -slope / every  # slope is by log(1/t)
            t.grad = gradient.view(attentions, -1).sum(0)
            adam.step()
    return t.clamp(LOWEST, HIGHEST).repeat(attentions).view(logits.shape[:2])
