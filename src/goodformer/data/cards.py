"""Data cards: how domains and classes are distributed over the splits of a benchmark.

Imports neither torch nor RDKit. Letters: B graphs, D domains, C classes or targets.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from goodformer.spec import SPLITS, Task

if TYPE_CHECKING:
    from goodformer.data.benchmark import Benchmark
    from goodformer.data.graphs import GraphSet

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FEW = 8
"""Largest number of domains that are listed one by one."""
COUNTED = 20
"""Graphs that a domain needs to be counted in the quartiles of the class balance."""


def facts(bench: Benchmark) -> dict[str, Any]:
    """Return all statistics of a benchmark as JSON values."""
    few = len(all_domains(bench)) <= FEW
    return {
        "domain": bench.domain,
        "shift": bench.shift,
        "task": asdict(bench.task),
        "num_envs": bench.num_envs,
        "notes": bench.notes,
        "statistics": bench.describe(),
        "seen_in_training": {split: seen(bench, split) for split in SPLITS},
        "by_domain": [row for split in SPLITS for row in _by_domain(bench, split)] if few else None,
        "over_domains": None if few else {split: _over_domains(bench, split) for split in SPLITS},
    }


def all_domains(bench: Benchmark) -> Ints:
    """Return the numbers of the domains that occur in any split, ascending (D,)."""
    return np.unique(np.concatenate([domains_of(graphs) for graphs in bench.splits.values()]))


def domains_of(graphs: GraphSet) -> Ints:
    """Return the domain of each graph (B,); 0 if graphs have no domain."""
    found = graphs.graph.get("domain")
    return np.zeros(len(graphs), dtype=np.int64) if found is None else found.numpy()


def domain_name(bench: Benchmark, domain: int) -> str:
    """Return the name of a domain, or its number if it has none."""
    named = domain < len(bench.domain_names)
    return (bench.domain_names[domain] or "none") if named else str(domain)


def seen(bench: Benchmark, split: str) -> float | None:
    """Return the share of a split's graphs whose domain occurs in training; None if the split is empty."""
    known = np.isin(domains_of(bench.splits[split]), domains_of(bench.splits["train"]))
    return round(float(known.mean()), 4) if len(known) else None


def class_values(graphs: GraphSet, task: Task) -> Floats:
    """Return each graph's class as zeros and a one, or its targets with NaN where missing (B, C)."""
    y = graphs.graph["y"].numpy()
    return np.eye(task.outputs)[y] if task.kind == "multiclass" else y.astype(np.float64)


def shares_by_domain(graphs: GraphSet, task: Task) -> tuple[Ints, Ints, Floats]:
    """Return the domains (D,), the graphs of each (D,), and the share of each class or of each target's ones (D, C).

    Missing labels are not counted; the share of a target without any label is NaN.
    """
    found, place, counts = np.unique(domains_of(graphs), return_inverse=True, return_counts=True)  # (D,), (B,), (D,)
    values = class_values(graphs, task)  # (B, C)
    total, known = np.zeros((2, len(found), values.shape[1]))
    np.add.at(total, place, np.nan_to_num(values))
    np.add.at(known, place, ~np.isnan(values))
    return found, counts, np.divide(total, known, out=np.full_like(total, math.nan), where=known > 0)


def _by_domain(bench: Benchmark, split: str) -> list[dict[str, Any]]:
    """Return one row per domain of a split: number of graphs and class balance."""
    found, counts, shares = shares_by_domain(bench.splits[split], bench.task)
    return [
        {"split": split, "domain": domain_name(bench, domain), "graphs": count, "class_balance": _rounded(balance)}
        for domain, count, balance in zip(found.tolist(), counts.tolist(), shares.tolist(), strict=True)
    ]


def _over_domains(bench: Benchmark, split: str) -> dict[str, Any]:
    """Summarise many domains: the largest and the smallest, and quartiles of the class balance over large ones."""
    found, counts, shares = shares_by_domain(bench.splits[split], bench.task)
    if len(found) == 0:
        return {"domains": 0}
    large = shares[counts >= COUNTED]  # (d, C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a target without any label has no quartiles
        quartiles = np.nanquantile(large, [0.25, 0.5, 0.75], axis=0).T if len(large) else np.empty((0, 3))  # (C, 3)
    ends = {"largest": counts.argmax(), "smallest": counts.argmin()}
    return {
        "domains": len(found),
        **{end: {"domain": domain_name(bench, int(found[at])), "graphs": int(counts[at])} for end, at in ends.items()},
        "counted": len(large),
        "balance_quartiles": [_rounded(row) for row in quartiles.tolist()],
    }


def _rounded(values: Sequence[float]) -> list[float | None]:
    """Return numbers with four decimals, None for NaN."""
    return [None if math.isnan(value) else round(value, 4) for value in values]
