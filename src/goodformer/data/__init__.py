"""Benchmarks: graphs, splits, shifts.

A data set is registered by one line below; its module is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from goodformer.errors import InputError
from goodformer.registry import Registry

if TYPE_CHECKING:
    from goodformer.data.benchmark import Benchmark as Benchmark
    from goodformer.data.graphs import GraphSet as GraphSet

DATASETS: Registry[Benchmark] = Registry(
    "data set",
    {
        "good-motif": "goodformer.data.benchmarks.motif:good_motif",
        "sp-motif": "goodformer.data.benchmarks.motif:sp_motif",
        "good-hiv": "goodformer.data.benchmarks.hiv:good_hiv",
        "drugood": "goodformer.data.benchmarks.drugood:drug_ood",
        "bace": "goodformer.data.benchmarks.moleculenet:bace",
        "bbbp": "goodformer.data.benchmarks.moleculenet:bbbp",
        "esol": "goodformer.data.benchmarks.moleculenet:esol",
        "lipophilicity": "goodformer.data.benchmarks.moleculenet:lipophilicity",
        "molecule-rules": "goodformer.data.benchmarks.rules:molecule_rules",
        "good-sst2": "goodformer.data.benchmarks.sentence:good_sst2",
        "good-twitter": "goodformer.data.benchmarks.sentence:good_twitter",
        "table": "goodformer.data.benchmarks.table:table",
        "memory": "goodformer.data.benchmarks.memory:memory",
    },
)


def load_benchmark(name: str, **settings: Any) -> Benchmark:
    """Load a benchmark under checked settings, e.g. ``load_benchmark("good-motif", domain="size")``."""
    from goodformer.data.benchmark import Benchmark as Expected

    try:
        benchmark = DATASETS.build(name, **settings)
    except InputError as error:
        if DATASETS.built_in(name) or name in str(error):
            raise
        raise InputError(f"data set {name}: {error}") from None  # a list of graphs does not know where it belongs
    if not isinstance(benchmark, Expected):
        got = type(benchmark).__name__
        raise InputError(f"data set {name} returns an object of type {got}; return a goodformer.Benchmark.")
    return benchmark


def __getattr__(name: str) -> Any:
    """Import ``Benchmark`` and ``GraphSet``, which need torch, on first use."""
    homes = {"Benchmark": "goodformer.data.benchmark", "GraphSet": "goodformer.data.graphs"}
    if name not in homes:
        raise AttributeError(f"module 'goodformer.data' has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
