"""The paper's two theorems beside measurement: attention disperses as graphs grow, and temperature brings it back.

`measure` computes everything into one record; tables and pictures are made from the record alone. Letters: n nodes of a
graph, H heads, B graphs, T temperatures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from goodformer.data.benchmarks.motif import CYCLE, GOOD_CRANE, HOUSE, MOTIF_NODES, Plan, Templates
from goodformer.data.benchmarks.motif import assemble as assemble_motifs
from goodformer.data.graphs import GraphSet
from goodformer.data.random import Draws
from goodformer.engine.evaluate import evaluate
from goodformer.engine.record import machine, source_commit, versions
from goodformer.engine.seeds import own_randomness
from goodformer.engine.store import Run
from goodformer.fitted import FittedModel
from goodformer.models.goodformer import GOODFormer
from goodformer.nn.temperature import row_entropy, solve_temperature
from goodformer.registry import InputError
from goodformer.report import tables

Record = Mapping[str, Any]

KIND = "theory"
LOW, HIGH = -2.0, 2.0
"""The bounds m and M of the random logits."""
COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Nodes of the graphs that random logits belong to."""
BASE_NODES = (10, 20, 40, 80, 160, 320)
"""Nodes of the bases that a trained model is shown; the motif has five more."""
GRAPHS = 60
TEMPERATURES = np.geomspace(0.2, 10, 41)
COMPARED = (0.5, 1.0, 2.0)
"""Temperatures at which the paper's expression for the derivative is held against the exact one."""
SETTINGS = ("none", "exact")
"""Attention without temperature (t = 1), and with the solved one."""
BATCH = 16
ROOM = 1e-4
"""What rounding may add to a weight or take from an entropy of single-precision attention."""


