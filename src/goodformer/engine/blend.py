"""Training of a blend: its members one after the other, then what combines them."""

from __future__ import annotations

import glob
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer import files
from goodformer.config.presets import member_configs, member_name
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine import predictions
from goodformer.engine.evaluate import collect, logits_in_order, measure
from goodformer.engine.parcel import pack, receive
from goodformer.engine.record import peak_memory_mb, provenance, summarise
from goodformer.engine.selection import RULES
from goodformer.engine.store import BEST, CONFIG, EPOCHS, LAST, PREDICTED, SUMMARY, Run
from goodformer.engine.weights import ModelFile, load_weights, save_weights
from goodformer.errors import InputError
from goodformer.methods.base import Method, link, mean_loss, standardised
from goodformer.methods.blend import Blend, Combination, Mean
from goodformer.spec import SPLITS, Task

MEMBERS = "members"
"""Folder of the members' runs in the folder of the blend, except those that were there before the blend."""
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


def complete_blend(
    run: Run,
    config: RunConfig,
    hardware: Hardware,
    benchmark: Benchmark,
    file: ModelFile,
    train: Callable[[RunConfig, Path, Hardware, Benchmark], Run],
) -> None:
    """Train what is missing of the members, combine them and write the run's summary.

    Temperatures and weights are learnt on the split that selects epochs, so ID validation stays held out for
    calibration and conformal sets unless it selects the epoch, too. The metrics of that split are cross-fitted, see
    `combine`.

    Args:
        run: The blend.
        config: Its configuration.
        hardware: Where to compute.
        benchmark: The data.
        file: Description of the blend.
        train: Trains a member, see `goodformer.engine.run.train`.
    """
    files.write_json(run.folder / CONFIG, config.to_dict())
    members = member_configs(config)
    quick, trained = hardware.model_copy(update={"test_epochs": False}), []
    for number, one in enumerate(members):
        announce(one, number, len(members), hardware)
        member = member_run(run, one.folder_name)
        if not member.finished:
            copy_member(run, member)
        trained.append(train(one, member.folder.parent, quick, benchmark))
    start, task, size = time.perf_counter(), benchmark.task, config.training.eval_batch_size
    mean: Mean = config.method["mean"]
    blend = Blend.join(task, [load_weights(one.weights(BEST))[0] for one in trained], mean)
    ready = benchmark.with_encodings(blend.encodings)
    taught_by = RULES[config.training.selection] or "val"
    held_out = combine(blend, ready.splits[taught_by], size, config.method["shift"])

    about = {"run": config.id, "epoch": 1, "dataset": config.dataset}
    described = file.model_copy(update={"about": about})
    save_weights(run.folder / BEST, described, blend.state_dict())
    last = Blend.join(task, [load_weights(one.weights(LAST))[0] for one in trained], mean)
    last.combination = blend.combination
    save_weights(run.folder / LAST, described, last.state_dict())

    measured, kept = {}, {}
    for split in SPLITS:
        outputs = collect(blend, ready.splits[split], size)
        if split == taught_by and held_out is not None:
            outputs["logits"] = held_out
        measured[split] = measure(task, [outputs])
        kept[split] = logits_in_order(outputs, ready.splits[split], task)
    entry = predictions.keep(
        run.folder / PREDICTED, {split: kept[split] for split in predictions.KEPT}, benchmark.splits, task
    )
    summaries = [one.summary or {} for one in trained]
    record = {
        "epoch": 1,
        "loss": {"total": measured["train"]["loss"]},
        **measured,
        "learning_rate": config.training.learning_rate,
        **{name: _total(trained, name) for name in ("seconds", "processor_seconds")},
        "eval_seconds": round(time.perf_counter() - start, 3),
    }
    weights, temperatures = blend.weights.tolist(), blend.temperatures.tolist()
    cost = {
        "parameters": sum(parameter.numel() for parameter in blend.parameters()),
        "wall_seconds": round(sum(one.get("wall_seconds") or 0.0 for one in summaries), 3),
        "peak_memory_mb": max(peak_memory_mb(), *(one.get("peak_memory_mb") or 0.0 for one in summaries)),
        "device": ", ".join(dict.fromkeys(str(one["device"]) for one in summaries if one.get("device"))) or None,
        "cross_fitted": taught_by,
        "members": [
            {
                "run": one.folder_name,
                "method": one.method["name"],
                "preset": one.preset,
                "model": one.model["name"],
                "seed": one.seed,
                **{name: summary.get(name) for name in ("selected_epoch", "epochs")},
                **{name: summary.get(name) for name in ("id_val", "ood_val", "id_test", "ood_test")},
                "weight": round(weight, 6),
                "temperature": round(temperature, 6),
            }
            for one, summary, weight, temperature in zip(members, summaries, weights, temperatures, strict=True)
        ],
    }
    files.write_lines(run.folder / EPOCHS, [files.sealed(record)])
    summary = summarise(config, benchmark, [record], cost, hardware, entry)
    files.write_json(run.folder / SUMMARY, files.sealed(summary))


def announce(config: RunConfig, number: int, members: int, hardware: Hardware) -> None:
    """Say which member is trained next, if progress is shown."""
    if hardware.progress:
        name = member_name({"method": config.method["name"], "model": config.model["name"], "preset": config.preset})
        print(f"member {number + 1} of {members}: {name}, seed {config.seed}", file=sys.stderr, flush=True)


def member_run(run: Run, name: str) -> Run:
    """Return the run of a member: a finished one beside the blend, or one inside its folder."""
    beside = Run(run.folder.parent / name)
    return beside if beside.finished else Run(run.folder / MEMBERS / name)


def copy_member(run: Run, member: Run) -> None:
    """Copy a member of a blend that another blend beside it has trained, so that it is not trained again.

    Nothing happens unless the same commit, packages and machine trained it, which the record of the blend states.
    """
    here = provenance()
    if not here["commit"] or here["commit"].endswith("+"):  # unknown, or with changed files, which may change again
        return
    for place in sorted(run.folder.parent.glob(f"*/{MEMBERS}/{glob.escape(member.folder.name)}/{SUMMARY}")):
        with suppress(InputError):  # the other one is damaged
            summary = Run(place.parent).summary or {}
            if here.items() <= summary.items() and (content := pack(place.parent)):
                receive(member.folder, content)
                return


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


def _total(runs: Sequence[Run], name: str) -> float:
    """Return the sum of a value over all epochs of some runs."""
    return round(sum(float(epoch.get(name, 0.0)) for run in runs for epoch in run.epochs), 3)
