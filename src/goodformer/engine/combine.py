"""What combines the members of a blend: temperatures, shifts and weights, learnt from labelled graphs.

Letters: M members, B graphs, C outputs, L known labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.engine.evaluate import collect
from goodformer.methods.base import Method, link, mean_loss, standardised
from goodformer.methods.blend import Blend, Combination, Mean
from goodformer.spec import Task

EQUAL = 5.0
"""How many validation labels the belief in equal weights of all methods is worth.

Chosen with probabilities rather than log-odds as what is averaged, on BACE and BBBP: weights learnt on one of their two
validation splits, judged on the other.
"""
ROUNDS = 500
TEMPERATURES = 2.0 ** torch.arange(-2, 5.01, 0.125, dtype=torch.double)
"""Temperatures that are tried for each member."""
NEWTON = 50
"""Steps of at most 1 in which a shift is found."""
FEWEST, FOLDS = 20, 5
"""Validation labels below which members keep temperature 1 and equal weights, and folds of their honest metrics."""


def combine(blend: Blend, graphs: GraphSet, batch_size: int = 256, shift: bool = False) -> Tensor | None:
    """Learn from labelled graphs how a blend combines its members.

    Returns:
        Logits of these graphs (B, C), in the order of `collect`, for an honest estimate of the blend: a fifth of the
        graphs at a time is predicted by the combination that the others teach. None without graphs.
    """
    if not len(graphs):
        return None
    found = [collect(_plain(part), graphs, batch_size) for part in blend.parts]
    logits, y = torch.stack([one["logits"].double() for one in found]), found[0]["y"]  # (M, B, C)
    labels = y.double() if y.is_floating_point() else y
    kinds, held_out = [type(part).__name__ for part in blend.parts], torch.zeros_like(logits[0])
    for held in folds(labels):
        known = learn(blend.task, kinds, logits[:, ~held], labels[~held], shift, blend.mean)
        held_out[held] = known.mix(blend.task, logits[:, held])
    blend.combination = learn(blend.task, kinds, logits, labels, shift, blend.mean)
    return held_out.to(found[0]["logits"])


def folds(y: Tensor) -> list[Tensor]:
    """Return which graphs each fold holds, (B,) for each; labels of the first target are spread evenly.

    Otherwise a fold with many positives would be predicted by a combination that expects few, and the other way round.
    """
    mixed = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    first = y if y.dim() == 1 else y[:, 0]
    fold = torch.empty(len(y), dtype=torch.long)
    fold[mixed[first[mixed].argsort(stable=True)]] = torch.arange(len(y)) % FOLDS
    return [fold == number for number in range(FOLDS)]


def learn(
    task: Task, kinds: Sequence[str], logits: Tensor, y: Tensor, shift: bool, mean: Mean = "probabilities"
) -> Combination:
    """Learn the temperature of each member, then the weights; too few labels leave temperatures 1 and weights equal.

    With ``shift``, log-odds of binary targets are also shifted: a forest that weighs classes equally overstates rare
    ones. Weights of a mean of log-odds stay equal.

    Args:
        task: What is predicted.
        kinds: The kind of each member; all kinds have the same weight before labels are seen.
        logits: Logits of the members (M, B, C).
        y: Labels of the graphs.
        shift: Whether to shift log-odds.
        mean: What is averaged.
    """
    equal = torch.full((len(logits),), 1 / len(logits), dtype=torch.double)
    temperatures, shifts = torch.ones_like(equal), logits.new_zeros(len(logits), logits.shape[2])
    if int((~y.isnan()).sum()) < FEWEST or not bool(logits.isfinite().all()):
        return Combination(equal, temperatures, shifts, mean)
    prior = kind_weights(kinds)
    if task.measured:
        return Combination(mean_weights(logits, standardised(task, y), prior), temperatures, shifts)
    for place, z in enumerate(logits):
        tried = z / TEMPERATURES[:, None, None]  # (K, B, C)
        found = best_shift(tried, y) if shift and task.kind == "binary" else shifts[place].expand(len(tried), -1)
        risks = [float(mean_loss(task, one, y)) for one in tried + found[:, None]]
        best = risks.index(min(risks))
        temperatures[place], shifts[place] = TEMPERATURES[best], found[best]
    if mean == "log_odds":
        return Combination(equal, temperatures, shifts, mean)
    scaled = Combination(equal, temperatures, shifts).scaled(logits)
    return Combination(mixture_weights(likelihoods(task, scaled, y), prior), temperatures, shifts)


def best_shift(logits: Tensor, y: Tensor) -> Tensor:
    """Return the b of each target (*, C) that minimises sum_l loss(logits + b, y) + b^2 / 2, by Newton's method.

    Args:
        logits: Log-odds (*, B, C).
        y: Binary labels (B, C), NaN for missing ones.
    """
    known = ~y.isnan()
    b = logits.new_zeros(*logits.shape[:-2], 1, logits.shape[-1])
    for _ in range(NEWTON):
        p = (logits + b).sigmoid() * known
        slope = (p - y.nan_to_num() * known).sum(-2, keepdim=True) + b
        b = b - (slope / ((p * (1 - p)).sum(-2, keepdim=True) + 1)).clamp(-1, 1)
    return b.squeeze(-2)


def kind_weights(kinds: Sequence[str]) -> Tensor:
    """Return weights (M,) that are equal for all kinds and shared by the members of a kind."""
    return torch.tensor([1 / kinds.count(kind) for kind in kinds], dtype=torch.double) / len(set(kinds))


def likelihoods(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """Return the probability of each known label under each member (M, L), from logits (M, B, C)."""
    p = link(task, logits)
    if task.kind == "multiclass":
        return p.gather(2, y.expand(len(p), -1)[..., None])[..., 0]
    known = ~y.isnan()  # (B, C)
    return torch.where(y > 0.5, p, 1 - p)[:, known]


def mixture_weights(likelihood: Tensor, prior: Tensor) -> Tensor:
    """Return the weights (M,) of a mixture that maximise sum_l log sum_k w_k p_kl + EQUAL sum_k prior_k log w_k.

    The prior counts like `EQUAL` further labels. Expectation maximisation finds the maximum, which is unique because
    the sum is concave in w.

    Args:
        likelihood: p_kl, probability of label l under member k, (M, L).
        prior: Weights without any label, (M,); their sum is 1.
    """
    labels, weights = likelihood.shape[1], prior
    for _ in range(ROUNDS):
        joint = weights[:, None] * likelihood.clamp(min=1e-12)
        weights = ((joint / joint.sum(0)).sum(1) + EQUAL * prior) / (labels + EQUAL)
    return weights


def mean_weights(values: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """Return the weights (M,) of a weighted mean that minimise its squared error, with the prior of `mixture_weights`.

    The objective is that of a normal distribution around the mean whose variance is the error with the prior's weights:
    sum_l (sum_k w_k z_kl - y_l)^2 / (2 s^2) - EQUAL sum_k prior_k log w_k. It is convex in w.

    Args:
        values: Standardised predictions of each member, (M, B, T).
        y: Standardised labels (B, T), NaN for missing ones.
        prior: Weights without any label, (M,); their sum is 1.
    """
    from scipy.optimize import minimize

    known = ~y.isnan()
    error = values[:, known] - y[known]  # (M, L)
    gram, labels = (error @ error.T).numpy(), error.shape[1]  # w'Gw is the squared error, since the weights sum to 1
    start = prior.numpy()
    variance = max(float(start @ gram @ start) / labels, 1e-12)

    def objective(logits: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        w = np.exp(logits - logits.max())
        w /= w.sum()
        slope = gram @ w / variance  # by w
        value = float(w @ gram @ w) / (2 * variance) - EQUAL * float(start @ np.log(w.clip(1e-300)))
        return value, w * (slope - w @ slope) - EQUAL * (start - w)

    found = minimize(objective, np.log(start), jac=True, method="L-BFGS-B", bounds=[(-12.0, 12.0)] * len(start)).x
    w = np.exp(found - found.max())
    return torch.from_numpy(w / w.sum())


def _plain(part: Any) -> Method:
    """Return a member as the method it is."""
    assert isinstance(part, Method)
    return part
