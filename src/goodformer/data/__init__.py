"""Benchmarks by name: graphs, splits, shifts."""

from __future__ import annotations

from typing import Any

from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks.drugood import drug_ood
from goodformer.data.benchmarks.hiv import good_hiv
from goodformer.data.benchmarks.memory import memory
from goodformer.data.benchmarks.motif import good_motif, sp_motif
from goodformer.data.benchmarks.sentence import good_sst2, good_twitter
from goodformer.data.benchmarks.table import table
from goodformer.data.graphs import GraphSet
from goodformer.registry import Registry

__all__ = ["DATASETS", "Benchmark", "GraphSet", "load_benchmark"]

DATASETS: Registry[Benchmark] = Registry(
    "data set",
    {
        "good-motif": good_motif,
        "sp-motif": sp_motif,
        "good-hiv": good_hiv,
        "drugood": drug_ood,
        "good-sst2": good_sst2,
        "good-twitter": good_twitter,
        "table": table,
        "memory": memory,
    },
)


def load_benchmark(name: str, **settings: Any) -> Benchmark:
    """The benchmark of that name under checked settings, e.g. ``load_benchmark("good-motif", domain="size")``."""
    return DATASETS.build(name, **settings)
