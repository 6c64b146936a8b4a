"""The short tables of the README: what the default reaches on the full synthetic data and on real data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.report.artefacts import CONCEPT, ERM_ALIKE, FULL, HIV, MOTIF, OTHERS, REDUCED, SPURIOUS, compared
from goodformer.report.metrics import METRICS
from goodformer.report.paper import read_numbers
from goodformer.report.records import Record, records_by_id
from goodformer.report.table import ABSENT, NOT_RUN, Cell, Table

SEEDS, OURS = 3, "goodformer"
BENCHMARKS: dict[str, Mapping[str, Any]] = {
    **{f"GOOD-{head}": dataset for head, dataset in MOTIF.items()},
    **{f"GOOD-{head} shift": dataset for head, dataset in CONCEPT.items()},
    **{f"SP-Motif, bias {dataset['bias']}": dataset for dataset in SPURIOUS.values()},
}
RIVALS = {"erm": "ERM on GIN-VN", "gps": "GraphGPS", "goodformer": "GOODFormer"}
"""Rows of comparisons that are columns of the table of real data, and their headings."""
HEADS = ("", "OOD test", "last epoch", "ceiling", "Precision@10", "edge AUC", "ERM, same inputs", "paper", "seeds")


def table(sources: Sequence[Path]) -> Table:
    """Return the table from records in files or folders; benchmarks without a record are left out."""
    found, rows = records_by_id(sources), []
    for title, dataset in BENCHMARKS.items():
        plan = compared(dataset, f"{OURS},{ERM_ALIKE}", FULL, SEEDS)
        ours, same = (
            [found[one] for seed in plan.seeds if (one := plan.ids[row, seed]) in found] for row in (OURS, ERM_ALIKE)
        )
        if not ours and not same:
            continue
        rows.append(
            [
                Cell(title),
                *(_mean(name, ours, len(ours)) for name in ("ood_test", "last")),
                Cell.mean(ceiling(plan.settings)),
                *(_mean(name, ours, len(ours)) for name in ("precision_at_10", "edge_auc")),
                _mean("ood_test", same, len(ours)),
                METRICS["ood_test"].published_cell(plan.settings, OURS),
                Cell.of(len(ours)),
            ]
        )
    return Table(HEADS, rows)


def real_table(sources: Sequence[Path]) -> Table:
    """Return the table of real data: OOD test of GOODFormer beside two baselines, one short run each."""
    found, rows = records_by_id(sources), []
    for title, dataset in {**{f"GOOD-{head}": one for head, one in HIV.items()}, **OTHERS}.items():
        plan = compared(dataset, ",".join(RIVALS), REDUCED, 1)
        records = [found.get(plan.ids[row, 0]) for row in RIVALS]
        about = next((record for record in records if record), None)
        if about is not None:
            cells = [Cell(NOT_RUN) if one is None else _mean("ood_test", [one], 1) for one in records]
            metric = "ROC-AUC" if about["metric"] == "rocauc" else "accuracy"
            rows.append([Cell(title), Cell(metric), *cells, Cell.of(about["train_graphs"]), Cell.of(about["epochs"])])
    return Table(["", "metric, %", *RIVALS.values(), "training graphs", "epochs"], rows)


def _mean(name: str, records: Sequence[Record], usual: int) -> Cell:
    """Return mean and deviation of a metric, with the number of seeds if it differs from that of the row."""
    known = METRICS[name].over(records).known
    if not known:
        return Cell(ABSENT if records else NOT_RUN)
    return METRICS[name].cell(records, "" if known == usual else f"({known} of {SEEDS} seeds)")


def ceiling(dataset: Mapping[str, Any]) -> float | None:
    """Return the share of OOD test graphs, in %, whose label is that of their motif: noise changed the other labels.

    Args:
        dataset: All settings of a data set, with its name.
    """
    words = (dataset["name"], dataset.get("domain", dataset.get("bias")), dataset.get("shift"))
    found: float | None = read_numbers("ceilings.yaml").get("/".join(str(word) for word in words if word is not None))
    return found
