"""Gaussian process on fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from goodformer.errors import InputError
from goodformer.methods.base import predicted_direction
from goodformer.methods.counts import CountMethod, Sharing, check_labels, shared
from goodformer.methods.left_out import Array, best_value, evenly
from goodformer.models.base import GraphModel
from goodformer.nn.kernel import CHUNK, Kernel, combined
from goodformer.spec import Task

SAMPLE, TARGETS, GROUPS = 1000, 3, 8
"""Most graphs and targets that choose the parameters of the kernel, and most groups of targets solved at a time."""
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
    sample of these is kept, whose weights are fitted to all of them (subset of regressors).

    Binary labels and classes are fitted like values 0 and 1. The log-odds are those of the training graphs plus f times
    a slope, which minimises the loss of left-out graphs: each of the 1,000 is predicted from the others.

    Kept graphs are part of the model: it holds the counts of their substructures.

    Paper: Rasmussen & Williams, "Gaussian Processes for Machine Learning", 2006 (subset of regressors: 8.3.1); on
    molecules: Griffiths et al., "GAUCHE", 2023.
    """

    seedless, keeps_graphs = True, True
    in_words = (
        "Predicts a sum over training graphs, weighted by how similar their substructures and properties are; choose "
        "it for small tables of measured values."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        rows: Annotated[int, Field(ge=10, le=5000, description="Most training graphs that are kept.")] = 3000,
        sharing: Sharing = 0.0,
    ) -> None:
        super().__init__(model, task, sharing)
        self.rows = rows
        self.kernel = Kernel(self.model.counted, self.model.columns, task.outputs)

    def logits(self, counts: Tensor) -> Tensor:
        """Log-odds, logits of classes, or standardised values (B, C)."""
        return self.kernel(counts).to(counts)

    def contributions(self, counts: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Split the logits, weighted by ``direction`` (B, C)."""
        return self.kernel.contributions(counts, direction)

    def explained(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B, C) and the terms (B, F) of what they predict, from one comparison with the kept graphs."""

        def direct(values: Tensor) -> Tensor:
            return predicted_direction(self.task, values.to(counts)).to(counts)

        values, _, terms = self.kernel.explained(counts, direct)
        return values.to(counts), terms

    @torch.no_grad()
    def learn(self, counts: csr_matrix, y: Array, env: Array, seed: int, threads: int) -> None:
        """Choose the kernel and the share of the environment in labels, and weigh the kept graphs."""
        targets, device = self.targets(y), self.kernel.rows.device
        check_labels(targets)
        self.kernel.cpu()
        x = Rows(counts, self.kernel.centre.dtype)
        kept = np.arange(len(x))
        if len(kept) > self.rows:  # of rare classes as many as possible; the same ones for every seed
            kept = np.random.default_rng(0).permutation(kept)
            kept = (kept if self.task.measured else evenly(kept, np.nan_to_num(targets[0], nan=-1)))[: self.rows]
        self.kernel.keep(x[kept])
        labels, constant = self._labels(targets)
        some = np.random.default_rng(seed % 2**32).permutation(len(x))[:SAMPLE]
        parts = self.kernel.holding(x[some]).parts(x[some])
        self.kernel.shape, noise = likeliest(parts, labels[some])
        share = self._share(x, targets, env, noise, seed)
        if share:
            labels, _ = self._labels([_shared(target, env, share) for target in targets])
        alpha = self._weights(x, labels, kept, noise)
        if not self.task.measured:
            alpha *= self._slopes(combined(*parts, self.kernel.shape), noise, labels[some], constant, y[some])
        self.kernel.alpha, self.kernel.constant = alpha, constant
        self.kernel.to(device)

    def _labels(self, targets: Sequence[Array]) -> tuple[Tensor, Tensor]:
        """Return labels minus their means, (G, C), and the constants of the outputs (C,)."""
        if self.task.kind == "multiclass":
            labels = one_hot(torch.from_numpy(targets[0]), self.task.outputs).double()
        else:
            labels = torch.from_numpy(np.stack(targets, 1)).double()
        mean = labels.nanmean(0)
        if self.task.measured:
            return labels - mean, mean
        known = (~labels.isnan()).sum(0)
        smooth = (mean * known + 1) / (known + (self.task.outputs if self.task.kind == "multiclass" else 2))
        return labels - mean, smooth.log() if self.task.kind == "multiclass" else smooth.logit()

    def _weights(self, x: Rows, labels: Tensor, kept: Array, noise: float) -> Tensor:
        """Return the weights of the kept graphs (n, C)."""
        inner = self.kernel.between(x[kept])
        if len(kept) < len(x):
            return self._regressed(x, labels, inner, noise)
        alpha = labels.new_zeros(labels.shape)
        for known, outputs in patterns(labels):
            root = factor(inner[known[:, None], known], noise)
            alpha[known[:, None], outputs] = torch.cholesky_solve(labels[known[:, None], outputs], root)
        return alpha

    def _regressed(self, x: Rows, labels: Tensor, inner: Tensor, noise: float) -> Tensor:
        """Return weights of the kept graphs that learn from more graphs than are kept (subset of regressors).

        With K_nm the kernel of all and the kept graphs, they are (K_mn K_nm + noise K_mm)^-1 K_mn Y.
        """
        alpha, root = labels.new_zeros(len(inner), labels.shape[1]), factor(inner, JITTER)
        found = patterns(labels)
        for start in range(0, len(found), GROUPS):
            some = found[start : start + GROUPS]
            grams = [labels.new_zeros(inner.shape) for _ in some]
            rights = [labels.new_zeros(len(inner), len(outputs)) for _, outputs in some]
            for places in torch.arange(len(x)).split(CHUNK):
                seen = torch.linalg.solve_triangular(root, self.kernel.between(x[places.numpy()]).T, upper=False)
                for (_, outputs), gram, right in zip(some, grams, rights, strict=True):
                    values = labels[places[:, None], outputs]
                    known = ~values[:, 0].isnan()
                    gram.addmm_(seen[:, known], seen[:, known].T)
                    right.addmm_(seen[:, known], values[known])
            for (_, outputs), gram, right in zip(some, grams, rights, strict=True):
                inside = torch.cholesky_solve(right, factor(gram, noise))
                alpha[:, outputs] = torch.linalg.solve_triangular(root.T, inside, upper=True)
        return alpha

    def _slopes(self, covariance: Tensor, noise: float, labels: Tensor, constant: Tensor, y: Array) -> Tensor:
        """Return the slopes of log-odds (C,) that suit left-out graphs best; classes have one slope together.

        Args:
            covariance: Kernel of some graphs, (S, S).
            noise: Of labels.
            labels: What is fitted, (S, C), NaN for missing ones.
            constant: Constants of the outputs, (C,).
            y: True labels of these graphs.
        """
        left_out = torch.full_like(labels, torch.nan)
        for known, outputs in patterns(labels):
            inverse = torch.cholesky_inverse(factor(covariance[known[:, None], known], noise))
            own = labels[known[:, None], outputs]
            left_out[known[:, None], outputs] = own - (inverse @ own) / inverse.diagonal()[:, None]
        tried = SLOPES[:, None, None] * left_out + constant  # (K, S, C)
        if self.task.kind == "multiclass":
            truth = torch.from_numpy(y)
            return SLOPES[torch.stack([cross_entropy(one, truth) for one in tried]).argmin()].expand(labels.shape[1])
        truth = torch.from_numpy(y).double().expand_as(tried)
        risks = binary_cross_entropy_with_logits(tried.nan_to_num(), truth.nan_to_num(), reduction="none")
        return SLOPES[(risks * ~truth.isnan()).sum(1).argmin(0)]

    def _share(self, x: Rows, targets: Sequence[Array], env: Array, noise: float, seed: int) -> float:
        """Return the share of the environment's mean in labels, as given or as left-out environments say."""

        def fitted(share: float, places: Array, labels: Array, groups: Array, more: float) -> Callable[[Array], Array]:
            some = places[: self.rows]
            soft = shared(labels[: self.rows], groups[: self.rows], share) if share else labels[: self.rows]
            known = self.kernel.holding(x[some])
            centred = torch.from_numpy(soft - soft.mean()).double()[:, None]
            alpha = torch.cholesky_solve(centred, factor(known.between(x[some]), noise))
            return lambda held: (known.between(x[held]) @ alpha)[:, 0].numpy()

        shares = self.shares(targets, env)
        return best_value(shares, fitted, np.arange(len(x)), targets, env, self.task, seed, shares[0])


class Rows:
    """Counts of all graphs, of which a part is dense at a time.

    Args:
        counts: Counts (G, F).
        dtype: Type of the dense parts.
    """

    def __init__(self, counts: csr_matrix, dtype: torch.dtype) -> None:
        if not np.isfinite(counts.data).all():
            raise InputError("counts or properties of a training graph are not finite; remove this graph.")
        self.counts, self.dtype = counts, dtype

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def __getitem__(self, places: Array) -> Tensor:
        """Return the counts of some graphs (B, F)."""
        return torch.from_numpy(self.counts[places].toarray()).to(self.dtype)


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
                root = factor(combined(tanimoto, distance, product, values[:4]), values[4] + JITTER)
                whitened = torch.linalg.solve_triangular(root, y[:, None], upper=False)
                total = total + whitened.square().sum() / 2 + root.diagonal().log().sum()
            total.backward()
        assert free.grad is not None
        return float(total.detach()), free.grad.numpy()

    bounds = [(one - 6, one + 6) for one in start]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}).x
    values = torch.from_numpy(np.exp(found))
    return values[:4], float(values[4] + JITTER)


def factor(covariance: Tensor, noise: float | Tensor) -> Tensor:
    """Return the lower triangular L with L L' = K + noise I; noise grows if rounding makes this impossible."""
    for more in (0.0, 1e-5, 1e-4, 1e-3):
        added = noise + more * float(covariance.detach().diagonal().mean())
        root, failed = torch.linalg.cholesky_ex(covariance + added * torch.eye(len(covariance), dtype=covariance.dtype))
        if not failed:
            return root
    raise InputError("the similarities of the training graphs cannot be inverted; use another method.")


def patterns(labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return places of known labels (K,), and the outputs whose labels (G, C) are known exactly there."""
    missing, group = labels.isnan().T.unique(dim=0, return_inverse=True)
    return [
        ((~one).nonzero()[:, 0], (group == number).nonzero()[:, 0])
        for number, one in enumerate(missing)
        if not bool(one.all())
    ]


def _shared(target: Array, env: Array, share: float) -> Array:
    """Return labels that share the mean of their environment; missing ones stay missing."""
    known = ~np.isnan(target)
    found = target.astype(float)
    found[known] = shared(target[known], env[known], share)
    return found
