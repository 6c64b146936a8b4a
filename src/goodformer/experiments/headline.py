"""What the default reaches on the full data, in one short table: the first thing a reader wants to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.data import load_benchmark
from goodformer.experiments import compare
from goodformer.experiments.paper import published
from goodformer.experiments.sheets import NOT_RUN, count
from goodformer.experiments.tables import Record, markdown_table, spread, written

SEEDS, BUDGET = 3, "full"
OURS, SAME = "goodformer", "erm on goodformer alike"
MOTIF = {"name": "good-motif"}
BENCHMARKS: dict[str, Mapping[str, Any]] = {
    "GOOD-Motif basis": {**MOTIF, "domain": "basis"},
    "GOOD-Motif size": {**MOTIF, "domain": "size"},
    "GOOD-Motif basis, concept shift": {**MOTIF, "domain": "basis", "shift": "concept"},
    "GOOD-Motif size, concept shift": {**MOTIF, "domain": "size", "shift": "concept"},
    **{f"SP-Motif, bias {bias}": {"name": "sp-motif", "bias": bias} for bias in (0.5, 0.7, 0.9)},
}
HEAD = ("", "OOD test", "last epoch", "ceiling", "Precision@10", "edge AUC", "ERM, same inputs", "paper", "seeds")


def table(sources: Sequence[Path]) -> str:
    """The table in Markdown, from records in files or folders; benchmarks without a record are left out."""
    found = compare.recorded(sources)
    rows = [_row(title, dataset, found) for title, dataset in BENCHMARKS.items()]
    return markdown_table(HEAD, [row for row in rows if row])


def _row(title: str, dataset: Mapping[str, Any], found: Mapping[str, Record]) -> list[str] | None:
    """One benchmark: our figures, ERM's on the same network and inputs, and the paper's."""
    plan = compare.plan(dataset, f"{OURS},{SAME}", SEEDS, BUDGET)
    ours, same = (_done(plan, row, found) for row in (OURS, SAME))
    if not ours and not same:
        return None
    theirs = published("ood_test", plan.configs[OURS, 0].dataset, OURS)
    return [
        title,
        _figure([record["ood_test"] for record in ours], 100),
        _figure([record["by_rule"]["last"]["ood_test"] for record in ours], 100),
        written(ceiling(plan.configs[OURS, 0].dataset), 2),
        *(_figure([record[name] for record in ours], 1) for name in ("precision_at_10", "edge_auc")),
        _figure([record["ood_test"] for record in same], 100, len(ours)),
        "-" if theirs is None else " ±".join(written(part, 2) for part in theirs),
        str(len(ours)),
    ]


def _figure(values: Sequence[float], scale: float, wanted: int = 0) -> str:
    """Mean and deviation; of how many seeds, where these are fewer than wanted."""
    if not values:
        return NOT_RUN
    remark = f" ({count(len(values), 'seed')})" if len(values) < wanted else ""
    return f"{spread(values, scale)}{remark}"


def ceiling(dataset: Mapping[str, Any]) -> float:
    """The share of the very OOD test graphs, in %, whose label is that of their motif: noise has changed the others."""
    test = load_benchmark(**dataset).splits["test"].graph
    return 100 * float((test["motif"] == test["y"].flatten()).double().mean())


def _done(plan: compare.Comparison, row: str, found: Mapping[str, Record]) -> Sequence[Record]:
    """The records of a row's runs."""
    ids = [plan.configs[row, seed].id for seed in plan.seeds]
    return [found[one] for one in ids if one in found]
