"""The uncertainty of a fitted model: calibrated probabilities, domain scores and conformal sets or intervals.

They are fitted to held-out graphs that are distributed like the training graphs (ID validation), except domain scores
that compare molecules: these need no held-out graphs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from goodformer import files
from goodformer.data.graphs import GraphSet
from goodformer.data.readers.values import counted
from goodformer.engine.weights import DERIVED, read_format, read_tensors, tensor_bytes, write_tensors
from goodformer.errors import InputError, check_name
from goodformer.methods.base import SPREAD, Method, link, standardised
from goodformer.settings import first_mistake
from goodformer.spec import REGRESSION, Task
from goodformer.uncertainty.calibration import COLDEST, HOTTEST, Scaling, calibrate, log_classes
from goodformer.uncertainty.conformal import conformal_rank, conformity, coverage, thresholds
from goodformer.uncertainty.domain import (
    ALL_ALIKE,
    DEFAULT,
    DOMAIN_SCORES,
    HAVING,
    INSIDE,
    STARTS,
    UNUSUAL,
    DomainScore,
    available,
    beyond,
    learn_range,
)
from goodformer.uncertainty.intervals import (
    CONSTANT,
    LEVEL,
    Difficulty,
    fit_difficulty,
    half_widths,
    interval_coverage,
    ordered_errors,
)
from goodformer.uncertainty.observe import FINGERPRINTED, Seen, fingerprinted, observe, sample, sampled

FORMAT, VERSION = "goodformer-sureness", 1
DESCRIPTION, TENSORS = DERIVED
REPAIR = "restore it from a copy, or fit the model again"
LEVELS = (0.8, 0.9, 0.95)
"""Levels of conformal sets whose coverage is measured on rows with labels."""


@dataclass(frozen=True)
class Uncertainty:
    """Calibration, domain score and conformal sets of one set of weights.

    Attributes:
        task: What is predicted.
        scaling: Calibrates the logits.
        score: Name of the domain score, one of `DOMAIN_SCORES`.
        alpha: Share of usual graphs that may be flagged as outside the domain.
        reference: Raw domain scores, ascending, (n,): of the validation graphs; of the training graphs, each among the
            others, if the score reads no method; or of all known graphs, see `knowing`.
        state: Fitted state of the domain score.
        conformity: Conformity scores, (T, K, n), see `goodformer.uncertainty.conformal.conformity`; for measured
            targets the sorted errors of `goodformer.uncertainty.intervals.ordered_errors`, (T, 1, n).
        counts: Number of labels per target and class, (T, K).
        notes: Sentences on what the validation graphs could not determine.
        difficulty: What makes the intervals of some measured values wider than others.
    """

    task: Task
    scaling: Scaling
    score: str
    alpha: float
    reference: Tensor
    state: Mapping[str, Tensor]
    conformity: Tensor
    counts: Tensor
    notes: tuple[str, ...] = ()
    difficulty: Difficulty = CONSTANT

    @classmethod
    def fit(cls, method: Method, train: GraphSet, id_val: GraphSet, score: str = DEFAULT, alpha: float = 0.05) -> Self:
        """Fit calibration, domain score and conformal sets to graphs with the encodings of method and score.

        Args:
            method: A trained method.
            train: Training graphs, or a `sample` of them.
            id_val: Held-out graphs distributed like the training graphs, with labels where there are any.
            score: Domain score, one of `DOMAIN_SCORES`.
            alpha: Share of usual graphs that may be flagged as outside the domain.
        """
        chosen = _check(score, alpha)
        check_validation(id_val)
        seen = observe(method, id_val, chosen.embeds)
        learnt = seen_in_training(chosen, method, train) if chosen.trains else seen
        return cls.learn(method.task, learnt, seen, score, alpha).within(train)

    def within(self, graphs: GraphSet) -> Self:
        """Return the same, where much larger graphs than these and other kinds of nodes are outside the domain."""
        return replace(self, state={**self.state, **learn_range(graphs)})

    def without_rows(self) -> Self:
        """Return the same without fingerprints of training molecules, from which these could be guessed.

        It then knows no domain (`knows_domain`); intervals whose width follows the domain score are as wide as for the
        most unusual graph of the reference. Scores that compare no fingerprints stay as they are.
        """
        if not self.encodings or not self.knows_domain:
            return self
        farthest = self.reference[-1:]
        state = {name: value for name, value in self.state.items() if name not in (HAVING, STARTS)}
        notes: tuple[str, ...] = ("this copy does not compare with training molecules, so it has no domain score.",)
        if self.difficulty.by == "domain":
            notes += ("all its intervals are as wide as for the most unusual known molecule.",)
        return replace(self, state={**state, ALL_ALIKE: farthest}, reference=farthest, notes=(*self.notes, *notes))

    def knowing(self, method: Method, graphs: GraphSet) -> Self:
        """Return the same for a method that was trained again, on these graphs; they carry all encodings.

        The domain score learns how the method sees them, and its reference is how unusual each graph is among the
        others. Calibration and thresholds stay: they need graphs that the method does not know. Where the width of
        intervals follows a raw domain score that reads the method, this is put on its former scale.
        """
        chosen = DOMAIN_SCORES[self.score]
        seen = seen_in_training(chosen, method, graphs)
        state = {name: value.contiguous() for name, value in chosen.learn(self.task, seen).items()}
        reference = unusual_among(chosen, self.task, state, seen).sort().values
        difficulty, outdated = self.difficulty, few_notes(self.reference, self.alpha)
        if difficulty.by == "domain" and not chosen.encodings:
            difficulty = difficulty.rescaled(float(self.reference.median() / reference.median().clamp(min=1e-12)))
        notes = (*(note for note in self.notes if note not in outdated), *few_notes(reference, self.alpha))
        return replace(self, state=state, reference=reference, notes=notes, difficulty=difficulty).within(graphs)

    @classmethod
    def learn(cls, task: Task, train: Seen, id_val: Seen, score: str = DEFAULT, alpha: float = 0.05) -> Self:
        """Fit the same to outputs that are already computed; see `fit`."""
        chosen = _check(score, alpha)
        if score not in (there := available(id_val, task)):
            raise InputError(f"this method has no domain score {score}; choose one of {', '.join(there)}.")
        learnt = chosen.learn(task, train if chosen.trains else id_val)
        state = {name: value.contiguous() for name, value in learnt.items()}  # the layout that loading gives
        unusual = _rankable(chosen.measure(task, state, id_val))
        reference = (unusual_among(chosen, task, state, train) if chosen.encodings else unusual).sort().values
        unlabelled = (len(id_val),) if task.kind == "multiclass" else (len(id_val), task.outputs)
        y = torch.full(unlabelled, math.nan) if id_val.y is None else id_val.y
        if task.measured:
            difficulty, rows, counts, notes = learn_intervals(task, id_val, y, unusual)
            scaling = Scaling()
        else:
            scaling, notes = calibrate(task, id_val.logits, y)
            rows, counts = conformity(task, scaling(id_val.logits), y)
            difficulty = CONSTANT
        notes += few_notes(reference, alpha)
        return cls(task, scaling, score, alpha, reference, state, rows, counts, notes, difficulty)

    @property
    def embeds(self) -> bool:
        """Whether the domain score reads embeddings."""
        return DOMAIN_SCORES[self.score].embeds

    @property
    def knows_domain(self) -> bool:
        """Whether it can say how unusual a graph is, see `without_rows`."""
        return ALL_ALIKE not in self.state

    @property
    def encodings(self) -> tuple[str, ...]:
        """Encodings of the graphs that the domain score reads."""
        return DOMAIN_SCORES[self.score].encodings

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return calibrated probabilities, (B, C)."""
        return link(self.task, self.scaling(logits)).float()

    def classes(self, logits: Tensor) -> Tensor:
        """Return the most probable class (B,), or 0 and 1 for each binary target (B, C), after calibration."""
        scaled = self.scaling(logits)
        return scaled.argmax(-1) if self.task.kind == "multiclass" else (scaled > 0).long()

    def unusual(self, seen: Seen) -> Tensor:
        """Return raw domain scores, (B,)."""
        return _rankable(DOMAIN_SCORES[self.score].measure(self.task, dict(self.state), seen))

    def beyond(self, seen: Seen) -> Tensor:
        """Return whether graphs exceed the training graphs in size or kinds of nodes, and in which, (B,).

        Models that earlier versions saved know no such limits.
        """
        return beyond(dict(self.state), seen)

    def domain_score(self, unusual: Tensor, beyond: Tensor | None = None) -> Tensor:
        """Return the share of reference graphs that are less unusual, (B,) in [0, 1]; 1 for graphs `beyond`."""
        share = torch.searchsorted(self.reference, unusual - _rounding(unusual)) / len(self.reference)
        return share.float() if beyond is None else share.float().masked_fill(beyond != INSIDE, 1.0)

    def reason(self, unusual: Tensor, beyond: Tensor | None = None) -> Tensor:
        """Return why graphs are outside: `beyond`, or more unusual than a share 1 - alpha of usual graphs, (B,)."""
        rank = conformal_rank(len(self.reference), 1 - self.alpha)
        found = torch.full((len(unusual),), INSIDE) if beyond is None else beyond
        if rank > len(self.reference):
            return found
        far = unusual - _rounding(unusual) > self.reference[rank - 1]
        return torch.where(far & (found == INSIDE), UNUSUAL, found)

    def outside(self, unusual: Tensor, beyond: Tensor | None = None) -> Tensor:
        """Return whether graphs are outside the domain, for any `reason`, (B,)."""
        return self.reason(unusual, beyond) != INSIDE

    def sets(self, logits: Tensor, level: float = 0.9) -> Tensor:
        """Return conformal sets: (B, C), or (B, C, 2) for 0 and 1 of each binary target.

        For graphs distributed like the validation graphs, at least a share ``level`` of every class has its label in
        the set. The predicted label is always in the set. There is no guarantee for other graphs.
        """
        if not 0 < level < 1:
            raise InputError(f"level = {level:g} is out of range; give a share between 0 and 1, e.g. 0.9.")
        p = log_classes(self.task, self.scaling(logits)).exp()  # (B, T, K)
        found = (1 - p <= thresholds(self.conformity, self.counts, level)) | (p == p.amax(-1, keepdim=True))
        return found[:, 0] if self.task.kind == "multiclass" else found

    def intervals(self, logits: Tensor, hard: Tensor, level: float = LEVEL) -> Tensor:
        """Return lower and upper end of each measured value (B, T, 2), infinite if there were too few errors.

        For graphs distributed like the validation graphs, at least a share ``level`` of the values is between the ends.

        Args:
            logits: Standardised predictions (B, T).
            hard: Their difficulty (B, T), see `hardness`.
            level: Share of values between the ends.
        """
        if not 0 < level < 1:
            raise InputError(f"level = {level:g} is out of range; give a share between 0 and 1, e.g. 0.9.")
        z, half = logits.double(), half_widths(self.conformity, self.counts, level) * hard  # (B, T)
        return torch.stack((link(self.task, z - half), link(self.task, z + half)), -1)

    def hardness(self, logits: Tensor, unusual: Tensor, spread: Tensor | None) -> Tensor:
        """Return how hard each measured value is to predict (B, T), from raw domain scores and the members' spread."""
        return self.difficulty({"domain": unusual} | ({} if spread is None else {"spread": spread}), logits)

    def coverage(self, seen: Seen, level: float = LEVEL) -> dict[str, float | None]:
        """Return the share of known labels inside their sets or intervals, and the mean size or width of these."""
        assert seen.y is not None
        if not self.task.measured:
            return coverage(self.task, self.sets(seen.logits, level), seen.y)
        hard = self.hardness(seen.logits, self.unusual(seen), seen.signals.get(SPREAD))
        return self._held(seen.logits, hard, seen.y, level)

    def coverages(self, logits: Tensor, hard: Tensor | None, labels: Tensor) -> list[dict[str, float | None]]:
        """Return coverage and mean size of conformal sets or intervals at several levels.

        Widths of intervals are in the units of `goodformer.spec.Task.units`.

        Args:
            logits: Logits (B, C), or standardised predictions.
            hard: The difficulty of measured values (B, T), see `hardness`.
            labels: The labels (B, T), NaN where missing.
        """
        y, found = labels[:, 0] if self.task.kind == "multiclass" else labels, []
        for level in LEVELS:
            if hard is None:
                found.append({"level": level, **coverage(self.task, self.sets(logits, level), y)})
            else:
                held = self._held(logits, hard, y, level)
                found.append({"level": level, "coverage": held["coverage"], "size": held["width"]})
        return found

    def _held(self, logits: Tensor, hard: Tensor, y: Tensor, level: float) -> dict[str, float | None]:
        """Return the share of measured values inside their intervals, and the mean width in `Task.units`."""
        units = torch.tensor(self.task.units, dtype=torch.double)
        return interval_coverage(self.intervals(logits, hard, level) / units[:, None], y.double() / units)

    def save(self, folder: str | Path, weights: str | None = None) -> Path:
        """Write ``sureness.json`` and ``sureness.safetensors``; ``weights`` is the checksum of the model's weights."""
        place = Path(folder)
        files.make_folder(place)
        sha256 = write_tensors(place / TENSORS, self._tensors)
        files.write_json(place / DESCRIPTION, self._described(sha256, weights))
        return place

    @property
    def checksum(self) -> str:
        """A checksum of all that decides its answers, the same before it is saved and after it is loaded."""
        return str(self._described(hashlib.sha256(tensor_bytes(self._tensors)).hexdigest())[files.CHECKSUM])

    @property
    def _tensors(self) -> dict[str, Tensor]:
        """The content of ``sureness.safetensors``."""
        tensors = {"reference": self.reference, "conformity": self.conformity, "counts": self.counts}
        return tensors | {f"state/{name}": value for name, value in self.state.items()}

    def _described(self, sha256: str, weights: str | None = None) -> dict[str, Any]:
        """Return the content of ``sureness.json``, given the checksums of the tensors and of the model's weights."""
        description = _Description(
            format=FORMAT,
            version=VERSION,
            task=self.task,
            temperature=self.scaling.temperature,
            shift=self.scaling.shift,
            score=self.score,
            alpha=self.alpha,
            notes=self.notes,
            weights=weights,
            sha256=sha256,
            difficulty=self.difficulty,
        )
        left_out = (set() if self.scaling.shift else {"shift"}) | (set() if self.task.measured else {"difficulty"})
        return files.sealed(description.model_dump(mode="json", exclude=left_out))

    @classmethod
    def load(cls, folder: str | Path, weights: str | None = None) -> Self:
        """Read what `save` wrote; raise if it belongs to other ``weights``. No code is executed."""
        place = Path(folder)
        description = _read_description(place / DESCRIPTION, weights)
        tensors = read_tensors(place / TENSORS, description.sha256, REPAIR)
        state = {name.partition("/")[2]: value for name, value in tensors.items() if name.startswith("state/")}
        kept = () if ALL_ALIKE in state else DOMAIN_SCORES[description.score].keeps
        needed = ("reference", "conformity", "counts", *(f"state/{name}" for name in kept))
        if missing := [name for name in needed if name not in tensors]:
            raise InputError(f"{place / TENSORS} has no tensor {missing[0]}; {REPAIR}.")
        if not _fitting(description.task, tensors):
            raise InputError(f"{place / TENSORS} does not fit the task in {DESCRIPTION}; {REPAIR}.")
        return cls(
            description.task,
            Scaling(description.temperature, description.shift),
            description.score,
            description.alpha,
            tensors["reference"],
            state,
            tensors["conformity"],
            tensors["counts"],
            description.notes,
            description.difficulty,
        )


