"""Measure explanations of real molecules whose deciding group is known (suite ``rules``), and write their table.

    python -m lab.rules --runs runs --page docs/explanation.md

The first part of the work is a comparison, which can be stopped and continued:

    goodformer compare --suite rules --methods erm,gsat,forest,goodformer:molecules,blend:molecules,blend:fast \\
        --seeds 1 --budget compare --export results/rules.jsonl

ERM has no edge scores of its own. If ``--runs`` holds its runs, they are scored here by integrated gradients, and the
records are added to results/rules-gradients.jsonl. The table is computed from these two files.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from goodformer import files
from goodformer.explain import truth
from goodformer.report import suite
from goodformer.report.records import ADVICE, Record, finished, known_records, mean_of
from goodformer.report.rows import Row
from goodformer.report.suite import Suite
from goodformer.report.table import NOT_RUN, Cell, Table, insert

MARKER = "rules"
ROWS = "erm,gsat,forest,goodformer:molecules,blend:molecules,blend:fast"
BUDGET, SEEDS = "compare", 1
GRADIENT = "gradient"
METRICS = {"ood_test": "ROC-AUC", "edge_auc": "edge AUC", "node_auc": "node AUC"}
RUNS, GRADIENTS = Path("results/rules.jsonl"), Path("results/rules-gradients.jsonl")


def planned() -> Suite:
    """Return the comparison that the table shows."""
    return suite.plan("rules", ROWS, SEEDS, BUDGET)


def measure(plan: Suite, runs: Path, out: Path) -> None:
    """Score the edges of ERM's finished runs by integrated gradients and add the records to a file."""
    for run in finished((config for config in plan.runs if config.method["name"] == "erm"), runs):
        record = truth.measure_explanations(run, GRADIENT, ["test"])
        truth.export(record, out)
        print(f"{run.folder.name}: edge AUC {record['splits']['test']['edge_auc']:.3f}", flush=True)


def gradients(path: Path) -> dict[str, Record]:
    """Return the records of integrated gradients by the id of their run."""
    lines: Sequence[Record] = files.read_lines(path, ADVICE) if path.exists() else []
    return {line["id"]: line["splits"]["test"] for line in lines if line["source"] == GRADIENT}


def values(plan: Suite, row: Row, found: Mapping[str, Record], scored: Mapping[str, Record]) -> dict[str, list[Any]]:
    """Return each metric of a row on every data set; None where it does not exist or was not measured."""
    ids = [one.ids[row.name, seed] for one in plan.comparisons for seed in one.seeds]
    records = [{**found.get(one, {}), **scored.get(one, {})} for one in ids]
    return {name: [record.get(name) for record in records] for name in METRICS}


def table(plan: Suite, found: Mapping[str, Record], scored: Mapping[str, Record]) -> Table:
    """Return means over all rules, and the lowest value of every metric."""
    rows = []
    for row in plan.first.rows:
        cells = [Cell(row.title + (", integrated gradients" if row.name == "erm" else ""))]
        for some in values(plan, row, found, scored).values():
            known = [value for value in some if value is not None]
            if len(known) < len(some):
                cells += [Cell(NOT_RUN), Cell(NOT_RUN)]
            else:
                cells += [Cell.mean(mean_of(known).mean, digits=3), Cell.mean(min(known), digits=3)]
        rows.append(cells)
    heads = [head for name in METRICS.values() for head in (name, "lowest")]
    return Table(["", *heads], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="Folder with the runs of ERM; default: measure nothing.")
    parser.add_argument("--page", type=Path, default=Path("docs/explanation.md"))
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    plan = planned()
    if given.runs:
        measure(plan, given.runs, GRADIENTS)
    insert(given.page, MARKER, table(plan, known_records([RUNS], plan.runs), gradients(GRADIENTS)).markdown())


if __name__ == "__main__":
    main()
