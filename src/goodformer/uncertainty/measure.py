"""Measure the uncertainty of a trained run on its own benchmark, in and out of distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine.record import identity, provenance
from goodformer.engine.store import Run
from goodformer.engine.weights import load_weights
from goodformer.spec import SPLITS, Task
from goodformer.uncertainty.calibration import measures
from goodformer.uncertainty.domain import DEFAULT, DOMAIN_SCORES, available, default_score, detection
from goodformer.uncertainty.observe import FINGERPRINTED, Seen, fingerprinted, observe, sample
from goodformer.uncertainty.uncertainty import Uncertainty, check_validation

KIND = "sureness"
"""The kind of these records in files."""
AGAINST = {"val": "id_val", "test": "id_test"}
"""OOD splits, and the in-distribution split that a domain score should separate each from."""
MEASURED = ("id_test", "val", "test")
"""Splits that nothing is fitted to."""
LEVEL = 0.9


def measure_run(
    run: Run, weights: str = "best", alpha: float = 0.05, level: float = LEVEL, save: bool = False
) -> dict[str, Any]:
    """Measure calibration, domain scores and conformal sets of a run, as one record.

    Everything is fitted to training and ID validation graphs. ID test, OOD validation and OOD test are only measured;
    splits without graphs are left out.

    Args:
        run: A trained run.
        weights: ``best`` or ``last``.
        alpha: Share of usual graphs that may be flagged as outside the domain.
        level: Level of the conformal sets.
        save: Whether to write the uncertainty beside the weights, so that predictions include it.
    """
    folder = run.weights(weights)
    method, file = load_weights(folder)
    plain = load_benchmark(**run.config.dataset)
    default = default_score(plain.features)
    benchmark = plain.with_encodings((*method.encodings, *DOMAIN_SCORES[default].encodings))
    check_validation(benchmark.splits["id_val"])
    graphs = {split: part for split, part in benchmark.splits.items() if len(part)}
    graphs["train"] = sample(graphs["train"])
    seen = {split: observe(method, graphs[split]) for split in SPLITS if split in graphs}
    if save:
        train = benchmark.splits["train"]
        fitted = Uncertainty.learn(benchmark.task, _learnt(default, seen, train), seen["id_val"], default, alpha)
        fitted.within(train).save(folder, file.sha256)
    return {
        "kind": KIND,
        **identity(run.config, benchmark),
        "weights": weights,
        "epochs": len(run.epochs),
        "graphs": {split: len(seen[split]) if split in seen else 0 for split in SPLITS},
        **measure(benchmark.task, seen, alpha, level, benchmark.splits["train"], default),
        **provenance(),
    }


def measure(
    task: Task,
    seen: Mapping[str, Seen],
    alpha: float = 0.05,
    level: float = LEVEL,
    train: GraphSet | None = None,
    default: str = DEFAULT,
) -> dict[str, Any]:
    """Return the measurements of `measure_run` from computed outputs; ``train`` and ``id_val`` are required.

    With all training graphs, much larger graphs and other kinds of nodes are outside, as in predictions.
    """
    fitted = {
        name: Uncertainty.learn(task, _learnt(name, seen, train), seen["id_val"], name, alpha)
        for name in available(seen["id_val"], task)
    }
    if train is not None:
        fitted = {name: one.within(train) for name, one in fitted.items()}
    chosen = fitted[default]
    measured = {split: seen[split] for split in MEASURED if split in seen}
    labelled = {split: part for split, part in measured.items() if part.y is not None}
    scores: dict[str, dict[str, dict[str, Any]]] = {}
    for name, one in fitted.items():
        unusual = {split: one.unusual(part) for split, part in seen.items() if split != "train"}
        scores[name] = {}
        for split in measured:
            other = AGAINST.get(split)
            separated = detection(unusual.get(other, torch.empty(0)), unusual[split]) if other else {}
            outside = float(one.outside(unusual[split], one.beyond(seen[split])).double().mean())
            scores[name][split] = {**separated, "outside": outside}
    return {
        "default": default,
        "against": dict(AGAINST),
        "alpha": alpha,
        "level": level,
        "scores": scores,
        "temperature": chosen.scaling.temperature,
        "shifts": list(chosen.scaling.shift),
        "calibration": {
            split: {"before": measures(task, z, y), "after": measures(task, chosen.scaling(z), y)}
            for split, part in labelled.items()
            if (z := part.logits) is not None and (y := part.y) is not None and not task.measured
        },
        "conformal": {split: chosen.coverage(part, level) for split, part in labelled.items()},
        "notes": list(chosen.notes),
    }


def _learnt(name: str, seen: Mapping[str, Seen], train: GraphSet | None) -> Seen:
    """Return what a score learns from: a sample of the training graphs, or the fingerprints of all."""
    if train is None or not DOMAIN_SCORES[name].encodings:
        return seen["train"]
    return fingerprinted(sample(train, FINGERPRINTED))
