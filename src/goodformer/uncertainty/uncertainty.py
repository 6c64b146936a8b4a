"""How sure a prediction is: calibrated probabilities, a score of how unlike the training graphs a graph is, and sets.

All three are read off graphs that the weights were not fitted to but that are distributed as the training graphs are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor

from goodformer import files
from goodformer.data.graphs import GraphSet
from goodformer.methods.base import class_scores
from goodformer.registry import InputError, first_mistake, unknown
from goodformer.spec import Task
from goodformer.uncertainty.calibration import calibrate, log_classes
from goodformer.uncertainty.conformal import conformal_rank, conformity, thresholds
from goodformer.uncertainty.domain import DOMAIN_SCORES, Candidate, available
from goodformer.uncertainty.observe import Ready, Seen, observe

DEFAULT = "neighbours"
"""The domain score used where none is named.

Chosen on validation graphs alone: of the scores that read the model and that every method has, the one that best tells
shifted validation graphs from in-distribution validation graphs (mean AUROC over the records in
``results/sureness.jsonl``, see `goodformer.report.uncertainty.best`). Test graphs only say what the choice is worth.
"""

FORMAT, VERSION = "goodformer-sureness", 1
DESCRIPTION, TENSORS = "sureness.json", "sureness.safetensors"
TRAINING_GRAPHS = 5000


@dataclass(frozen=True)
class Sureness:
    """What makes predictions say how sure they are.

    Attributes:
        task: What is predicted.
        temperature: What logits are divided by.
        score: Name of the domain score, one of `DOMAIN_SCORES`.
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
        cls, predictor: Ready, train: GraphSet, id_val: GraphSet, score: str = DEFAULT, alpha: float = 0.05
    ) -> Self:
        """Read off validation graphs how far the predictor can be trusted.

        Args:
            predictor: A trained method.
            train: Its training graphs; at most 5,000 of them are looked at, and none where the score needs none.
            id_val: Graphs distributed as these that the weights were not fitted to, with labels where there are any.
            score: Domain score, one of `DOMAIN_SCORES`.
            alpha: Share of usual graphs that may be called outside.
        """
        candidate = _candidate(score, alpha)
        check_validation(id_val)
        seen = observe(predictor, id_val, candidate.embeds)
        learnt = observe(predictor, train, candidate.embeds, TRAINING_GRAPHS) if candidate.trains else seen
        return cls.learn(predictor.method.task, learnt, seen, score, alpha)

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
        y = id_val.y if id_val.y is not None else _unlabelled(task, len(id_val))
        temperature, notes = calibrate(task, id_val.logits, y)
        if conformal_rank(len(reference), 1 - alpha) > len(reference):
            few = "1 validation graph is" if len(reference) == 1 else f"{len(reference)} validation graphs are"
            notes += (f"{few} too few to call any graph outside at {alpha:g}.",)
        rows, counts = conformity(task, id_val.logits / temperature, y)
        return cls(task, temperature, score, alpha, reference, state, rows, counts, notes)

    @property
    def embeds(self) -> bool:
        """Whether the domain score reads embeddings."""
        return DOMAIN_SCORES[self.score].embeds

    def probabilities(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, (B, C)."""
        return class_scores(self.task, logits.double() / self.temperature).float()

    def unusual(self, seen: Seen) -> Tensor:
        """How unusual graphs are, in the score's own unit, (B,)."""
        return _ranked(DOMAIN_SCORES[self.score].measure(self.task, dict(self.state), seen))

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
        p = log_classes(self.task, logits.double() / self.temperature).exp()  # (B, T, K)
        found = (1 - p <= thresholds(self.conformity, self.counts, level)) | (p == p.amax(-1, keepdim=True))
        return found[:, 0] if self.task.kind == "multiclass" else found

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


def check_validation(id_val: GraphSet) -> None:
    """Refuse to learn how sure predictions are from nothing."""
    if not len(id_val):
        raise InputError("there is no validation graph to learn from how sure predictions are; give at least one.")


def _candidate(score: str, alpha: float) -> Candidate:
    """The domain score of that name."""
    if score not in DOMAIN_SCORES:
        raise unknown("domain score", score, DOMAIN_SCORES)
    if not 0 < alpha < 1:
        raise InputError(f"alpha = {alpha:g} is not accepted; give a share between 0 and 1, e.g. 0.05.")
    return DOMAIN_SCORES[score]


def _ranked(values: Tensor) -> Tensor:
    """Scores that can be ranked: what is not a number is as unusual as can be."""
    return values.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)


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
    if description.score not in DOMAIN_SCORES:
        raise unknown(f"domain score in {path}", description.score, DOMAIN_SCORES)
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