def seen_in_training(score: DomainScore, method: Method, graphs: GraphSet) -> Seen:
    """Return what a domain score learns from training graphs, at most as many as it may know."""
    if score.encodings:
        return fingerprinted(sample(graphs, FINGERPRINTED))
    return observe(method, sample(graphs), score.embeds)


def unusual_among(score: DomainScore, task: Task, state: Mapping[str, Tensor], known: Seen) -> Tensor:
    """Return how unusual each of some known graphs is among the others, or of a sample of them if they are many."""
    return _rankable((score.among or score.measure)(task, dict(state), known.take(sampled(len(known)))))


class _Description(BaseModel):
    """Content of ``sureness.json``."""

    model_config = ConfigDict(allow_inf_nan=False)

    format: str
    version: int
    task: Task
    temperature: float = Field(ge=COLDEST / 2, le=HOTTEST * 2)
    shift: tuple[float, ...] = ()
    score: str
    alpha: float = Field(gt=0, lt=1)
    notes: tuple[str, ...]
    weights: str | None
    sha256: str
    difficulty: Difficulty = CONSTANT


def few_notes(reference: Tensor, alpha: float) -> tuple[str, ...]:
    """Return a sentence if reference graphs are too few to say what is unusual."""
    if conformal_rank(len(reference), 1 - alpha) <= len(reference):
        return ()
    needed = f"{counted(len(reference), 'reference graph')}, at least {round(1 / alpha) - 1} needed."
    return (f"only larger graphs and new kinds of nodes are flagged as outside the domain: {needed}",)


