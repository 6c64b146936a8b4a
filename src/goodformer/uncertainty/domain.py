"""Domain scores: how unlike the training graphs a graph is; larger = more unusual."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional as F

from goodformer.data.graphs import GraphSet
from goodformer.data.similarity import BITS, nearest_tanimoto
from goodformer.methods.base import SPREAD
from goodformer.spec import FeatureSpec, Task
from goodformer.transforms.environments import MOLECULE
from goodformer.uncertainty.calibration import log_classes
from goodformer.uncertainty.observe import ENVIRONMENTS, Seen, node_kinds

State = dict[str, Tensor]
HAVING, STARTS, ALL_ALIKE = "having", "starts", "all_alike"
"""Parts of the state of `similarity`: the training graphs (`learn_similarity`), or what is left without them."""
NEIGHBOURS, TWICE = 10, 2.0
INSIDE, UNUSUAL, LARGER, NEW_KIND = range(4)
"""Why a graph is outside the domain; ``NEW_KIND + k`` stands for a node of the kind k."""


@dataclass(frozen=True)
class DomainScore:
    """A measure of how unlike the training graphs a graph is.

    Attributes:
        about: A short description.
        measure: (task, state, B graphs) -> (B,), larger = more unusual.
        among: The same for the graphs that the state was learnt from, each measured against the others.
        learn: (task, graphs) -> the state that ``measure`` needs.
        keeps: Names of the tensors in this state.
        trains: Whether it is fitted to training graphs instead of validation graphs.
        embeds: Whether it reads embeddings.
        encodings: Encodings of the graphs that it reads.
        signal: The signal of the method that it reads.
        baseline: Whether it sees size and degrees alone; a baseline is never chosen as the default.
        classes: Whether it reads probabilities of classes, which measured targets do not have.
    """

    about: str
    measure: Callable[[Task, State, Seen], Tensor]
    learn: Callable[[Task, Seen], State] = lambda task, seen: {}
    keeps: tuple[str, ...] = ()
    among: Callable[[Task, State, Seen], Tensor] | None = None
    trains: bool = False
    embeds: bool = False
    encodings: tuple[str, ...] = ()
    signal: str | None = None
    baseline: bool = False
    classes: bool = False


def energy(task: Task, state: State, seen: Seen) -> Tensor:
    """Return -log sum exp(z); a binary target counts as two classes with logits z/2 and -z/2, whatever their order.

    Paper: Liu et al., "Energy-based Out-of-distribution Detection", 2020.
    """
    z = seen.logits
    return -z.logsumexp(-1) if task.kind == "multiclass" else -(F.softplus(z) - z / 2).sum(-1)


def doubt(task: Task, state: State, seen: Seen) -> Tensor:
    """Return -log of the largest probability, averaged over binary targets."""
    return -log_classes(task, seen.logits).amax(-1).mean(-1)


def entropy(task: Task, state: State, seen: Seen) -> Tensor:
    """Return the entropy of the predicted distribution, averaged over binary targets."""
    log_p = log_classes(task, seen.logits)
    return -(log_p.exp() * log_p).sum(-1).mean(-1)


def mahalanobis(task: Task, state: State, seen: Seen) -> Tensor:
    """Return the Mahalanobis distance of the embedding to the nearest class mean.

    Paper: Lee et al., "A Simple Unified Framework for Detecting Out-of-Distribution Samples", 2018.
    """
    whiten = state["whiten"]
    return torch.cdist(_embedding(seen) @ whiten, state["means"] @ whiten).amin(-1)


def learn_mahalanobis(task: Task, seen: Seen) -> State:
    """Return the class means (one mean for binary targets) and a whitening matrix of the shared covariance.

    Ledoit-Wolf shrinkage makes the covariance invertible.
    """
    from sklearn.covariance import ledoit_wolf  # needed to fit only, and takes a second

    x = _embedding(seen)
    labels = seen.y if task.kind == "multiclass" and seen.y is not None else torch.zeros(len(x), dtype=torch.long)
    _, group = labels.unique(return_inverse=True)
    counts = group.bincount().double()
    means = x.new_zeros(len(counts), x.shape[1]).index_add_(0, group, x) / counts[:, None]  # (K, D)
    covariance = torch.from_numpy(ledoit_wolf((x - means[group]).numpy(), assume_centered=True)[0])
    values, vectors = torch.linalg.eigh(covariance)
    floor = max(float(values.max()) * 1e-10, 1e-12)
    return {"means": means, "whiten": vectors * values.clamp(min=floor).rsqrt()}


def neighbours(task: Task, state: State, seen: Seen, nearest: int = NEIGHBOURS) -> Tensor:
    """Return the distance to the tenth nearest training graph, embeddings normalised to length 1.

    Paper: Sun et al., "Out-of-Distribution Detection with Deep Nearest Neighbors", 2022.
    """
    known = state["known"].double()  # (m, D)
    k = min(nearest, len(known))
    parts = F.normalize(_embedding(seen), dim=-1).split(512)  # all distances together may not fit in memory
    return torch.cat([torch.cdist(part, known).kthvalue(k, -1).values for part in parts])


def neighbours_among(task: Task, state: State, seen: Seen) -> Tensor:
    """Return the same for training graphs, each of which is its own nearest and does not count."""
    return neighbours(task, state, seen, NEIGHBOURS + 1)


def learn_neighbours(task: Task, seen: Seen) -> State:
    """Return the embeddings of the training graphs, normalised to length 1."""
    return {"known": F.normalize(_embedding(seen), dim=-1).float()}


def similarity(task: Task, state: State, seen: Seen, nearest: int = 1) -> Tensor:
    """Return 1 - the Tanimoto similarity of fingerprints to the nearest training graph.

    Without the training graphs (`Uncertainty.without_rows`), all graphs are equally unusual.
    """
    if ALL_ALIKE in state:
        return state[ALL_ALIKE].expand(len(seen))
    having, starts = (state[name].numpy() for name in (HAVING, STARTS))
    shape = (BITS, int(having.max(initial=-1)) + 1)  # every graph has a bit, so the last graph is in the list
    known = csr_array((np.ones(len(having), np.float32), having, starts), shape=shape)
    return 1 - torch.from_numpy(nearest_tanimoto(_fingerprints(seen), known, nearest)).double()


def similarity_among(task: Task, state: State, seen: Seen) -> Tensor:
    """Return the same for training graphs, each of which is its own nearest and does not count."""
    return similarity(task, state, seen, 2)


def learn_similarity(task: Task, seen: Seen) -> State:
    """Return which training graphs have each bit, in one list, and where each bit starts in it (BITS + 1,)."""
    columns = _fingerprints(seen).tocsc()
    return {name: torch.from_numpy(one).int() for name, one in ((HAVING, columns.indices), (STARTS, columns.indptr))}


def from_median(
    read: Callable[[Seen], Tensor], about: str, signal: str | None = None, baseline: bool = False
) -> DomainScore:
    """Return a score that measures the distance from the median in robust deviations, on either side.

    Several columns (B, S) are combined by their root mean square.
    """

    def learn(task: Task, seen: Seen) -> State:
        values = read(seen)
        centre = values.median(0).values
        spread = 1.4826 * (values - centre).abs().median(0).values
        plain = values.std(0, correction=0)
        scale = torch.where(spread > 0, spread, torch.where(plain > 0, plain, torch.ones_like(plain)))
        return {"centre": centre, "scale": scale}

    def measure(task: Task, state: State, seen: Seen) -> Tensor:
        return ((read(seen) - state["centre"]) / state["scale"]).square().mean(-1).sqrt()

    return DomainScore(about, measure, learn, ("centre", "scale"), signal=signal, baseline=baseline)


def from_signal(name: str, about: str) -> DomainScore:
    """Return `from_median` of one of the method's own signals."""
    return from_median(lambda seen: seen.signals[name][:, None], about, name)


