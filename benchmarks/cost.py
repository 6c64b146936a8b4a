"""Compute what 1,000 runs and 10^9 molecules cost on a cluster, from measured rates and records.

Run from the root of the repository; ``make docs`` does:

  python -m benchmarks.cost --page docs/cluster.md
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.errors import InputError
from goodformer.report.records import Record, read_records
from goodformer.report.table import insert

RUNS, MOLECULES, CPUS = 1_000, 10**9, 100
PRICE = 0.05
"""USD per CPU-hour, an assumption."""
PART = 16_384
"""Rows of a part of a prediction, `goodformer.apply.parts.ROWS`, which would import torch."""
WORKERS = 2
"""Workers that `benchmarks.cluster` starts."""
KINDS = (
    ("good-motif", "GOOD-Motif", "compare"),
    ("good-motif", "GOOD-Motif", "full"),
    ("good-hiv", "GOOD-HIV", "compare"),
)
"""Runs whose cost is computed: data set, its name in the table, and budget."""


def run_seconds(records: Iterable[Record], dataset: str, budget: str) -> tuple[float, int]:
    """Return the mean seconds of a run of GOODFormer with its default preset, and the number of records."""
    wanted = {"dataset": dataset, "budget": budget, "method": "goodformer", "preset": "default"}
    found = [
        float(record["wall_seconds"])
        for record in records
        if all(record.get(key) == value for key, value in wanted.items()) and record.get("wall_seconds")
    ]
    if not found:
        raise InputError(f"there is no record of goodformer on {dataset} with budget {budget}; export one to results.")
    return statistics.fmean(found), len(found)


def pages(measured: Mapping[str, Any], records: Iterable[Record]) -> str:
    """Return the measured and the computed table as Markdown, with the sentences that depend on their numbers."""
    figures, rows, records = measured["figures"], measured["rows"], list(records)
    inside, outside = figures["rows_per_processor_second_in_ray_tasks"], figures["processor_seconds_outside_tasks"]
    rate = rows / (rows / inside + outside)
    start = figures["first_call_processor_seconds"] / WORKERS
    local = figures["rows_per_processor_second_parts"]
    weights = figures["parcel_megabytes"] / 3  # the parcel of the benchmark holds them three times
    lines = [
        "| measured | value |",
        "|---|---|",
        f"| predict into one file, rows per processor second | {figures['rows_per_processor_second_file']:.0f} |",
        f"| predict in parts, one process, rows per processor second | {local:.0f} |",
        f"| predict in parts, inside Ray tasks, rows per processor second | {inside:.0f} |",
        f"| processor seconds of Ray and the command besides, for all {rows:,} rows | {outside:.1f} |",
        "| processor seconds until two new workers have predicted their first row (imports) | "
        f"{figures['first_call_processor_seconds']:.1f} |",
    ]
    costs = []
    for dataset, name, budget in KINDS:
        seconds, count = run_seconds(records, dataset, budget)
        lines.append(
            f"| GOODFormer run on {name}, budget `{budget}`: seconds, evaluation included, mean of {count} records | "
            f"{seconds:.0f} |"
        )
        what = f"{RUNS:,} runs, {name}, budget `{budget}`: {RUNS:,} x ({seconds:.0f} + {start:.0f}) s"
        costs.append(cost(what, RUNS * (seconds + start)))
    costs.append(cost(f"10^9 molecules at {rate:.0f} rows per processor second", MOLECULES / rate))
    lines += [
        f"| weights of the model, MB | {weights:.1f} |",
        "",
        f"Ray thus costs {1 - rate / local:.0%} of the rate of one process on this small table ({rate:.0f} rows per "
        f"processor second with",
        f"everything counted), and {start:.0f} seconds per worker once. A run on the cluster pays these seconds, too, "
        "as a local one does.",
        "",
        f"**Computed** from these rates; the price of {PRICE} USD per CPU-hour is an assumption:",
        "",
        f"| computed | CPU-hours | {CPUS} CPUs, hours | USD |",
        "|---|---|---|---|",
        *costs,
        "",
        f"The first rows assume that {RUNS:,} runs fill the CPUs evenly. 10^9 molecules were not predicted; "
        f"{-(-MOLECULES // PART):,} parts of",
        f"{PART:,} rows take {PART / rate:.0f} s each at that rate, which is what a CPU loses at most when its node "
        "dies.",
    ]
    return "\n".join(lines)


def cost(what: str, seconds: float) -> str:
    """Return a row of the computed table, given processor seconds."""
    hours = seconds / 3600
    return f"| {what} | {hours:,.0f} | {hours / CPUS:.2g} | {hours * PRICE:.2g} |"


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measured", type=Path, default=Path("benchmarks/cluster.json"))
    parser.add_argument("--records", type=Path, default=Path("results"))
    parser.add_argument("--page", type=Path, help="Page with the marker cost.")
    given = parser.parse_args()
    text = pages(files.read_json(given.measured), read_records(given.records))
    if given.page:
        insert(given.page, "cost", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
