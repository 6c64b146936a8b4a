"""The attention of trained GOODFormer models on graphs of growing size, with and without the solved temperature.

Letters: n nodes of a graph, H heads, B graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from goodformer.data.benchmarks.motif import CYCLE, GOOD_CRANE, HOUSE, MOTIF_NODES, Plan, Templates, assemble
from goodformer.data.graphs import GraphSet
from goodformer.data.random import Draws
from goodformer.engine.evaluate import evaluate
from goodformer.engine.seeds import own_randomness
from goodformer.engine.store import Run
from goodformer.engine.weights import load_weights
from goodformer.errors import InputError
from goodformer.methods.base import Method
from goodformer.models.goodformer import GOODFormer
from goodformer.nn.temperature import row_entropy, solve_temperature
from goodformer.spec import Encoding
from goodformer.transforms import encode
from lab.theorems import entropy_bound, weight_bound

BASES: dict[str, Callable[[int], nx.Graph]] = {
    "path": nx.path_graph,
    "tree": lambda nodes: nx.full_rary_tree(2, nodes),
    "star": lambda nodes: nx.star_graph(nodes - 1),
    "wheel": nx.wheel_graph,
    "ladder": lambda nodes: nx.ladder_graph(nodes // 2),
}
"""The bases of GOOD-Motif as functions of their number of nodes."""
BASE_NODES = (10, 20, 40, 80, 160, 320)
"""Numbers of nodes of the bases; the motif adds five."""
GRAPHS = 60
"""Graphs per base and size."""
SETTINGS = ("none", "exact")
"""Attention without temperature (t = 1), and with the solved temperature."""
BATCH = 16
TOLERANCE = 1e-4
"""Rounding error allowed when single-precision attention is checked against a bound."""


def measure_run(
    run: Run,
    graphs: int = GRAPHS,
    base_nodes: Sequence[int] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> dict[str, Any]:
    """Measure attention, accuracy and explanation of a trained run as bases grow.

    Args:
        run: A finished run of model goodformer on good-motif.
        graphs: Graphs per base and size.
        base_nodes: Even numbers of nodes of the bases; `BASE_NODES` by default.
        done: Called with the number of finished base sizes.
    """
    pair = twins(run)
    cells = []
    for base in BASES:
        for nodes in base_nodes or BASE_NODES:
            cells.append({"base": base, **observe(pair, grown(base, nodes, graphs))})
            done(len(cells))
    return {
        "id": run.config.id,
        **{key: run.config.dataset.get(key) for key in ("domain", "shift", "graphs")},
        "preset": run.config.preset,
        "budget": run.config.budget,
        "seed": run.config.seed,
        "target": float(_model(pair["exact"]).mean_entropy[0].mean()),
        "cells": cells,
    }


def twins(run: Run) -> dict[str, Method]:
    """Load a run's method twice with the same weights: without temperature and with the solved one."""
    if run.config.dataset["name"] != "good-motif" or run.config.model["name"] != "goodformer":
        raise InputError(
            f"run {run.config.id} has model {run.config.model['name']} on {run.config.dataset['name']}; "
            "expected model goodformer on good-motif."
        )
    trained, file = load_weights(run.folder / "best")
    pair = {}
    for setting in SETTINGS:
        with own_randomness():
            method = file.model_copy(update={"model": {**file.model, "temperature": setting}}).build()
        method.load_state_dict(trained.state_dict())
        pair[setting] = method.eval()
    return pair


def grown(base: str, nodes: int, graphs: int, seed: int = 0) -> GraphSet:
    """Generate GOOD-Motif graphs with a base of ``nodes`` nodes, one third with each motif, all labels correct.

    As in GOOD-Motif, one edge joins motif and base, and int(5 % of the edges) more join random pairs.
    """
    if nodes < 6 or nodes % 2:
        raise InputError(f"a base cannot have {nodes} nodes; expected an even number of at least 6.")
    motif, zeros = np.arange(graphs) % 3, np.zeros(graphs, dtype=np.int64)
    motifs = Templates.of([nx.Graph(edges) for edges in (HOUSE, CYCLE, GOOD_CRANE)])
    plan = Plan(zeros, motif, motif, zeros, zeros)
    return assemble(Draws(seed, f"theory/{base}/{nodes}"), plan, Templates.of([BASES[base](nodes)]), motifs, noise=True)


