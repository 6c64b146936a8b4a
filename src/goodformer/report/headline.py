"""What the default reaches on the full data, in one short table: the first thing a reader wants to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.data import load_benchmark
from goodformer.report import compare
from goodformer.report.artefacts import CONCEPT, ERM_ALIKE, FIGURES, FULL, MOTIF, SPURIOUS, compared
from goodformer.report.paper import published
from goodformer.report.sheets import ABSENT, NOT_RUN
from goodformer.report.tables import Record, markdown_table, moments, written

SEEDS, OURS = 3, "goodformer"
BENCHMARKS: dict[str, Mapping[str, Any]] = {
    **{f"GOOD-{head}": dataset for head, dataset in MOTIF.items()},
    **{f"GOOD-{head} shift": dataset for head, dataset in CONCEPT.items()},
    **{f"SP-Motif, bias {dataset['bias']}": dataset for dataset in SPURIOUS.values()},
}
HEAD = ("", "OOD test", "last epoch", "ceiling", "Precision@10", "edge AUC", "ERM, same inputs", "paper", "seeds")


def table(sources: Sequence[Path]) -> str:
    """The table in Markdown, from records in files or folders; benchmarks without a record are left out."""
    found = compare.recorded(sources)
    rows = [_row(title, dataset, found) for title, dataset in BENCHMARKS.items()]
    return markdown_table(HEAD, [row for row in rows if row])


def _row(title: str, dataset: Mapping[str, Any], found: Mapping[str, Record]) -> list[str] | None:
    """One benchmark: our figures, ERM's on the same network and inputs, and the paper's."""
    plan = compared(dataset, f"{OURS},{ERM_ALIKE}", FULL, SEEDS)
    ours, same = (_done(plan, row, found) for row in (OURS, ERM_ALIKE))
    if not ours and not same:
        return None
    settings = plan.configs[OURS, 0].dataset
    theirs = published("ood_test", settings, OURS)
    return [
        title,
        *(_figure(name, ours, len(ours)) for name in ("ood_test", "last")),
        written(ceiling(settings), 2),
        *(_figure(name, ours, len(ours)) for name in ("precision_at_10", "edge_auc")),
        _figure("ood_test", same, len(ours)),
        ABSENT if theirs is None else " ±".join(written(part, 2) for part in theirs),
        str(len(ours)),
    ]


def _figure(name: str, records: Sequence[Record], usual: int) -> str:
    """Mean and deviation over the records that tell a figure; of how many seeds, where the row says another number."""
    figure = FIGURES[name]
    told = [value for record in records if (value := figure.value(record)) is not None]
    found = moments(told)
    if found is None:
        return ABSENT if records else NOT_RUN
    remark = "" if len(told) == usual else f" ({len(told)} of {SEEDS} seeds)"
    return f"{' ±'.join(written(part, figure.digits) for part in found)}{remark}"


def ceiling(dataset: Mapping[str, Any]) -> float:
    """The share of the very OOD test graphs, in %, whose label is that of their motif: noise has changed the others."""
    test = load_benchmark(**dataset).splits["test"].graph
    return 100 * float((test["motif"] == test["y"].flatten()).double().mean())


def _done(plan: compare.Comparison, row: str, found: Mapping[str, Record]) -> Sequence[Record]:
    """The records of a row's runs."""
    ids = [plan.configs[row, seed].id for seed in plan.seeds]
    return [found[one] for one in ids if one in found]
