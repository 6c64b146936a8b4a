"""How sure a prediction is: calibrated probabilities, a score of how unlike the training graphs a graph is, and sets.

All three are read off graphs that the weights were not fitted to but that are distributed as the training graphs are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ValidationError
from scipy.optimize import minimize_scalar
from sklearn.covariance import ledoit_wolf
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.data.graphs import GraphSet
from goodformer.engine import files
from goodformer.engine.evaluate import infer
from goodformer.engine.seeds import derive_seed
from goodformer.methods.base import Method, Prediction, class_scores, mean_loss
from goodformer.registry import InputError, first_mistake, unknown
from goodformer.spec import Task

if TYPE_CHECKING:
    from goodformer.engine.predictor import Predictor

State = dict[str, Tensor]

DEFAULT = "neighbours"
"""The domain score used where none is named: of those every method has, level with mahalanobis on average over the
records in ``results/sureness.jsonl`` and better in its worst run."""

FORMAT, VERSION = "goodformer-sureness", 1
DESCRIPTION, TENSORS = "sureness.json", "sureness.safetensors"
TRAINING_GRAPHS, NEIGHBOURS, BINS, FEWEST = 5000, 10, 15, 20
COLDEST, HOTTEST = 0.05, 20.0
"""Calibration temperatures tried; an optimum at either end is none, and the logits are left as they are."""


# ---------------------------------------------------------------- what a pass over graphs leaves


@dataclass(frozen=True)
class Seen:
    """What is known of B graphs after one pass, on the CPU and in double precision.

    Attributes:
        logits: (B, C).
        statistics: Plain figures of the graphs themselves, (B, S).
        embedding: (B, D), where it was asked for.
        signals: The method's own figures, each (B,).
        y: Labels, where the graphs carry them.
    """

    logits: Tensor
    statistics: Tensor
    embedding: Tensor | None = None
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    y: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)

    def take(self, rows: Tensor) -> Seen:
        """The graphs at some rows, in that order."""
        return Seen(
            self.logits[rows],
            self.statistics[rows],
            None if self.embedding is None else self.embedding[rows],
            {name: value[rows] for name, value in self.signals.items()},
            None if self.y is None else self.y[rows],
        )


def look(method: Method, batch: Batch, prediction: Prediction, embeds: bool) -> Seen:
    """What one predicted batch leaves; a method that does not hand out its embedding is asked for it."""
    embedding = prediction.embedding if embeds else None
    if embeds and embedding is None:
        device = next(method.parameters()).device
        with torch.no_grad():
            there = batch.to(device)
            embedding = method.model.readout(method.model(there), there)
    return Seen(
        _plain(prediction.logits),
        statistics(batch),
        None if embedding is None else _plain(embedding),
        {name: _plain(value) for name, value in prediction.signals.items()},
        batch.y.cpu() if "y" in batch else None,
    )


def observe(
    predictor: Predictor, graphs: GraphSet, embeds: bool = True, limit: int | None = None, batch_size: int = 256
) -> Seen:
    """One pass over graphs, or over a seeded random sample of at most ``limit``; rows in the order of the graphs."""
    ready = predictor.prepare(graphs if limit is None or len(graphs) <= limit else graphs.subset(_some(graphs, limit)))
    parts = list(infer(predictor.method, ready, batch_size))
    seen = [look(predictor.method, batch, prediction, embeds) for _, batch, prediction in parts]
    return _joined(seen).take(torch.cat([positions for positions, _, _ in parts]).argsort())


def statistics(batch: Batch) -> Tensor:
    """Log size, mean, deviation and log maximum of the degrees, and share of nodes with one neighbour at most, (B, 5).

    What a reader of the data would compare first, without any model.
    """
    graph, size = batch.batch.cpu(), batch.ptr.cpu().diff().double()
    degree = torch.bincount(batch.edge_index[1].cpu(), minlength=len(graph)).double()  # (N,)
    count = len(size)
    mean = torch.zeros(count, dtype=torch.double).index_add_(0, graph, degree) / size
    square = torch.zeros(count, dtype=torch.double).index_add_(0, graph, degree.square()) / size
    largest = torch.zeros(count, dtype=torch.double).scatter_reduce_(0, graph, degree, "amax")
    leaves = torch.zeros(count, dtype=torch.double).index_add_(0, graph, (degree <= 1).double()) / size
    deviation = (square - mean.square()).clamp(min=0).sqrt()
    return torch.stack((size.log(), mean, deviation, largest.log1p(), leaves), 1)


def _some(graphs: GraphSet, limit: int) -> Tensor:
    """A fixed random choice: graphs often come in an order, so that every k-th would be no fair sample."""
    generator = torch.Generator().manual_seed(derive_seed("sureness", len(graphs)))
    return torch.randperm(len(graphs), generator=generator)[:limit].sort().values


def _plain(value: Tensor) -> Tensor:
    return value.detach().cpu().double()


def _joined(parts: Sequence[Seen]) -> Seen:
    """Several passes as one."""
    embeddings = [part.embedding for part in parts if part.embedding is not None]
    labels = [part.y for part in parts if part.y is not None]
    return Seen(
        torch.cat([part.logits for part in parts]),
        torch.cat([part.statistics for part in parts]),
        torch.cat(embeddings) if embeddings else None,
        {name: torch.cat([part.signals[name] for part in parts]) for name in parts[0].signals},
        torch.cat(labels) if labels else None,
    )


# ---------------------------------------------------------------- calibration


def fit_temperature(task: Task, logits: Tensor, y: Tensor) -> float:
    """The t > 0 that makes the mean loss of ``logits / t`` smallest; 1 where no other is better, or none is best.

    The loss is convex in 1/t, so the search over log(1/t) has one valley. Missing labels (NaN) are passed over. Where
    every label is the likeliest one, smaller is always better: that is no temperature to go by.
    """
    z, labels = logits.double(), y.double() if y.is_floating_point() else y
    if _all_right(task, z, labels):
        return 1.0

    def risk(log_b: float) -> float:
        return float(mean_loss(task, z * math.exp(log_b), labels))

    low, high = -math.log(HOTTEST), -math.log(COLDEST)
    found = minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 1e-9, "maxiter": 200})
    inside = low + 1e-3 < found.x < high - 1e-3  # an end of the range is no optimum
    return math.exp(-float(found.x)) if inside and risk(float(found.x)) < risk(0.0) else 1.0


def _all_right(task: Task, logits: Tensor, y: Tensor) -> bool:
    """Whether every known label is the likeliest one."""
    if task.kind == "multiclass":
        return bool((logits.argmax(-1) == y).all())
    return bool((((logits > 0) == (y > 0.5)) | y.isnan()).all())


def nll(task: Task, logits: Tensor, y: Tensor) -> float:
    """Mean negative log likelihood of the labels that are there."""
    return float(mean_loss(task, logits.double(), y.double() if y.is_floating_point() else y))


def brier(task: Task, logits: Tensor, y: Tensor) -> float:
    """Mean squared distance of probabilities and labels: summed over classes, or of each binary target."""
    p = class_scores(task, logits.double())
    if task.kind == "multiclass":
        return float((p - F.one_hot(y, task.outputs)).square().sum(-1).mean())
    return float((p - y)[~y.isnan()].square().mean())


def ece(task: Task, logits: Tensor, y: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: mean gap of what was claimed and what came true, over bins of equal mass.

    Claimed is the probability of the likeliest class, or of class 1 of each binary target whose label is known.
    """
    claimed, true = _claims(task, logits.double(), y)
    order = claimed.argsort(stable=True)
    parts = zip(claimed[order].tensor_split(bins), true[order].tensor_split(bins), strict=True)
    return sum(abs(float(c.sum() - t.sum())) for c, t in parts) / max(len(claimed), 1)


