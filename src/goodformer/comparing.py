"""Compare methods: plan the runs, train those that are missing, and return the table of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import executors
from goodformer.config.run import RunConfig
from goodformer.executors.board import Watch
from goodformer.report import compare as one_benchmark
from goodformer.report import suite as several
from goodformer.report.pace import Paces
from goodformer.report.paired import PredictionStore
from goodformer.report.records import Record, records_of
from goodformer.report.table import Table


@dataclass(frozen=True)
class Compared:
    """The result of a comparison.

    Attributes:
        table: The table; it has the methods ``text``, ``markdown`` and ``latex``.
        report: The same as plain values.
        runs: The configurations of all its runs.
        records: Records of the finished runs by id.
        failures: Reasons of failed runs by id.
    """

    table: Table
    report: Mapping[str, Any]
    runs: Sequence[RunConfig]
    records: Mapping[str, Record]
    failures: Mapping[str, str]


@dataclass(frozen=True)
class Work:
    """Where missing runs are trained.

    Attributes:
        executor: ``local`` or ``ray``.
        jobs: Runs at the same time; by default as many as suit the executor.
        threads: Threads of each run.
        address: Address of a Ray cluster.
        watch: Shows the progress.
    """

    executor: str = "local"
    jobs: int | None = None
    threads: int = 1
    address: str | None = None
    watch: Watch | None = None


LOCAL = Work()


def compare(
    what: str | Mapping[str, Any],
    methods: str = "all",
    seeds: int = 3,
    budget: str = "compare",
    overrides: Sequence[str] = (),
    *,
    against: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    runs: str | Path = "runs",
    records: Sequence[Path] = (),
    work: Work | None = LOCAL,
    begin: Callable[[int, int], None] | None = None,
) -> Compared:
    """Train the runs of a comparison that have no record, and compare all.

    Args:
        what: A data set, ``{"name": ..., **settings}``, or the name of a suite.
        methods: Rows, see `goodformer.report.rows.rows`.
        seeds: Number of seeds, counted from 0.
        budget: Name of a budget, the same for all rows.
        overrides: ``part.setting=value`` for all rows.
        against: The row that all others are compared with, graph by graph; of several, separated by commas, the one
            that is best on OOD validation.
        pairs: Further pairs of rows to compare so.
        runs: Folder of the runs; finished ones are reused and stopped ones continued.
        records: Files or folders of further records.
        work: Where to train; None trains nothing.
        begin: Called with the number of finished and of all runs.
    """
    folder, room = Path(runs), several if isinstance(what, str) else one_benchmark
    named = [row for row in (against, *(row for pair in pairs for row in pair)) if row]
    plan: Any = room.plan(what, ",".join([methods, *named]), seeds, budget, overrides)  # type: ignore[arg-type]
    known, failures = records_of(plan.runs, folder, records), {}
    if begin:
        begin(len(known), len(plan.runs))
    if work is not None and (missing := plan.missing(known)):
        failures = complete(missing, folder, known, work)
        known = records_of(plan.runs, folder, records)
    report = room.report(plan, known, failures, against, pairs, PredictionStore(folder, records))
    return Compared(room.table(report), report, plan.runs, known, failures)


def complete(missing: Sequence[RunConfig], folder: Path, known: Mapping[str, Record], work: Work) -> dict[str, str]:
    """Train runs and return the reasons of those that failed, by id.

    Args:
        missing: What to train.
        folder: Folder of the runs.
        known: Records of other runs, from which the time that is left is estimated.
        work: Where to train.
    """
    from goodformer.data import load_benchmark  # loads torch

    executors.check_executor(work.executor, work.address)
    for data in {config.dataset["name"]: config.dataset for config in missing}.values():
        load_benchmark(**data)  # missing data are one error, not one failure per run
    paces = Paces(known.values())
    expected = {one.id: seconds for one in missing if (seconds := paces.seconds(one)) is not None}
    return executors.complete(
        list(missing), folder, work.executor, work.jobs, work.threads, work.watch, work.address, expected
    )
