"""The tables of docs/benchmarks.md and docs/training.md, computed from the records that `benchmarks.speed` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goodformer.report.table import Table, insert

Record = Mapping[str, Any]

COMPETITORS: dict[str, tuple[str, str]] = {
    "irm": ("IRM", ""),
    "vrex": ("VREx", ""),
    "dir": ("DIR", "<= 2.5"),
    "grea": ("GREA", ""),
    "gil": ("GIL", "<= 4"),
    "gsat": ("GSAT", "<= 2.5"),
    "ciga": ("CIGA", "<= 2.5"),
    "imold": ("iMoLD", ""),
    "cal-plus": ("CAL+", "<= 2.5"),
}
"""Title and largest cost of an epoch relative to ERM of the paper's methods on GNNs."""

MULTIPLIED: dict[str, tuple[str, str]] = {
    "ERM on GIN": ("erm", "gin"),
    "GSAT on GIN": ("gsat", "gin"),
    "GIL on GIN": ("gil", "gin"),
    "GraphGPS": ("erm", "gps"),
    "GOODFormer": ("goodformer", "goodformer"),
}
"""Methods and models whose steps are timed with products of OpenBLAS and of torch."""

ROWS: dict[str, tuple[str, str]] = {
    "step_over_matmul": ("training step / its matrix products alone", "<= 1.5"),
    "train_over_graphgps": ("training time, GOODFormer / GraphGPS of equal depth and width", "<= 1.35"),
    "matmul_over_graphgps": ("matrix products of a training step alone, GOODFormer / GraphGPS", ""),
    "infer_over_graphgps": ("inference time with exact temperature, GOODFormer / GraphGPS", "<= 1.8"),
    "temperature_share_150": ("share of inference spent on the temperature, 150 nodes", "<= 0.25"),
    "memory_512_over_64": ("peak memory of a step, batch 512 / batch 64", "<= 9"),
    **{
        f"epoch_over_erm_{name}": (f"training epoch on GIN, {title} / ERM", goal)
        for name, (title, goal) in COMPETITORS.items()
    },
    "node_exponent": ("p in time per graph ~ nodes^p, 20 to 500 nodes", ""),
    "generate_basis_seconds": ("30,000 graphs of GOOD-Motif basis, seconds", ""),
    "generate_size_seconds": ("30,000 graphs of GOOD-Motif size, seconds", ""),
    "encode_ms_per_graph": ("GOODFormer's default encodings of a basis graph, ms", ""),
    "encode_size_ms_per_graph": ("GOODFormer's default encodings of a size graph, ms", ""),
    "graphs_trained_per_second": ("GOODFormer: graphs trained per second", ""),
    "graphs_predicted_per_second": ("GOODFormer: graphs predicted and explained per second", ""),
    "step_megabytes_64": ("peak memory of a step of 64 graphs, MB", ""),
    "molecules_featurised_per_second": ("SMILES converted to graphs per second, one process", ""),
    "molecules_trained_per_second": ("GOODFormer: molecules trained per second", ""),
    "molecules_predicted_per_second": ("GOODFormer: molecules predicted per second, encodings included", ""),
    "molecules_explained_per_second": ("GOODFormer: molecules explained per second by its own scores", ""),
    "molecules_trained_per_second_erm": ("ERM on GIN-VN: molecules trained per second", ""),
    "molecules_predicted_per_second_erm": ("ERM on GIN-VN: molecules predicted per second", ""),
    "molecules_explained_per_second_erm": ("ERM on GIN-VN: molecules explained per second by occlusion", ""),
    **{
        f"train_ms_per_graph_{n}_nodes": (f"training step per graph of {n} nodes, ms", "")
        for n in (20, 50, 100, 200, 500)
    },
}
"""Title and goal of every value, in the order of the table."""


def write(record: Record, page: Path) -> bool:
    """Put the table of a record between the markers of its kind on a page; return whether it changed."""
    return insert(page, _kind(record), table(record))


def _kind(record: Record) -> str:
    """Return ``buckets``, ``products`` or ``bench``."""
    return "buckets" if "dataset" in record else "products" if "products" in record else "bench"


def table(record: Record) -> str:
    """Return a record as a Markdown table below its commit and machine."""
    used, place = record["versions"], record["machine"]
    origin = (
        f"Measured at commit {record['commit'] or 'unknown'} (goodformer {used['goodformer']}) with one thread of "
        f"{place['processor']}, {place['platform']}; Python {used['python']}, torch {used['torch']}. Later commits may "
        "differ."
    )
    made = {"buckets": buckets_table, "products": products_table, "bench": speed_table}[_kind(record)](record)
    return f"{origin}\n\n{made}"


def speed_table(record: Record) -> str:
    """Return the table of all measurements, with their goals."""
    found = record["figures"]
    rows = [
        [title, number(found[name]), goal, verdict(found[name], goal)]
        for name, (title, goal) in ROWS.items()
        if name in found
    ]
    return Table.of(["measurement", "value", "goal", ""], rows).markdown()


def buckets_table(record: Record) -> str:
    """Return the table that compares buckets with padding to the largest graph."""
    found, settings = record["figures"], dict(record["dataset"])
    name = " ".join([settings.pop("name"), *(f"{key}={value}" for key, value in settings.items())])
    head = [
        "data",
        "training graphs",
        "median nodes",
        "most nodes",
        "padded to the largest, s/step",
        "in buckets, s/step",
        "ratio",
    ]
    sizes = [f"{found['graphs']:,}", str(found["median_nodes"]), str(found["largest_nodes"])]
    steps = [f"{found['step_padded']:.2f}", f"{found['step_buckets']:.2f}", f"{found['padded_over_buckets']:.1f}"]
    return Table.of(head, [[name, *sizes, *steps]]).markdown()


def products_table(record: Record) -> str:
    """Return the table that compares matrix products of OpenBLAS with those of torch."""
    found, rows = record["figures"], []
    for title in MULTIPLIED:
        alone, replaced = (found[f"{title}/{name}"] for name in ("torch", "openblas"))
        rows.append([title, f"{alone:.1f}", f"{replaced:.1f}", f"{replaced / alone:.2f}"])
    return Table.of(["training step on GOOD-Motif", "torch, ms", "OpenBLAS, ms", "ratio"], rows).markdown()


def number(value: float) -> str:
    """Return a number with three significant digits, or as an integer from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def verdict(value: float, goal: str) -> str:
    """Return whether a value meets its goal, such as ``<= 2``; empty without a goal."""
    if not goal:
        return ""
    sign, bound = goal.split()
    return "met" if (value <= float(bound) if sign == "<=" else value >= float(bound)) else "missed"
