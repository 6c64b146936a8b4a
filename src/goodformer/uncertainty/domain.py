"""Domain scores: how unlike the training graphs a graph is, larger = more unusual."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.covariance import ledoit_wolf
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional as F

from goodformer.spec import Task
from goodformer.uncertainty.calibration import log_classes
from goodformer.uncertainty.observe import Seen

State = dict[str, Tensor]
NEIGHBOURS = 10


@dataclass(frozen=True)
class Candidate:
    """A way to say how unlike the training graphs a graph is.

    Attributes:
        about: What it is, in a few words.
        measure: Task, what was learnt, B graphs -> (B,), larger = more unusual.
        learn: Task, graphs -> tensors that ``measure`` needs.
        trains: Whether it learns from training graphs and not from validation ones.
        embeds: Whether it reads embeddings.
        signal: The method's own figure that it reads.
        baseline: Whether it reads no model: there to be compared with, never what `best` names.
    """

    about: str
    measure: Callable[[Task, State, Seen], Tensor]
    learn: Callable[[Task, Seen], State] = lambda task, seen: {}
    trains: bool = False
    embeds: bool = False
    signal: str | None = None
    baseline: bool = False


def energy(task: Task, state: State, seen: Seen) -> Tensor:
    """-log sum exp(z); a binary target counts as two classes of logits z/2 and -z/2, so that their names do not matter.

    Paper: Liu et al., "Energy-based Out-of-distribution Detection", 2020.
    """
    z = seen.logits
    return -z.logsumexp(-1) if task.kind == "multiclass" else -(F.softplus(z) - z / 2).sum(-1)


def doubt(task: Task, state: State, seen: Seen) -> Tensor:
    """-log of the largest probability, a mean over binary targets."""
    return -log_classes(task, seen.logits).amax(-1).mean(-1)


def entropy(task: Task, state: State, seen: Seen) -> Tensor:
    """Entropy of the predicted distribution, a mean over binary targets."""
    log_p = log_classes(task, seen.logits)
    return -(log_p.exp() * log_p).sum(-1).mean(-1)


def mahalanobis(task: Task, state: State, seen: Seen) -> Tensor:
    """Distance of the embedding to the nearest class mean, in units of the spread within classes.

    Paper: Lee et al., "A Simple Unified Framework for Detecting Out-of-Distribution Samples", 2018.
    """
    whiten = state["whiten"]
    return torch.cdist(_embedding(seen) @ whiten, state["means"] @ whiten).amin(-1)


def learn_mahalanobis(task: Task, seen: Seen) -> State:
    """Means of the classes (one where targets are binary) and what turns their common covariance into the identity.

    The covariance is shrunk towards a multiple of the identity as Ledoit and Wolf do, so that it has an inverse.
    """
    x = _embedding(seen)
    labels = seen.y if task.kind == "multiclass" and seen.y is not None else torch.zeros(len(x), dtype=torch.long)
    _, group = labels.unique(return_inverse=True)
    counts = group.bincount().double()
    means = x.new_zeros(len(counts), x.shape[1]).index_add_(0, group, x) / counts[:, None]  # (K, D)
    covariance = torch.from_numpy(ledoit_wolf((x - means[group]).numpy(), assume_centered=True)[0])
    values, vectors = torch.linalg.eigh(covariance)
    floor = max(float(values.max()) * 1e-10, 1e-12)
    return {"means": means, "whiten": vectors * values.clamp(min=floor).rsqrt()}


def neighbours(task: Task, state: State, seen: Seen) -> Tensor:
    """Distance to the tenth nearest training graph, embeddings brought to length one.

    Paper: Sun et al., "Out-of-Distribution Detection with Deep Nearest Neighbors", 2022.
    """
    known = state["known"].double()  # (m, D)
    k = min(NEIGHBOURS, len(known))
    parts = F.normalize(_embedding(seen), dim=-1).split(512)  # all distances at once may not fit in memory
    return torch.cat([torch.cdist(part, known).kthvalue(k, -1).values for part in parts])


def learn_neighbours(task: Task, seen: Seen) -> State:
    """The training graphs' embeddings, of length one."""
    return {"known": F.normalize(_embedding(seen), dim=-1).float()}


def from_median(
    read: Callable[[Seen], Tensor], about: str, signal: str | None = None, baseline: bool = False
) -> Candidate:
    """Distance from the median in robust deviations, root mean square over columns (B, S): both sides are unusual."""

    def learn(task: Task, seen: Seen) -> State:
        values = read(seen)
        centre = values.median(0).values
        spread = 1.4826 * (values - centre).abs().median(0).values
        plain = values.std(0, correction=0)
        scale = torch.where(spread > 0, spread, torch.where(plain > 0, plain, torch.ones_like(plain)))
        return {"centre": centre, "scale": scale}

    def measure(task: Task, state: State, seen: Seen) -> Tensor:
        return ((read(seen) - state["centre"]) / state["scale"]).square().mean(-1).sqrt()

    return Candidate(about, measure, learn, signal=signal, baseline=baseline)


def from_signal(name: str, about: str) -> Candidate:
    """The same for one of the method's own figures."""
    return from_median(lambda seen: seen.signals[name][:, None], about, name)


def _embedding(seen: Seen) -> Tensor:
    assert seen.embedding is not None, "observe with embeds=True"
    return seen.embedding


DOMAIN_SCORES: dict[str, Candidate] = {
    "energy": Candidate("energy of the logits", energy),
    "doubt": Candidate("how small the largest probability is", doubt),
    "entropy": Candidate("entropy of the prediction", entropy),
    "mahalanobis": Candidate(
        "embedding to the nearest class mean", mahalanobis, learn_mahalanobis, trains=True, embeds=True
    ),
    "neighbours": Candidate(
        "embedding to the tenth nearest training graph", neighbours, learn_neighbours, trains=True, embeds=True
    ),
    "statistics": from_median(lambda seen: seen.statistics, "size and degrees, without a model", baseline=True),
    "temperature": from_signal("log_temperature", "solved attention temperature"),
    "entropy_gap": from_signal("entropy_gap", "attention entropy against that of training"),
}


def available(seen: Seen) -> list[str]:
    """The scores that graphs seen in this way have."""
    return [
        name
        for name, score in DOMAIN_SCORES.items()
        if (score.signal is None or score.signal in seen.signals) and not (score.embeds and seen.embedding is None)
    ]


def detection(usual: Tensor, unusual: Tensor) -> dict[str, float | None]:
    """How well scores tell graphs apart: ``auroc``, and ``fpr95``, the usual ones flagged where 95 % of others are."""
    if not (len(usual) and len(unusual) and bool(torch.cat((usual, unusual)).isfinite().all())):
        return {"auroc": None, "fpr95": None}
    truth = np.repeat([0, 1], [len(usual), len(unusual)])
    bar = unusual.sort(descending=True).values[math.ceil(0.95 * len(unusual)) - 1]
    return {
        "auroc": float(roc_auc_score(truth, torch.cat((usual, unusual)).numpy())),
        "fpr95": float((usual >= bar).double().mean()),
    }
