"""What is counted about a benchmark: how its splits divide domains and classes."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from goodformer.data.benchmark import FEW, Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.spec import SPLITS, Task

COUNTED = 20
"""Graphs a domain needs for the balance of its classes to be counted among those of many domains."""


def facts(bench: Benchmark) -> dict[str, Any]:
    """All that is counted about a benchmark, as JSON values."""
    few = len(all_domains(bench)) <= FEW
    return {
        "domain": bench.domain,
        "shift": bench.shift,
        "task": asdict(bench.task),
        "num_envs": bench.num_envs,
        "notes": bench.notes,
        "statistics": bench.describe(),
        "seen_in_training": {split: seen(bench, split) for split in SPLITS},
        "by_domain": [row for split in SPLITS for row in _rows(bench, split)] if few else None,
        "over_domains": None if few else {split: _summary(bench, split) for split in SPLITS},
    }


def all_domains(bench: Benchmark) -> Tensor:
    """Numbers of the domains that occur in any split, ascending (D,)."""
    return torch.cat([domains_of(graphs) for graphs in bench.splits.values()]).unique()


def domains_of(graphs: GraphSet) -> Tensor:
    """The domain of each graph (B,); 0 where they carry none."""
    return graphs.graph.get("domain", torch.zeros(len(graphs), dtype=torch.long))


def domain_name(bench: Benchmark, domain: int) -> str:
    """What a domain is called: its name, or its number."""
    named = domain < len(bench.domain_names)
    return (bench.domain_names[domain] or "none") if named else str(domain)


def seen(bench: Benchmark, split: str) -> float | None:
    """The share of a split's graphs whose domain occurs in training; None where it has no graph."""
    domains = domains_of(bench.splits[split])
    known = torch.isin(domains, domains_of(bench.splits["train"]))
    return round(float(known.double().mean()), 4) if len(domains) else None


def shares_by_domain(graphs: GraphSet, task: Task) -> tuple[Tensor, Tensor, Tensor]:
    """Domains of a set (D,), graphs of each (D,), and in each the share of each class or of each target's ones (D, C).

    Missing labels count neither way; a share of no label at all is NaN.
    """
    found, place = domains_of(graphs).unique(return_inverse=True)  # (D,), (B,)
    values = class_values(graphs, task)  # (B, C)
    zeros = torch.zeros(len(found), values.shape[1], dtype=torch.double)
    total = zeros.index_add(0, place, values.nan_to_num())
    known = zeros.index_add(0, place, (~values.isnan()).double())
    return found, place.bincount(minlength=len(found)), total / known


def class_values(graphs: GraphSet, task: Task) -> Tensor:
    """One for the class a graph has and zero for the others, or its targets with NaN where missing (B, C)."""
    y = graphs.graph["y"]
    if task.kind == "multiclass":
        return torch.nn.functional.one_hot(y, task.outputs).double()
    return y.double()


def _rows(bench: Benchmark, split: str) -> list[dict[str, Any]]:
    """One row a domain of a split: how many graphs, and the balance of their classes."""
    found, counts, shares = shares_by_domain(bench.splits[split], bench.task)
    return [
        {
            "split": split,
            "domain": domain_name(bench, domain),
            "graphs": count,
            "class_balance": _rounded(balance),
        }
        for domain, count, balance in zip(found.tolist(), counts.tolist(), shares, strict=True)
    ]


def _summary(bench: Benchmark, split: str) -> dict[str, Any]:
    """Many domains of a split in short: the largest and smallest, and quartiles of the balance over large ones."""
    found, counts, shares = shares_by_domain(bench.splits[split], bench.task)
    if len(found) == 0:
        return {"domains": 0}
    ends = {"largest": int(counts.argmax()), "smallest": int(counts.argmin())}
    large = shares[counts >= COUNTED]  # (d, C)
    points = torch.tensor([0.25, 0.5, 0.75], dtype=torch.double)
    quartiles = large.nanquantile(points, 0).T if len(large) else ()  # (C, 3)
    return {
        "domains": len(found),
        **{end: {"domain": domain_name(bench, int(found[at])), "graphs": int(counts[at])} for end, at in ends.items()},
        "counted": len(large),
        "balance_quartiles": [_rounded(row) for row in quartiles],
    }


def _rounded(values: Tensor) -> list[float | None]:
    """Numbers of four digits, None where there is none."""
    return [None if math.isnan(value) else round(value, 4) for value in values.tolist()]
