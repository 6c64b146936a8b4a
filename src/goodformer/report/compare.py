"""Many methods on one benchmark under one budget: what to train, and the table of what came out.

A table is computed from records alone. A record counts for a row if its settings are those the row would be trained
with now, so no table mixes runs of different settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from goodformer.config.presets import benchmark_keys, check_budget
from goodformer.config.run import RunConfig, parse_assignment
from goodformer.data import load_benchmark
from goodformer.executors import local as runner
from goodformer.registry import InputError
from goodformer.report.paper import published
from goodformer.report.rows import ALL, BASELINE, Row
from goodformer.report.rows import rows as named_rows
from goodformer.report.tables import PERCENT, Record, clock_of, moments, read_records

REPORTED = ("ood_test", "id_test", "precision_at_10", "edge_auc")
BUDGET = "compare"
Key = tuple[str, int]
"""Name of a row and a seed."""


@dataclass(frozen=True)
class Comparison:
    """What is compared: rows and seeds on one benchmark under one budget.

    Args:
        dataset: Name of a data set and the settings given for it.
        rows: The rows of the table.
        seeds: Seeds every row is trained with.
        budget: Name of a budget.
        overrides: Settings of all rows, ``part.setting=value``.
    """

    dataset: Mapping[str, Any]
    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    budget: str = BUDGET
    overrides: tuple[str, ...] = ()

    @cached_property
    def configs(self) -> dict[Key, RunConfig]:
        """The run of every row and seed, seed by seed so that a whole table is there early."""
        return {(row.name, seed): self._config(row, seed) for seed in self.seeds for row in self.rows}

    def _config(self, row: Row, seed: int) -> RunConfig:
        try:
            return row.configure(self.dataset, self.budget, seed, self.overrides)
        except InputError as error:
            raise InputError(f"row {row.name}: {error}") from None


def plan(
    dataset: Mapping[str, Any],
    methods: str = ALL,
    seeds: int = 3,
    budget: str = BUDGET,
    overrides: Sequence[str] = (),
) -> Comparison:
    """A checked comparison.

    Args:
        dataset: ``{"name": ..., **settings}``.
        methods: Rows, see `goodformer.report.rows.rows`.
        seeds: Number of seeds, 0 and up.
        budget: Name of a budget, the same for all rows.
        overrides: ``part.setting=value`` for all rows.
    """
    given, rest = _split(dataset, overrides)
    benchmark_keys(given)  # a mistake of the data set or the budget is not one of the first row
    check_budget(budget)
    rows = tuple(named_rows(methods, given["name"]))
    comparison = Comparison(given, rows, tuple(range(seeds)), budget, rest)
    _ = comparison.configs  # any mistake shows before the first run
    return comparison


def train(
    comparison: Comparison,
    root: Path,
    jobs: int = 2,
    threads: int = 1,
    known: Iterable[str] = (),
    watch: runner.Watch | None = None,
) -> dict[str, str]:
    """Train what is not finished, ``jobs`` processes at a time; one sentence for each run that failed, by its id.

    Args:
        comparison: What to train.
        root: Where run folders lie.
        jobs: Processes at a time.
        threads: Threads of each.
        known: Ids that need no training because there is a record of them.
        watch: Told several times a second how far things are.
    """
    passed = set(known)
    wanted = [config for config in comparison.configs.values() if config.id not in passed]
    if len(runner.finished(wanted, root)) < len(wanted):
        load_benchmark(**wanted[0].dataset)  # data that cannot be had are one sentence, not one failure a run
    return runner.complete(wanted, root, jobs, threads, watch)


def records(comparison: Comparison, root: Path, sources: Sequence[Path] = ()) -> dict[str, Record]:
    """What is known of a comparison's runs, by id: from files of records, and from run folders, which win."""
    wanted = {config.id for config in comparison.configs.values()}
    found = {one: record for one, record in recorded(sources).items() if one in wanted}
    runs = runner.finished(comparison.configs.values(), root)
    return found | {run.config.id: run.summary for run in runs if run.summary}


