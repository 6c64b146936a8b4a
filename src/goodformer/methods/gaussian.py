"""Gaussian process on fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix
from torch import Tensor

from goodformer.errors import InputError
from goodformer.methods.base import mean_loss
from goodformer.methods.counts import CountMethod, Sharing, shared
from goodformer.methods.left_out import Array, best_value, evenly
from goodformer.models.base import GraphModel
from goodformer.nn.kernel import CHUNK, Kernel, combined
from goodformer.spec import Task

SAMPLE, TARGETS = 1000, 3
"""Most graphs and targets that choose the parameters of the kernel."""
START, SPREAD = (0.5, 0.5, 1.0, 0.1, 0.2), 1.5
"""Parameters a, b, l, d and the noise before any label is seen, and the standard deviation of their logarithms."""
SLOPES = 2.0 ** torch.arange(-2, 6.01, 0.25, dtype=torch.double)
"""Slopes of log-odds that are tried."""
JITTER, STEPS = 1e-6, 40


class GaussianProcess(CountMethod):
    """f ~ GP(0, k), y = f(G) + noise; the prediction is the posterior mean, a sum over kept training graphs.

    The kernel adds the Tanimoto similarity of counts to a Gaussian and a linear kernel on the further columns, such as
    sums of atom properties (`goodformer.nn.kernel.Kernel`). Its parameters and the noise maximise the marginal
    likelihood of at most 1,000 training graphs. Up to ``rows`` training graphs are kept; if there are more, a random
    sample of these is kept and learns from all of them (subset of regressors).

    Binary labels and classes are fitted like values 0 and 1. The log-odds are the log-odds of the training graphs plus
    f times a slope, which minimises the loss of left-out graphs: each of the 1,000 is predicted from the others.

    Kept graphs are part of the model: it holds the counts of their substructures.

    Paper: Rasmussen & Williams, "Gaussian Processes for Machine Learning", 2006 (subset of regressors: 8.3.1); on
    molecules: Griffiths et al., "GAUCHE", 2023.
    """

    seedless, keeps_graphs = True, True
    in_words = (
        "Predicts a weighted mean of the training graphs, weighted by how similar their substructures and properties "
        "are; choose it for small tables of measured values, where it is often the best single method."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        rows: Annotated[int, Field(ge=10, le=20_000, description="Most training graphs that are kept.")] = 3000,
        sharing: Sharing = 0.0,
    ) -> None:
        super().__init__(model, task, sharing)
        self.rows = rows
        self.kernel = Kernel(self.model.counted, self.model.columns, task.outputs)

    def logits(self, counts: Tensor) -> Tensor:
        """Log-odds, logits of classes, or standardised values (B, C)."""
        if not len(self.kernel.rows):
            raise InputError("the Gaussian process has no training graphs yet; fit it first.")
        return self.kernel(counts).to(counts)

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the logits, weighted by ``direction`` (B, C)."""
        return self.kernel.contributions(counts, direction)

    @torch.no_grad()
    def learn(self, counts: csr_matrix, y: Array, env: Array, seed: int, threads: int) -> None:
        """Choose the kernel and the share of the environment in labels, and weigh the kept graphs."""
        x, targets = torch.from_numpy(counts.toarray()).to(self.kernel.centre), self.targets(y)
        for place, target in enumerate(targets):
            if np.isnan(target).all():
                raise InputError(f"target {place + 1} has no label in training; remove it, or choose another split.")
        mixed = np.random.default_rng(seed % 2**32).permutation(len(x))
        if not self.task.measured:
            mixed = evenly(mixed, np.nan_to_num(targets[0], nan=-1))
        kept = torch.from_numpy(mixed[: self.rows])
        self.kernel.keep(x[kept])
        labels, constant = self._labels(targets)
        parts = [one[:SAMPLE, :SAMPLE] for one in self.kernel.parts(x[kept[:SAMPLE]])]
        sample = labels[kept[:SAMPLE]]
        self.kernel.shape, noise = likeliest(parts, sample)
        share = self._share(x, targets, env, noise, seed)
        if share:
            labels, _ = self._labels([_shared(target, env, share) for target in targets])
        alpha = self._weights(x, labels, kept, noise)
        slope = 1.0 if self.task.measured else self._slope(parts, noise, kept[:SAMPLE], sample, constant, y)
        self.kernel.alpha, self.kernel.constant = alpha * slope, constant

    def _labels(self, targets: Sequence[Array]) -> tuple[Tensor, Tensor]:
        """Return labels minus their means, (G, C), and the constants of the outputs (C,)."""
        if self.task.kind == "multiclass":
            labels = torch.nn.functional.one_hot(torch.from_numpy(targets[0]), self.task.outputs).double()
        else:
            labels = torch.from_numpy(np.stack(targets, 1)).double()
        mean = labels.nanmean(0)
        if self.task.measured:
            return labels - mean, mean
        known = (~labels.isnan()).sum(0)
        smooth = (mean * known + 1) / (known + (self.task.outputs if self.task.kind == "multiclass" else 2))
        return labels - mean, smooth.log() if self.task.kind == "multiclass" else smooth.logit()

    def _weights(self, x: Tensor, labels: Tensor, kept: Tensor, noise: float) -> Tensor:
        """Return the weights of the kept graphs (n, C), at once for outputs whose labels are missing together."""
        alpha, inner = labels.new_zeros(len(kept), labels.shape[1]), self.kernel.between(x[kept])
        missing, group = labels.isnan().T.unique(dim=0, return_inverse=True)
        for number, known in enumerate(~missing):
            outputs = (group == number).nonzero()[:, 0]
            if len(kept) == len(x):
                rows = known[kept].nonzero()[:, 0]
                own = inner[rows[:, None], rows]
                alpha[rows[:, None], outputs] = solved(own, labels[kept[rows]][:, outputs], noise)
            else:
                some = known.nonzero()[:, 0]
                alpha[:, outputs] = self._regressed(x[some], labels[some][:, outputs], inner, noise)
        return alpha

    def _regressed(self, x: Tensor, labels: Tensor, inner: Tensor, noise: float) -> Tensor:
        """Return weights of the kept graphs that learn from more graphs than are kept (subset of regressors)."""
        root = torch.linalg.cholesky(inner + JITTER * inner.diagonal().mean() * _eye(inner))
        gram, right = noise * _eye(inner), labels.new_zeros(len(inner), labels.shape[1])
        for rows, values in zip(x.split(CHUNK), labels.split(CHUNK), strict=True):
            seen = torch.linalg.solve_triangular(root, self.kernel.between(rows).T, upper=False)  # (n, chunk)
            gram += seen @ seen.T
            right += seen @ values
        inside = torch.cholesky_solve(right, torch.linalg.cholesky(gram))
        return torch.linalg.solve_triangular(root.T, inside, upper=True)

    def _slope(
        self, parts: Sequence[Tensor], noise: float, places: Tensor, labels: Tensor, constant: Tensor, y: Array
    ) -> float:
        """Return the slope of log-odds that suits left-out graphs best."""
        tanimoto, distance, product = parts
        covariance = combined(tanimoto, distance, product, self.kernel.shape) + noise * _eye(tanimoto)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        filled = labels.nan_to_num()
        left_out = filled - (inverse @ filled) / inverse.diagonal()[:, None]
        truth = torch.from_numpy(y)[places]
        risks = [float(mean_loss(self.task, slope * left_out + constant, truth)) for slope in SLOPES]
        return float(SLOPES[int(np.nanargmin(risks))])

    def _share(self, x: Tensor, targets: Sequence[Array], env: Array, noise: float, seed: int) -> float:
        """Return the share of the environment's mean in labels, as given or as left-out environments say."""

        def fitted(share: float, places: Array, labels: Array, groups: Array, more: float) -> Callable[[Array], Array]:
            some = places[: self.rows]
            soft = shared(labels[: self.rows], groups[: self.rows], share) if share else labels[: self.rows]
            known = self.kernel.holding(x[some])
            alpha = solved(known.between(x[some]), torch.from_numpy(soft - soft.mean()).double()[:, None], noise)
            return lambda held: (known.between(x[held]) @ alpha)[:, 0].numpy()

        shares = self.shares(targets, env)
        return best_value(shares, fitted, np.arange(len(x)), targets, env, self.task, seed, shares[0])