def learn_intervals(
    task: Task, id_val: Seen, y: Tensor, unusual: Tensor
) -> tuple[Difficulty, Tensor, Tensor, tuple[str, ...]]:
    """Return difficulty, sorted errors with their counts, and notes, from validation graphs with measured labels."""
    errors = (id_val.logits - standardised(task, y.double())).abs()  # (n, T)
    signals = {"domain": unusual} | ({"spread": id_val.signals[SPREAD]} if SPREAD in id_val.signals else {})
    difficulty = fit_difficulty(errors, signals)
    rows, counts = ordered_errors(errors, difficulty(signals, errors))
    notes: tuple[str, ...] = ()
    if not bool(half_widths(rows, counts, LEVEL).isfinite().all()):
        few, least = counted(int(counts.min()), "ID validation label"), round(1 / (1 - LEVEL)) - 1
        notes = (f"intervals of level {LEVEL:g} are unbounded: {few}, at least {least} needed.",)
    return difficulty, rows, counts, notes


def _fitting(task: Task, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether the tensors of a file have the shapes that the task needs."""
    reference, rows, counts = (tensors[name] for name in ("reference", "conformity", "counts"))
    kinds = {"multiclass": (1, task.outputs), "binary": (task.outputs, 2), REGRESSION: (task.outputs, 1)}
    each = kinds[task.kind]  # targets T, classes K
    return (
        reference.dim() == 1
        and len(reference) > 0
        and reference.is_floating_point()
        and not bool(reference.isnan().any())
        and tuple(rows.shape[:2]) == tuple(counts.shape) == each
        and rows.dim() == 3
    )


def _check(score: str, alpha: float) -> DomainScore:
    """Return the domain score of that name; raise if the name or alpha is invalid."""
    check_name("domain score", score, DOMAIN_SCORES)
    if not 0 < alpha < 1:
        raise InputError(f"alpha = {alpha:g} is out of range; give a share between 0 and 1, e.g. 0.05.")
    return DOMAIN_SCORES[score]


def check_validation(id_val: GraphSet) -> None:
    """Raise if there is nothing to calibrate on."""
    if not len(id_val):
        raise InputError("there are no ID validation graphs to calibrate on; give at least one.")


def _rounding(unusual: Tensor) -> Tensor:
    """Return the difference up to which raw domain scores count as equal, (B,).

    Rounding errors depend on the other graphs of a batch. Without this, a graph that equals a validation graph would
    fall on either side of it.
    """
    return 1e-7 + 1e-6 * unusual.abs().nan_to_num(posinf=0.0)


def _rankable(values: Tensor) -> Tensor:
    """Return scores with NaN replaced by infinity, the most unusual value."""
    return values.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)


def _read_description(path: Path, weights: str | None) -> _Description:
    """Read and check the description."""
    found = read_format(path, FORMAT, VERSION, REPAIR)
    try:
        description = _Description.model_validate(found)
    except ValidationError as error:
        raise InputError(f"{path} is damaged: {first_mistake(error)}") from None
    if description.shift and len(description.shift) != description.task.outputs:
        raise InputError(f"{path} is damaged: shift needs one number per output; {REPAIR}.")
    parts = (description.difficulty.start, description.difficulty.slope, description.difficulty.mean)
    if any(len(part) != (description.task.outputs if description.difficulty.by else 0) for part in parts):
        raise InputError(f"{path} is damaged: difficulty needs one number per target; {REPAIR}.")
    check_name(f"domain score in {path}", description.score, DOMAIN_SCORES)
    if weights is not None and description.weights not in (None, weights):
        raise InputError(f"{path} belongs to other weights; {REPAIR}.")
    return description