def recorded(sources: Sequence[Path]) -> dict[str, Record]:
    """All records of files or folders by the ids their settings have today."""
    found: dict[str, Record] = {}
    for source in sources:
        if not source.exists():
            raise InputError(f"there is no {source}; give a file of records or a folder that holds some.")
        found |= {one: record for record in read_records(source) if (one := _id(record)) is not None}
    return found


def report(
    comparison: Comparison, found: Mapping[str, Record], failures: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The table as plain values: means and deviations over seeds, the paper's figures, cost relative to ERM.

    Accuracies and ROC-AUC are in %, ours and the paper's.

    Args:
        comparison: What was to be compared.
        found: Records of its runs by id.
        failures: Why runs failed, by id.
    """
    clock = clock_of(found.values())
    rows = [_row(comparison, row, found, failures or {}, clock) for row in comparison.rows]
    baseline = next((row["seconds_per_epoch"] for row in rows if row["row"] == BASELINE), None)
    for row in rows:
        own = row["seconds_per_epoch"]
        row["cost"] = own / baseline if own and baseline else None
    first = next(iter(comparison.configs.values()))
    return {
        "dataset": first.dataset,
        "train_graphs": _one(record.get("train_graphs") for record in found.values()),
        "metric": _one(record.get("metric") for record in found.values()),
        "budget": comparison.budget,
        "seeds": list(comparison.seeds),
        "selection": _one(config.training.selection for config in comparison.configs.values()),
        "clock": clock,
        "rows": rows,
    }


def _row(
    comparison: Comparison, row: Row, found: Mapping[str, Record], failures: Mapping[str, str], clock: str
) -> dict[str, Any]:
    """One row of the report."""
    configs = {seed: comparison.configs[row.name, seed] for seed in comparison.seeds}
    done = {seed: found[config.id] for seed, config in configs.items() if config.id in found}
    seconds = moments(record.get(clock) for record in done.values())
    config = configs[comparison.seeds[0]]
    return {
        "row": row.name,
        "title": row.title,
        "group": row.group,
        "method": row.method,
        "model": config.model["name"],
        "preset": row.preset,
        "epochs": config.training.epochs,
        "seeds": list(done),
        "failed": {str(seed): failures[config.id] for seed, config in configs.items() if config.id in failures},
        **{name: figure(name, done.values()) for name in REPORTED},
        "seconds_per_epoch": seconds[0] if seconds else None,
        "paper": {key: _published(key, config.dataset, row) for key in ("ood_test", "precision_at_10")},
    }


def figure(name: str, done: Iterable[Record]) -> dict[str, Any] | None:
    """Mean and deviation of a figure over the seeds that have it."""
    found = moments([record.get(name) for record in done], 100 if name in PERCENT else 1)
    return None if found is None else {"mean": found[0], "std": found[1] if len(found) > 1 else None}


def _published(figure: str, dataset: Mapping[str, Any], row: Row) -> dict[str, float] | None:
    found = published(figure, dataset, row.published)
    return None if found is None else {"mean": found[0], "std": found[1]}


def _one(values: Iterable[Any]) -> Any:
    """The value all agree on; None where there is none, all of them where they differ."""
    different = list(dict.fromkeys(value for value in values if value is not None))
    return different[0] if len(different) == 1 else different or None


def _split(dataset: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The data set with what overrides say of it, and the other overrides; none may change what a row is."""
    given, rest = dict(dataset), []
    for line in overrides:
        path, value = parse_assignment(line)
        if len(path) != 2 or path[1] == "name":
            raise InputError(f"{line!r} cannot be set for all rows; choose rows by --methods, seeds by --seeds.")
        if path[0] == "dataset":
            given[path[1]] = value
        else:
            rest.append(line)
    return given, tuple(rest)


def _id(record: Record) -> str | None:
    """The id a record's settings have today; None where they are no longer settings."""
    try:
        return RunConfig.from_dict(record.get("config", {})).id
    except InputError:
        return None