def likeliest(parts: Sequence[Tensor], labels: Tensor) -> tuple[Tensor, float]:
    """Return a, b, l, d of the kernel (4,) and the noise that maximise the marginal likelihood of labels.

    Args:
        parts: T, |p - p'|^2 and p . p' of the graphs, (S, S) each.
        labels: Labels without their means, (S, C), NaN for missing ones.
    """
    from scipy.optimize import minimize

    order = labels.isnan().sum(0).argsort(stable=True)[:TARGETS]
    chosen = []
    for target in labels.T[order]:
        known = (~target.isnan()).nonzero()[:, 0]
        deviation = target[known].std(correction=0) if len(known) else target.new_zeros(())
        if deviation > 0:
            own = known[:, None], known
            chosen.append(([one[own] for one in parts], target[known] / deviation))
    start = np.log(START)
    if not chosen:
        return torch.tensor(START[:4], dtype=torch.double), START[4]

    def objective(theta: Array) -> tuple[float, Array]:
        with torch.enable_grad():
            free = torch.from_numpy(theta).requires_grad_()
            values, total = free.exp(), (free - torch.from_numpy(start)).square().sum() / (2 * SPREAD**2)
            for (tanimoto, distance, product), y in chosen:
                covariance = combined(tanimoto, distance, product, values[:4]) + (values[4] + JITTER) * _eye(tanimoto)
                root = torch.linalg.cholesky(covariance)
                whitened = torch.linalg.solve_triangular(root, y[:, None], upper=False)
                total = total + whitened.square().sum() / 2 + root.diagonal().log().sum()
            total.backward()
        assert free.grad is not None
        return float(total.detach()), free.grad.numpy()

    bounds = [(one - 6, one + 6) for one in start]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}).x
    values = torch.from_numpy(np.exp(found))
    return values[:4], float(values[4] + JITTER)


def solved(covariance: Tensor, labels: Tensor, noise: float) -> Tensor:
    """Return (K + noise I)^-1 Y."""
    return torch.cholesky_solve(labels, torch.linalg.cholesky(covariance + noise * _eye(covariance)))


def _eye(like: Tensor) -> Tensor:
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def _shared(target: Array, env: Array, share: float) -> Array:
    """Return labels that share the mean of their environment; missing ones stay missing."""
    known = ~np.isnan(target)
    found = target.astype(float)
    found[known] = shared(target[known], env[known], share)
    return found