def measure(
    runs: Sequence[Run] = (),
    graphs: int = GRAPHS,
    base_nodes: Sequence[int] | None = None,
    told: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Everything the page of theory shows, as one JSON value.

    Args:
        runs: Trained runs of GOODFormer on GOOD-Motif; without any, only what needs no model is measured.
        graphs: Graphs of each kind and size of base.
        base_nodes: Even sizes of the bases; `BASE_NODES` where none are given.
        told: Called with the number of kinds and sizes done so far.
    """
    return {
        "kind": KIND,
        "commit": source_commit(),
        "dispersion": dispersion(),
        "temperature": [slopes(name, e) for name, e in vectors().items()],
        "runs": [measure_run(run, graphs, base_nodes, told) for run in runs],
        "versions": versions(),
        "machine": machine(),
    }


# Theorem 1 ------------------------------------------------------------------------------------------------------------


def weight_bound(spread: Tensor, n: int) -> Tensor:
    """The most that a weight of Softmax(e) over n logits can be where max e - min e = spread: exp(spread) / n."""
    return spread.exp() / n


def entropy_bound(spread: Tensor, n: int) -> Tensor:
    """The least that the entropy of Softmax(e) can be: log n - spread, which follows from `weight_bound`."""
    return math.log(n) - spread


def gap_bound(low: float, high: float, invariant: int, variant: int) -> float:
    """Theorem 1's bound on a weight inside the invariant subgraph less one outside of it, as the paper states it.

    Args:
        low: m, the lower bound of the logits outside, which are negative.
        high: M, the upper bound of the logits inside, which are positive.
        invariant: n_c, the number of logits inside.
        variant: n_s, the number of logits outside.
    """
    return (math.exp(high) - math.exp(low)) / (invariant + variant * math.exp(low))


def dispersion(counts: Sequence[int] = COUNTS, rows: int = 200, seed: int = 0) -> list[dict[str, float]]:
    """Random logits that keep Theorem 1's premise, n_c = 5 in (0, M] and n - 5 in [m, 0), against its bounds."""
    draw = torch.Generator().manual_seed(seed)
    return [_dispersed(bounded_logits(rows, n, draw), n) for n in counts]


def bounded_logits(rows: int, n: int, draw: torch.Generator) -> Tensor:
    """Rows of uniform logits (rows, n), the first five in (0, M], all others in [m, 0)."""
    share = 1 - torch.rand(rows, n, generator=draw, dtype=torch.double)  # (0, 1]
    inside = torch.arange(n) < MOTIF_NODES
    return torch.where(inside, HIGH * share, LOW * share)


def _dispersed(logits: Tensor, n: int) -> dict[str, float]:
    """Figures of one size: what was measured, the worst of all rows, and what the bounds allow."""
    p = logits.softmax(-1)
    gap = p[:, :MOTIF_NODES].amax(-1) - p[:, MOTIF_NODES:].amin(-1)  # the widest gap of each row
    spread = torch.tensor(HIGH - LOW, dtype=torch.double)
    entropy = row_entropy(logits, p)
    return {
        "nodes": n,
        "gap": float(gap.max()),
        "gap_worst": worst_gap(n),
        "gap_bound": gap_bound(LOW, HIGH, MOTIF_NODES, n - MOTIF_NODES),
        "largest": float(p.max()),
        "largest_bound": float(weight_bound(spread, n)),
        "entropy": float(entropy.min()),
        "entropy_bound": float(entropy_bound(spread, n)),
    }


def worst_gap(n: int) -> float:
    """The widest gap that logits of the premise come near: one at M, the other four close to 0, all others at m."""
    top, bottom = math.exp(HIGH), math.exp(LOW)
    return (top - bottom) / (top + MOTIF_NODES - 1 + (n - MOTIF_NODES) * bottom)


# Theorem 2 ------------------------------------------------------------------------------------------------------------


def entropy_at(e: Tensor, t: Tensor) -> Tensor:
    """H(t), the entropy of Softmax(e / t), for logits (n,) and temperatures (T,), -> (T,)."""
    logits = e / t[:, None]  # (T, n)
    return row_entropy(logits, logits.softmax(-1))


def entropy_slope(e: Tensor, t: Tensor) -> Tensor:
    """dH/dt = Var_p(e) / t^3 with p = Softmax(e / t), exactly, (n,), (T,) -> (T,)."""
    p = (e / t[:, None]).softmax(-1)  # (T, n)
    mean = (p * e).sum(-1, keepdim=True)
    return (p * (e - mean).square()).sum(-1) / t**3


def published_slope(e: Tensor, t: Tensor) -> Tensor:
    """The paper's expression for dH/dt, in which dp_i/dt lacks the terms of the other logits, (n,), (T,) -> (T,)."""
    p = (e / t[:, None]).softmax(-1)  # (T, n)
    return (e.square() * p * (1 - p)).sum(-1) / t**3


def autograd_slope(e: Tensor, t: Tensor) -> Tensor:
    """dH/dt by automatic differentiation, (n,), (T,) -> (T,)."""
    free = t.clone().requires_grad_()
    return torch.autograd.grad(entropy_at(e, free).sum(), free)[0]


def difference_slope(e: Tensor, t: Tensor, step: float = 1e-4) -> Tensor:
    """dH/dt by central differences of the relative width ``step``, (n,), (T,) -> (T,)."""
    return (entropy_at(e, t * (1 + step)) - entropy_at(e, t * (1 - step))) / (2 * step * t)


def vectors() -> dict[str, Tensor]:
    """The logits whose entropy is shown."""
    draw = torch.Generator().manual_seed(0)
    return {
        "1 of 20 stands out": torch.tensor([2.0] + 19 * [-1.0], dtype=torch.double),
        "5 of 50 stand out": torch.tensor(5 * [2.0] + 45 * [-2.0], dtype=torch.double),
        "20 normal draws": torch.randn(20, generator=draw, dtype=torch.double),
    }


def slopes(name: str, e: Tensor) -> dict[str, Any]:
    """The entropy of one vector over all temperatures, its derivative in four ways, and how far they lie apart."""
    t = torch.from_numpy(TEMPERATURES)
    entropy, exact, autograd = entropy_at(e, t), entropy_slope(e, t), autograd_slope(e, t)
    some = torch.tensor(COMPARED, dtype=torch.double)
    return {
        "name": name,
        "logits": len(e),
        "t": _short(t),
        "entropy": _short(entropy),
        "slope": _short(exact),
        "difference": _short(difference_slope(e, t)),
        "rises": bool((entropy.diff() > 0).all()),
        "error_autograd": _apart(exact, autograd),
        "error_difference": _apart(exact, difference_slope(e, t)),
        "published_ratio": _short(published_slope(e, some) / entropy_slope(e, some)),
    }


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of two curves, as a share of the largest value."""
    return float((one - other).abs().max() / other.abs().max())


def _short(values: Tensor) -> list[float]:
    """Numbers to six digits."""
    return [float(f"{value:.6g}") for value in values.tolist()]


# A trained model ------------------------------------------------------------------------------------------------------

BASES: dict[str, Callable[[int], nx.Graph]] = {
    "path": nx.path_graph,
    "tree": lambda nodes: nx.full_rary_tree(2, nodes),
    "star": lambda nodes: nx.star_graph(nodes - 1),
    "wheel": nx.wheel_graph,
    "ladder": lambda nodes: nx.ladder_graph(nodes // 2),
}
"""The bases of GOOD-Motif by their number of nodes."""
THIN = ("path", "tree")
"""The bases that are shown in full."""


def measure_run(
    run: Run,
    graphs: int = GRAPHS,
    base_nodes: Sequence[int] | None = None,
    told: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """What a trained model's attention, accuracy and explanation do as bases grow, with and without temperature."""
    pair = twins(run)
    cells = []
    for base in BASES:
        for nodes in base_nodes or BASE_NODES:
            cells.append({"base": base, **observe(pair, grown(base, nodes, graphs))})
            told(len(cells))
    return {
        "id": run.config.id,
        **{key: run.config.dataset.get(key) for key in ("domain", "shift", "graphs")},
        "preset": run.config.preset,
        "budget": run.config.budget,
        "seed": run.config.seed,
        "target": float(_model(pair["exact"]).mean_entropy[0].mean()),
        "cells": cells,
    }


def twins(run: Run) -> dict[str, FittedModel]:
    """The run's predictor twice, with the same weights: without temperature and with the solved one."""
    if run.config.dataset["name"] != "good-motif" or run.config.model["name"] != "goodformer":
        raise InputError(
            f"run {run.config.id} is {run.config.model['name']} on {run.config.dataset['name']}; "
            "give a run of model goodformer on good-motif."
        )
    predictor = FittedModel.of_run(run)
    return {setting: twin(predictor, setting) for setting in SETTINGS}


def twin(predictor: FittedModel, temperature: str) -> FittedModel:
    """A predictor of the same weights whose model has another setting of ``temperature``."""
    recipe = replace(predictor.file, model={**predictor.file.model, "temperature": temperature})
    with own_randomness():
        method = recipe.build()
    method.load_state_dict(predictor.method.state_dict())
    return FittedModel(method, recipe, predictor.file.about)


def grown(base: str, nodes: int, graphs: int, seed: int = 0) -> GraphSet:
    """GOOD-Motif's graphs with bases of so many nodes and every third of a motif; no label is wrong.

    As in GOOD-Motif, one edge joins motif and base and int(5 % of the edges) more join random pairs.
    """
    if nodes < 6 or nodes % 2:
        raise InputError(f"a base of {nodes} nodes is not accepted; give an even number from 6 on.")
    motif, zeros = np.arange(graphs) % 3, np.zeros(graphs, dtype=np.int64)
    motifs = Templates.of([nx.Graph(edges) for edges in (HOUSE, CYCLE, GOOD_CRANE)])
    draws = Draws(seed, f"{KIND}/{base}/{nodes}")
    plan = Plan(zeros, motif, motif, zeros, zeros)
    return assemble_motifs(draws, plan, Templates.of([BASES[base](nodes)]), motifs, noise=True)


def observe(pair: Mapping[str, FittedModel], graphs: GraphSet) -> dict[str, Any]:
    """The figures of graphs of one size: attention with and without temperature, and what it is worth."""
    ready = pair["none"].prepare(graphs)
    with watched(_model(pair["none"])) as seen:
        worth = {setting: evaluate(one.method, ready, BATCH) for setting, one in pair.items()}
    figures = ("accuracy", "precision_at_10")
    return {
        "nodes": int(graphs.sizes[0]),
        "graphs": len(graphs),
        **_attention(seen),
        **{name: {setting: worth[setting].get(name) for setting in SETTINGS} for name in figures},
    }


@contextmanager
def watched(model: GOODFormer) -> Iterator[list[dict[str, Tensor]]]:
    """While graphs of one size run through the model, keep the figures of their attention, batch by batch."""
    seen: list[dict[str, Tensor]] = []
    target = model.mean_entropy[0]
    handle = model.scores.register_forward_hook(lambda layer, given, scores: seen.append(attention(scores, target)))
    try:
        yield seen
    finally:
        handle.remove()


def attention(scores: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Figures of the attention of graphs of equal size whose motif comes last, a mean over each graph's rows.

    Args:
        scores: E, (B, H, n, n).
        target: The entropy of training, (H,).

    Returns:
        (B, H) each: the ``temperature``, ``spread`` = max E - min E of a row, ``low`` and ``high`` of all, the share of
        pairs within the motif that score above zero (``inside``) and of pairs from motif to base below (``outside``);
        and for both settings what `_softmax` tells.
    """
    size, _, n, _ = scores.shape
    t = solve_temperature(scores, torch.ones(size, n, dtype=torch.bool, device=scores.device), target)
    motif = scores[..., -MOTIF_NODES:, :]
    figures = {
        "temperature": t.log(),  # averaged as a factor is
        "spread": (scores.amax(-1) - scores.amin(-1)).mean(-1),
        "low": scores.amin((-1, -2)),
        "high": scores.amax((-1, -2)),
        "inside": (motif[..., -MOTIF_NODES:] > 0).float().mean((-1, -2)),
        "outside": (motif[..., :-MOTIF_NODES] < 0).float().mean((-1, -2)),
    }
    for setting, logits in (("none", scores), ("exact", scores / t[..., None, None])):
        figures |= {f"{name}/{setting}": value for name, value in _softmax(logits).items()}
    return figures


def _softmax(logits: Tensor) -> dict[str, Tensor]:
    """Of Softmax(logits), (B, H, n, n): entropy, largest weight, what a motif's rows keep in the motif, and bounds."""
    p, n = logits.softmax(-1), logits.shape[-1]
    spread = logits.amax(-1) - logits.amin(-1)  # (B, H, n)
    entropy, largest = row_entropy(logits, p), p.amax(-1)
    least, most = entropy_bound(spread, n), weight_bound(spread, n)
    return {
        "entropy": entropy.mean(-1),
        "entropy_bound": least.clamp(min=0).mean(-1),  # below zero it says nothing
        "largest": largest.mean(-1),
        "largest_bound": most.clamp(max=1).mean(-1),
        "kept": p[..., -MOTIF_NODES:, -MOTIF_NODES:].sum(-1).mean(-1),
        "broken": ((entropy < least - ROOM * (1 + spread)) | (largest > most * (1 + ROOM))).float().sum(-1),
    }


def _attention(seen: Sequence[dict[str, Tensor]]) -> dict[str, Any]:
    """The figures of all batches as numbers, those with two settings side by side."""
    joined = {name: torch.cat([part[name] for part in seen]).double() for name in seen[0]}  # (B, H) each
    extremes = {"low": Tensor.amin, "high": Tensor.amax}
    figures: dict[str, Any] = {}
    for name, value in joined.items():
        number = float(extremes.get(name, Tensor.sum if name.startswith("broken") else Tensor.mean)(value))
        head, _, setting = name.partition("/")
        if setting:
            figures.setdefault(head, {})[setting] = number
        else:
            figures[head] = math.exp(number) if name == "temperature" else number
    return figures


def _model(predictor: FittedModel) -> GOODFormer:
    model = predictor.method.model
    assert isinstance(model, GOODFormer)
    return model


# The page -------------------------------------------------------------------------------------------------------------

EMPTY = "No trained run was given; `goodformer theory --run RUN` measures one."


def write(record: Record, page: Path) -> bool:
    """Put the tables of a record between the markers of a page; True where that changed it."""
    changed = [tables.insert(page, f"{KIND}-{name}", body) for name, body in blocks(record).items()]
    return any(changed)


def blocks(record: Record) -> dict[str, str]:
    """The tables by the names of their markers."""
    trained = bool(record["runs"])
    return {
        "random": random_table(record),
        "slope": slope_table(record),
        "attention": attention_table(record) if trained else EMPTY,
        "solved": f"{solved_table(record)}\n\n{base_table(record)}\n\n{says(record)}" if trained else EMPTY,
        "origin": origin(record),
    }


def random_table(record: Record) -> str:
    """Random logits against Theorem 1's bound and the plain ones."""
    head = ["n", "gap", "worst case", "bound", "largest weight", "bound", "lowest entropy", "bound"]
    keys = ("gap", "gap_worst", "gap_bound", "largest", "largest_bound", "entropy", "entropy_bound")
    rows = [[str(row["nodes"]), *(f"{row[key]:.3g}" for key in keys)] for row in record["dispersion"]]
    return tables.markdown_table(head, rows)


def slope_table(record: Record) -> str:
    """How far the derivative's formula is from other ways to compute it."""
    head = ["logits", "H rises", "to automatic differentiation", "to central differences"]
    head += [f"the paper's / exact, t = {t:g}" for t in COMPARED]
    return tables.markdown_table(head, map(_slope_row, record["temperature"]))


def _slope_row(row: Record) -> list[str]:
    errors = (f"{row[key]:.1e}" for key in ("error_autograd", "error_difference"))
    ratios = (f"{ratio:.3g}" for ratio in row["published_ratio"])
    return [row["name"], "everywhere" if row["rises"] else "not everywhere", *errors, *ratios]


def attention_table(record: Record) -> str:
    """The attention of trained models at t = 1 against the bounds, over paths and trees."""
    head = ["n", "max E - min E of a row", "largest weight", "bound", "entropy", "bound", "log n"]
    keys = (("spread", None), *((name, "none") for name in ("largest", "largest_bound", "entropy", "entropy_bound")))
    rows = [
        [str(n), *(tables.spread(over_runs(record, n, *key), 1) for key in keys), f"{math.log(n):.3f}"]
        for n in sizes(record)
    ]
    return f"{tables.markdown_table(head, rows)}\n\n{_premises(record)}"


def _premises(record: Record) -> str:
    """How far the theorem's premises hold on the trained models, in a sentence."""
    every = [cell for run in record["runs"] for cell in run["cells"]]
    thin = [cell for cell in every if cell["base"] in THIN]
    low, high = min(cell["low"] for cell in every), max(cell["high"] for cell in every)
    broken = sum(sum(cell["broken"].values()) for cell in every)
    inside, outside = (statistics.fmean(cell[name] for cell in thin) for name in ("inside", "outside"))
    return (
        f"Over all five bases the logits lie between {low:.1f} and {high:.1f}. Rows that break a bound, at t = 1 or at "
        f"the solved t: {broken:.0f}. On paths and trees {inside:.0%} of the pairs within the motif have E > 0 and "
        f"{outside:.0%} of those from motif to base have E < 0."
    )


def solved_table(record: Record) -> str:
    """What the solved temperature does to trained models, over paths and trees."""
    head = ["n", "solved t"]
    head += [f"{name}, {word}" for name, _, _ in SOLVED for word in ("t = 1", "solved")]
    rows = [
        [
            str(n),
            tables.spread(over_runs(record, n, "temperature"), 1),
            *(tables.spread(over_runs(record, n, key, one), scale) for _, key, scale in SOLVED for one in SETTINGS),
        ]
        for n in sizes(record)
    ]
    return tables.markdown_table(head, rows)


SOLVED = (
    ("entropy", "entropy", 1),
    ("kept in the motif", "kept", 1),
    ("accuracy %", "accuracy", 100),
    ("Precision@10", "precision_at_10", 1),
)


BY_BASE: tuple[tuple[str, str, str | None, float], ...] = (
    ("accuracy %, t = 1", "accuracy", "none", 100),
    ("accuracy %, solved t", "accuracy", "exact", 100),
    ("solved t", "temperature", None, 1),
)


def base_table(record: Record) -> str:
    """Accuracy without and with the solved temperature, and that temperature, on every base and size."""
    rows = [
        [base, name, *(tables.spread(over_runs(record, n, key, setting, (base,)), scale) for n in sizes(record))]
        for base in BASES
        for name, key, setting, scale in BY_BASE
    ]
    return tables.markdown_table(["base", "figure", *(f"n = {n}" for n in sizes(record))], rows)


def says(record: Record) -> str:
    """What the figures come to, a line for each kind of base, from the smallest size to the largest."""
    small, large = sizes(record)[0], sizes(record)[-1]

    def moved(key: str, setting: str, bases: Sequence[str]) -> str:
        ends = (statistics.fmean(over_runs(record, n, key, setting, bases)) for n in (small, large))
        return " to ".join(f"{100 * end:.1f} %" for end in ends)

    lines = [f"From n = {small} to n = {large}:", ""]
    for bases in (THIN, *((base,) for base in BASES if base not in THIN)):
        plain, exact = (moved("accuracy", setting, bases) for setting in SETTINGS)
        lines.append(f"- accuracy on {' and '.join(bases)} bases: {plain} at t = 1, {exact} with the solved t;")
    gains = [
        f"{100 * (exact - plain):+.1f}"
        for plain, exact in zip(*(over_runs(record, large, "accuracy", one) for one in SETTINGS), strict=True)
    ]
    lines.append(
        f"- points that the solved t adds on {' and '.join(THIN)} bases at n = {large}, run by run: {', '.join(gains)};"
    )
    plain, exact = (moved("kept", setting, THIN) for setting in SETTINGS)
    lines.append(f"- attention a motif node keeps in the motif, path and tree: {plain} at t = 1, {exact} with it.")
    return "\n".join(lines)


def origin(record: Record) -> str:
    """Which source and which runs the figures are of."""
    line = f"Measured with commit `{record['commit']}`"
    if not record["runs"]:
        return f"{line}, random logits only."
    of = record["runs"][0]
    names = ", ".join(f"`{run['id']}` (seed {run['seed']})" for run in record["runs"])
    return (
        f"{line}; runs of GOODFormer on GOOD-Motif / {of['domain']} / {of['shift']}, preset `{of['preset']}`, "
        f"{of['graphs']} graphs in all splits: {names}. {of['cells'][0]['graphs']} graphs a base and size. Entropy of "
        f"training: {tables.spread([run['target'] for run in record['runs']], 1)}."
    )


def sizes(record: Record) -> list[int]:
    """The numbers of nodes measured, ascending."""
    return sorted({cell["nodes"] for run in record["runs"] for cell in run["cells"]})


def over_runs(
    record: Record, nodes: int, key: str, setting: str | None = None, bases: Sequence[str] = THIN
) -> list[float]:
    """One figure of every run at one size, a mean over the bases; runs that do not know it are left out."""
    means = []
    for run in record["runs"]:
        cells = [cell[key] for cell in run["cells"] if cell["nodes"] == nodes and cell["base"] in bases]
        known = [value for cell in cells if (value := cell[setting] if setting else cell) is not None]
        means += [statistics.fmean(known)] if known else []
    return means