def member_spread(task: Task, state: State, seen: Seen) -> Tensor:
    """Return the standard deviation of the members' probabilities."""
    return seen.signals[SPREAD]


def learn_range(graphs: GraphSet) -> State:
    """Return the log size of the largest graph, and which kinds of nodes occur."""
    largest = graphs.sizes.max().double().log()[None]
    kinds = node_kinds(graphs.node.get("x"), torch.zeros(int(graphs.node_ptr[-1]), dtype=torch.long), 1)
    return {"largest": largest} | ({} if kinds is None else {"kinds": kinds[0]})


def beyond(state: State, seen: Seen) -> Tensor:
    """Return whether graphs have an unknown kind of node, or are more than twice as large as any known one, (B,).

    The values are those of `NEW_KIND`, `LARGER` and `INSIDE`. Embeddings need not show either: a chain of a thousand
    atoms has the environments of a short one.
    """
    found = torch.full((len(seen),), INSIDE)
    if "largest" in state:
        found[seen.statistics[:, 0] > state["largest"] + math.log(TWICE)] = LARGER
    if "kinds" in state and seen.kinds is not None:
        new = seen.kinds & ~state["kinds"]  # (B, K)
        found = torch.where(new.any(1), NEW_KIND + new.int().argmax(1), found)
    return found