def with_encodings(method: Method, graphs: GraphSet) -> GraphSet:
    """Attach the encodings that a method reads."""
    for text in method.encodings:
        graphs = graphs.with_node(Encoding.parse(text).attribute, encode(text, graphs.structure()))
    return graphs


def observe(pair: Mapping[str, Method], graphs: GraphSet) -> dict[str, Any]:
    """Measure attention, accuracy and Precision@10 on graphs of one size, with and without temperature."""
    ready = with_encodings(pair["none"], graphs)
    with watched(_model(pair["none"])) as seen:
        found = {setting: evaluate(method, ready, BATCH) for setting, method in pair.items()}
    return {
        "nodes": int(graphs.sizes[0]),
        "graphs": len(graphs),
        **joined(seen),
        **{name: {key: found[key].get(name) for key in SETTINGS} for name in ("accuracy", "precision_at_10")},
    }


@contextmanager
def watched(model: GOODFormer) -> Iterator[list[dict[str, Tensor]]]:
    """Collect the statistics of `attention`, one entry per batch, while graphs of one size pass through the model."""
    seen: list[dict[str, Tensor]] = []
    target = model.mean_entropy[0]
    handle = model.scores.register_forward_hook(lambda layer, given, scores: seen.append(attention(scores[0], target)))
    try:
        yield seen
    finally:
        handle.remove()


def attention(scores: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Compute statistics of the attention of graphs of equal size whose motif comes last, averaged over rows.

    Args:
        scores: E, (B, H, n, n).
        target: The mean entropy during training, (H,).

    Returns:
        (B, H) each. ``temperature`` is the logarithm of the solved one; ``spread`` is max E - min E of a row; ``low``
        and ``high`` are the extremes of E; ``inside`` is the share of pairs within the motif with E > 0, ``outside``
        that of pairs from motif to base with E < 0. For both settings, ``entropy``, ``largest`` (weight of a row),
        their bounds, ``kept`` (attention of motif nodes that stays in the motif) and ``broken`` (rows that violate a
        bound) follow as ``name/setting``.
    """
    size, _, n, _ = scores.shape
    t = solve_temperature(scores, torch.ones(size, n, dtype=torch.bool, device=scores.device), target)
    motif = scores[..., -MOTIF_NODES:, :]
    found = {
        "temperature": t.log(),  # a factor: its mean is geometric
        "spread": (scores.amax(-1) - scores.amin(-1)).mean(-1),
        "low": scores.amin((-1, -2)),
        "high": scores.amax((-1, -2)),
        "inside": (motif[..., -MOTIF_NODES:] > 0).float().mean((-1, -2)),
        "outside": (motif[..., :-MOTIF_NODES] < 0).float().mean((-1, -2)),
    }
    for setting, logits in (("none", scores), ("exact", scores / t[..., None, None])):
        p, spread = logits.softmax(-1), logits.amax(-1) - logits.amin(-1)  # (B, H, n, n), (B, H, n)
        entropy, largest = row_entropy(logits, p), p.amax(-1)
        least, most = entropy_bound(spread, n), weight_bound(spread, n)
        broken = (entropy < least - TOLERANCE * (1 + spread)) | (largest > most * (1 + TOLERANCE))
        found |= {
            f"entropy/{setting}": entropy.mean(-1),
            f"entropy_bound/{setting}": least.clamp(min=0).mean(-1),  # a negative bound excludes nothing
            f"largest/{setting}": largest.mean(-1),
            f"largest_bound/{setting}": most.clamp(max=1).mean(-1),
            f"kept/{setting}": p[..., -MOTIF_NODES:, -MOTIF_NODES:].sum(-1).mean(-1),
            f"broken/{setting}": broken.float().sum(-1),
        }
    return found


def joined(seen: Sequence[dict[str, Tensor]]) -> dict[str, Any]:
    """Reduce the statistics of all batches to numbers; those of two settings become a dictionary."""
    found: dict[str, Any] = {}
    for name in seen[0]:
        values = torch.cat([part[name] for part in seen]).double()  # (B, H)
        head, _, setting = name.partition("/")
        number = float(getattr(values, {"low": "amin", "high": "amax", "broken": "sum"}.get(head, "mean"))())
        if setting:
            found.setdefault(head, {})[setting] = number
        else:
            found[head] = math.exp(number) if name == "temperature" else number
    return found


def _model(method: Method) -> GOODFormer:
    assert isinstance(method.model, GOODFormer)
    return method.model