def _claims(task: Task, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities claimed and whether they came true, one entry a known label."""
    p = class_scores(task, logits)
    if task.kind == "multiclass":
        claimed, said = p.max(-1)
        return claimed, (said == y).double()
    known = ~y.isnan()
    return p[known], y[known].double()


# ---------------------------------------------------------------- domain scores: larger = more unusual


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
    """

    about: str
    measure: Callable[[Task, State, Seen], Tensor]
    learn: Callable[[Task, Seen], State] = lambda task, seen: {}
    trains: bool = False
    embeds: bool = False
    signal: str | None = None


def energy(task: Task, state: State, seen: Seen) -> Tensor:
    """-log sum exp(z); a binary target counts as two classes of logits z/2 and -z/2, so that their names do not matter.

    Paper: Liu et al., "Energy-based Out-of-distribution Detection", 2020.
    """
    z = seen.logits
    return -z.logsumexp(-1) if task.kind == "multiclass" else -(F.softplus(z) - z / 2).sum(-1)


def doubt(task: Task, state: State, seen: Seen) -> Tensor:
    """-log of the largest probability, a mean over binary targets."""
    return -_log_classes(task, seen.logits).amax(-1).mean(-1)


def entropy(task: Task, state: State, seen: Seen) -> Tensor:
    """Entropy of the predicted distribution, a mean over binary targets."""
    log_p = _log_classes(task, seen.logits)
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


def from_median(read: Callable[[Seen], Tensor], about: str, signal: str | None = None) -> Candidate:
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

    return Candidate(about, measure, learn, signal=signal)


def from_signal(name: str, about: str) -> Candidate:
    """The same for one of the method's own figures."""
    return from_median(lambda seen: seen.signals[name][:, None], about, name)


def _log_classes(task: Task, logits: Tensor) -> Tensor:
    """Log probabilities (B, T, K): of K classes (T = 1), or of 0 and 1 for T binary targets."""
    if task.kind == "multiclass":
        return logits.log_softmax(-1)[:, None]
    return torch.stack((F.logsigmoid(-logits), F.logsigmoid(logits)), -1)


def _embedding(seen: Seen) -> Tensor:
    assert seen.embedding is not None, "observe with embeds=True"
    return seen.embedding


SCORES: dict[str, Candidate] = {
    "energy": Candidate("energy of the logits", energy),
    "confidence": Candidate("how small the largest probability is", doubt),
    "entropy": Candidate("entropy of the prediction", entropy),
    "mahalanobis": Candidate(
        "embedding to the nearest class mean", mahalanobis, learn_mahalanobis, trains=True, embeds=True
    ),
    "neighbours": Candidate(
        "embedding to the tenth nearest training graph", neighbours, learn_neighbours, trains=True, embeds=True
    ),
    "statistics": from_median(lambda seen: seen.statistics, "size and degrees, without a model"),
    "temperature": from_signal("log_temperature", "solved attention temperature"),
    "entropy_gap": from_signal("entropy_gap", "attention entropy against that of training"),
}


def available(seen: Seen) -> list[str]:
    """The scores that graphs seen in this way have."""
    return [
        name
        for name, score in SCORES.items()
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


# ---------------------------------------------------------------- conformal sets


def conformal_rank(count: int, level: float) -> int:
    """The rank k = ceil((n + 1) level) of the threshold among n scores; above n, no score is high enough."""
    return math.ceil((count + 1) * level - 1e-9)


def conformity(task: Task, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """1 - p(label) of the known labels, sorted, for each target and class (T, K, n) with infinity beyond the counts.

    Each class has its own threshold, so that a rare class is covered as often as a common one.
    """
    scores = 1 - _log_classes(task, logits).exp()  # (B, T, K)
    labels = y[:, None].double() if task.kind == "multiclass" else y.double()  # (B, T)
    of_class = labels[..., None] == torch.arange(scores.shape[-1])  # (B, T, K), never where the label is missing
    ordered = scores.masked_fill(~of_class, math.inf).sort(0).values.movedim(0, -1)
    counts = of_class.sum(0)
    return ordered[..., : max(int(counts.max()), 1)].contiguous(), counts


def coverage(task: Task, sets: Tensor, y: Tensor) -> dict[str, float | None]:
    """Share of known labels that lie in their sets, and the mean number of labels in a set."""
    labels = y[:, None].double() if task.kind == "multiclass" else y.double()  # (B, T)
    known = ~labels.isnan()
    sets = sets[:, None] if task.kind == "multiclass" else sets  # (B, T, K)
    if not bool(known.any()):
        return {"coverage": None, "size": None}
    held = sets.gather(-1, labels.nan_to_num().long()[..., None])[..., 0]  # (B, T)
    return {"coverage": float(held[known].double().mean()), "size": float(sets.sum(-1)[known].double().mean())}


# ---------------------------------------------------------------- all of it


@dataclass(frozen=True)
class Sureness:
    """What makes predictions say how sure they are.

    Attributes:
        task: What is predicted.
        temperature: What logits are divided by.
        score: Name of the domain score, one of `SCORES`.
        alpha: Share of usual graphs that may be called outside.
        reference: The validation graphs' unusualness, ascending, (n,).
        state: What the domain score learnt.
        conformity: See `conformity`, (T, K, n).
        counts: Labels behind each row of it, (T, K).
        notes: What could not be had from so few or such graphs, in sentences.
    """

    task: Task
    temperature: float
    score: str
    alpha: float
    reference: Tensor
    state: Mapping[str, Tensor]
    conformity: Tensor
    counts: Tensor
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls, predictor: Predictor, train: GraphSet, id_val: GraphSet, score: str = DEFAULT, alpha: float = 0.05
    ) -> Self:
        """Read off validation graphs how far the predictor can be trusted.

        Args:
            predictor: A trained method.
            train: Its training graphs; at most 5,000 of them are looked at, and none where the score needs none.
            id_val: Graphs distributed as these that the weights were not fitted to, with labels where there are any.
            score: Domain score, one of `SCORES`.
            alpha: Share of usual graphs that may be called outside.
        """
        candidate = _candidate(score, alpha)
        if not len(id_val):
            raise InputError("there is no validation graph to learn from how sure predictions are; give at least one.")
        seen = observe(predictor, id_val, candidate.embeds)
        learnt = observe(predictor, train, candidate.embeds, TRAINING_GRAPHS) if candidate.trains else seen
        return cls.learn(predictor.recipe.task, learnt, seen, score, alpha)

    @classmethod
    def learn(cls, task: Task, train: Seen, id_val: Seen, score: str = DEFAULT, alpha: float = 0.05) -> Self:
        """The same from graphs already seen; see `fit`."""
        candidate = _candidate(score, alpha)
        if score not in available(id_val):
            raise InputError(
                f"score {score} is not offered by this method; choose one of {', '.join(available(id_val))}."
            )
        learnt = candidate.learn(task, train if candidate.trains else id_val)
        state = {name: value.contiguous() for name, value in learnt.items()}  # as it comes back from disk
        reference = _ranked(candidate.measure(task, state, id_val)).sort().values
        temperature, notes = _calibrated(task, id_val)
        if conformal_rank(len(reference), 1 - alpha) > len(reference):
            notes += (f"{len(reference)} validation graphs are too few to call any graph outside at {alpha:g}.",)
        y = id_val.y if id_val.y is not None else _unlabelled(task, len(id_val))
        rows, counts = conformity(task, id_val.logits / temperature, y)
        return cls(task, temperature, score, alpha, reference, state, rows, counts, notes)

    @property
    def embeds(self) -> bool:
        """Whether the domain score reads embeddings."""
        return SCORES[self.score].embeds

    def probabilities(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, (B, C)."""
        return class_scores(self.task, logits.double() / self.temperature).float()

    def unusual(self, seen: Seen) -> Tensor:
        """How unusual graphs are, in the score's own unit, (B,)."""
        return _ranked(SCORES[self.score].measure(self.task, dict(self.state), seen))

    def domain_score(self, unusual: Tensor) -> Tensor:
        """The share of validation graphs that are less unusual, (B,) in [0, 1]."""
        return (torch.searchsorted(self.reference, unusual) / len(self.reference)).float()

    def outside(self, unusual: Tensor) -> Tensor:
        """Whether a graph is more unusual than all but a share alpha of usual graphs, (B,)."""
        rank = conformal_rank(len(self.reference), 1 - self.alpha)
        if rank > len(self.reference):
            return torch.zeros(len(unusual), dtype=torch.bool)
        return unusual > self.reference[rank - 1]

    def sets(self, logits: Tensor, level: float = 0.9) -> Tensor:
        """Labels that cannot be ruled out at a level: (B, C), or (B, C, 2) for 0 and 1 of each binary target.

        Of graphs distributed as the validation ones, at least this share of every class has its label in the set; the
        likeliest label is always in. Of other graphs nothing is promised.
        """
        if not 0 < level < 1:
            raise InputError(f"level = {level:g} is not accepted; give a share between 0 and 1, e.g. 0.9.")
        p = _log_classes(self.task, logits.double() / self.temperature).exp()  # (B, T, K)
        found = (1 - p <= self._thresholds(level)) | (p == p.amax(-1, keepdim=True))
        return found[:, 0] if self.task.kind == "multiclass" else found

    def _thresholds(self, level: float) -> Tensor:
        """The largest score that stays in a set, for each target and class (T, K)."""
        rank = ((self.counts + 1) * level - 1e-9).ceil().long()
        place = (rank - 1).clamp(0, self.conformity.shape[-1] - 1)
        found = self.conformity.gather(-1, place[..., None])[..., 0]
        return found.masked_fill(rank > self.counts, math.inf)

    def save(self, folder: str | Path, weights: str | None = None) -> Path:
        """Write tensors (safetensors) and description (JSON); ``weights`` is the checksum of those it belongs to."""
        place = Path(folder)
        files.make_folder(place)
        tensors = {"reference": self.reference, "conformity": self.conformity, "counts": self.counts}
        tensors |= {f"state/{name}": value for name, value in self.state.items()}
        content = safetensors.torch.save({name: value.clone().contiguous() for name, value in tensors.items()})
        description = _Description(
            format=FORMAT,
            version=VERSION,
            task=self.task,
            temperature=self.temperature,
            score=self.score,
            alpha=self.alpha,
            notes=self.notes,
            weights=weights,
            sha256=hashlib.sha256(content).hexdigest(),
        )
        files.write_bytes(place / TENSORS, content)
        files.write_json(place / DESCRIPTION, description.model_dump(mode="json"))
        return place

    @classmethod
    def load(cls, folder: str | Path, weights: str | None = None) -> Self:
        """Read what `save` wrote, refusing what belongs to other ``weights``; nothing is ever executed."""
        place = Path(folder)
        description = _read_description(place / DESCRIPTION, weights)
        tensors = _read_tensors(place / TENSORS, description.sha256)
        state = {name.partition("/")[2]: value for name, value in tensors.items() if name.startswith("state/")}
        missing = [name for name in ("reference", "conformity", "counts") if name not in tensors]
        if missing:
            raise InputError(f"{place / TENSORS} holds no {missing[0]}; {MEND}.")
        return cls(
            description.task,
            description.temperature,
            description.score,
            description.alpha,
            tensors["reference"],
            state,
            tensors["conformity"],
            tensors["counts"],
            description.notes,
        )


MEND = "restore it, or remove both sureness files and fit again"


class _Description(BaseModel):
    """What `sureness.json` holds."""

    format: str
    version: int
    task: Task
    temperature: float
    score: str
    alpha: float
    notes: tuple[str, ...]
    weights: str | None
    sha256: str


def saved_in(folder: Path) -> bool:
    """Whether a folder says how sure its predictor is."""
    return (folder / DESCRIPTION).is_file()


def remove_from(folder: Path) -> None:
    """Take away what was fitted to other weights, the description first, so that nothing half is left."""
    for name in (DESCRIPTION, TENSORS):
        (folder / name).unlink(missing_ok=True)


def _candidate(score: str, alpha: float) -> Candidate:
    """The domain score of that name."""
    if score not in SCORES:
        raise unknown("domain score", score, SCORES)
    if not 0 < alpha < 1:
        raise InputError(f"alpha = {alpha:g} is not accepted; give a share between 0 and 1, e.g. 0.05.")
    return SCORES[score]


def _ranked(values: Tensor) -> Tensor:
    """Scores that can be ranked: what is not a number is as unusual as can be."""
    return values.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)


def _calibrated(task: Task, seen: Seen) -> tuple[float, tuple[str, ...]]:
    """The calibration temperature, and why it is 1 where the graphs do not tell."""
    y = seen.y if seen.y is not None else _unlabelled(task, len(seen))
    known = y if task.kind == "multiclass" and seen.y is not None else y[~y.isnan()]
    reason = ""
    if len(known) < FEWEST:
        reason = f"{len(known)} labels are too few to calibrate probabilities"
    elif len(known.unique()) < 2:
        reason = "labels of one class alone cannot calibrate probabilities"
    elif not bool(seen.logits.isfinite().all()):
        reason = "predictions that are not numbers cannot be calibrated"
    if reason:
        return 1.0, (f"{reason}, which are left as they are.",)
    if _all_right(task, seen.logits, y):
        return 1.0, ("all validation graphs are predicted right, so probabilities are left as they are.",)
    return fit_temperature(task, seen.logits, y), ()


def _unlabelled(task: Task, count: int) -> Tensor:
    """Labels nobody knows."""
    return torch.full((count,) if task.kind == "multiclass" else (count, task.outputs), math.nan)


def _read_description(path: Path, weights: str | None) -> _Description:
    """The description in a file, checked."""
    found = files.read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path} was not written by goodformer; {MEND}.")
    if found.get("version") != VERSION:
        raise InputError(f"{path} has version {found.get('version')!r}; this goodformer reads version {VERSION}.")
    try:
        description = _Description.model_validate(found)
    except ValidationError as error:
        raise InputError(f"{path} is damaged: {first_mistake(error)}") from None
    if description.score not in SCORES:
        raise unknown(f"domain score in {path}", description.score, SCORES)
    if weights is not None and description.weights not in (None, weights):
        raise InputError(f"{path} belongs to other weights; {MEND}.")
    return description


def _read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """The tensors in a file, checked."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); {MEND}.") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path} is truncated or belongs to another model; {MEND}.")
    try:
        return dict(safetensors.torch.load(content))
    except safetensors.SafetensorError:
        raise InputError(f"{path} is not a safetensors file; {MEND}.") from None


def figures(task: Task, seen: Seen, temperature: float) -> dict[str, float]:
    """What probabilities are worth at a temperature: ``nll``, ``ece`` and ``brier``."""
    assert seen.y is not None, "the graphs carry no labels"
    logits = seen.logits / temperature
    measures: Iterable[Callable[[Task, Tensor, Tensor], float]] = (nll, ece, brier)
    return {measure.__name__: measure(task, logits, seen.y) for measure in measures}