def _embedding(seen: Seen) -> Tensor:
    assert seen.embedding is not None, "observe with embeds=True"
    return seen.embedding


def _fingerprints(seen: Seen) -> csr_array:
    assert seen.bits is not None, f"observe graphs with the encoding {ENVIRONMENTS}"
    return seen.bits


DOMAIN_SCORES: dict[str, DomainScore] = {
    "energy": DomainScore("energy of the logits", energy, classes=True),
    "doubt": DomainScore("-log of the largest probability", doubt, classes=True),
    "entropy": DomainScore("entropy of the prediction", entropy, classes=True),
    "mahalanobis": DomainScore(
        "distance of the embedding to the nearest class mean",
        mahalanobis,
        learn_mahalanobis,
        ("means", "whiten"),
        trains=True,
        embeds=True,
    ),
    "neighbours": DomainScore(
        "distance of the embedding to the tenth nearest training graph",
        neighbours,
        learn_neighbours,
        ("known",),
        neighbours_among,
        trains=True,
        embeds=True,
    ),
    "similarity": DomainScore(
        "Tanimoto distance to the nearest training molecule",
        similarity,
        learn_similarity,
        (HAVING, STARTS),
        similarity_among,
        trains=True,
        encodings=(ENVIRONMENTS,),
    ),
    "statistics": from_median(lambda seen: seen.statistics, "size and degrees, without a model", baseline=True),
    "temperature": from_signal("log_temperature", "solved attention temperature"),
    "entropy_gap": from_signal("entropy_gap", "difference of the attention entropy from that in training"),
    "spread": DomainScore("disagreement of the members", member_spread, signal=SPREAD),
}


DEFAULT = "neighbours"
"""The default domain score of graphs that are not molecules.

It was chosen on validation graphs only: of the scores that read the model and exist for every method, it separates OOD
validation from ID validation best (mean AUROC over the records in ``results/sureness.jsonl``). Test graphs had no part
in the choice.
"""


def default_score(features: FeatureSpec) -> str:
    """Return the domain score of fitted models: `similarity` for molecules, otherwise `DEFAULT`.

    Embeddings of length 1 flag fewer molecules of another chemistry, see docs/uncertainty.md.
    """
    return "similarity" if features == MOLECULE else DEFAULT


def available(seen: Seen, task: Task) -> list[str]:
    """Return the names of the scores that can be computed from these outputs for a task."""
    return [
        name
        for name, score in DOMAIN_SCORES.items()
        if (score.signal is None or score.signal in seen.signals)
        and not (score.embeds and seen.embedding is None)
        and not (score.encodings and seen.bits is None)
        and not (score.classes and task.measured)
    ]


def detection(usual: Tensor, unusual: Tensor) -> dict[str, float | None]:
    """Return ``auroc`` and ``fpr95``, the share of usual graphs flagged where 95 % of the unusual ones are."""
    if not (len(usual) and len(unusual) and bool(torch.cat((usual, unusual)).isfinite().all())):
        return {"auroc": None, "fpr95": None}
    from sklearn.metrics import roc_auc_score

    truth = np.repeat([0, 1], [len(usual), len(unusual)])
    bar = unusual.sort(descending=True).values[math.ceil(0.95 * len(unusual)) - 1]
    return {
        "auroc": float(roc_auc_score(truth, torch.cat((usual, unusual)).numpy())),
        "fpr95": float((usual >= bar).double().mean()),
    }
