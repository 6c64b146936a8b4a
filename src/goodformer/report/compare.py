"""Many methods on one benchmark under one budget: which runs to train, and the table of their records.

Tables are computed from records alone. A record counts for a row if its settings are those the row would be trained
with today, so no table mixes runs of different settings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from goodformer.config.presets import benchmark_keys, check_budget
from goodformer.config.run import RunConfig, parse_assignment
from goodformer.data.readers.values import counted
from goodformer.errors import InputError
from goodformer.report import paired
from goodformer.report.metrics import METRICS, chance, chosen_on, over_seeds
from goodformer.report.paired import PredictionStore, RowPredictions
from goodformer.report.paper import is_whole_table
from goodformer.report.records import Record, clock_of, mean_seconds, relative_cost
from goodformer.report.rows import ALL, BASELINE, Row
from goodformer.report.rows import row as named_row
from goodformer.report.rows import rows as named_rows
from goodformer.report.table import FAILED, NOT_RUN, Cell, Table, ranked
from goodformer.spec import LOWER_IS_BETTER, worth

BUDGET = "compare"
REPORTED = ("ood_test", "id_test", "precision_at_10", "edge_auc", "node_auc")
SCORES = {"accuracy": "Accuracy in %", "rocauc": "ROC-AUC in %", "rmse": "RMSE (lower is better)"}
CLOCKS = {"processor_seconds_per_epoch": "CPU seconds", "seconds_per_epoch": "seconds"}
DIFFERENCES = "Differences: paired on the same OOD test graphs and seeds, in {}, with 95 % bootstrap intervals."
Key = tuple[str, int]
"""Name of a row and a seed."""


@dataclass(frozen=True)
class Comparison:
    """Rows and seeds on one benchmark under one budget.

    Args:
        dataset: Name of a data set and the settings given for it.
        rows: The rows of the table.
        seeds: Seeds of every row.
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
        """Return the configuration of every row and seed, ordered by seed, so that a table fills up evenly."""
        dataset = json.dumps(self.dataset)
        first = {row.name: _configured(dataset, row, self.budget, self.overrides) for row in self.rows}
        return {(row.name, seed): first[row.name].with_seed(seed) for seed in self.seeds for row in self.rows}

    @property
    def runs(self) -> list[RunConfig]:
        """Return the configurations of all runs."""
        return list(self.configs.values())

    @cached_property
    def ids(self) -> dict[Key, str]:
        """Return the id of the run of every row and seed."""
        return {key: config.id for key, config in self.configs.items()}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return all settings of the data set."""
        return next(iter(self.configs.values())).dataset

    def missing(self, found: Mapping[str, Record]) -> list[RunConfig]:
        """Return the configurations without a record."""
        return [config for key, config in self.configs.items() if self.ids[key] not in found]

    def row(self, word: str) -> Row:
        """Return the row that a user typed; it must be one of the comparison."""
        name = named_row(word, self.dataset["name"]).name
        chosen = next((row for row in self.rows if row.name == name), None)
        if chosen is None:
            names = ", ".join(row.name for row in self.rows)
            raise InputError(f"row {name} is not in the comparison; add it to --methods, or give one of {names}.")
        return chosen

    def opponents(self, words: str | None) -> list[Row]:
        """Return the rows that a user typed, separated by commas, to compare all others with."""
        return [self.row(word) for word in words.split(",")] if words else []

    def predictions_of(self, row: Row, found: Mapping[str, Record], store: PredictionStore) -> RowPredictions:
        """Return the kept predictions of a row on OOD test by seed."""
        done = {seed: found[one] for seed in self.seeds if (one := self.ids[row.name, seed]) in found}
        metric = next((str(record.get("metric")) for record in done.values()), "")
        runs = {}
        for seed, record in done.items():
            if kept := store.kept(record, self.configs[row.name, seed].folder_name):
                runs[seed] = record["predictions"]["graphs"]["test"], kept["test"]
        return RowPredictions(metric, str(self.dataset["name"]), runs)


@cache
def _configured(dataset: str, row: Row, budget: str, overrides: tuple[str, ...]) -> RunConfig:
    """Return the configuration of a row with seed 0; the data set is JSON text, so that it can be a cache key."""
    try:
        return row.configure(json.loads(dataset), budget, 0, overrides)
    except InputError as error:
        raise InputError(f"row {row.name}: {error}") from None


def plan(
    dataset: Mapping[str, Any],
    methods: str = ALL,
    seeds: int = 3,
    budget: str = BUDGET,
    overrides: Sequence[str] = (),
) -> Comparison:
    """Return a comparison whose settings have been checked.

    Args:
        dataset: ``{"name": ..., **settings}``.
        methods: Rows, see `goodformer.report.rows.rows`.
        seeds: Number of seeds, counted from 0.
        budget: Name of a budget, the same for all rows.
        overrides: ``part.setting=value`` for all rows.
    """
    given, rest = dict(dataset), []
    for line in overrides:
        path, value = parse_assignment(line)
        if len(path) != 2 or path[1] == "name":
            raise InputError(f"{line!r} cannot be set for all rows; choose rows by --methods and seeds by --seeds.")
        if path[0] == "dataset":
            given[path[1]] = value
        else:
            rest.append(line)
    benchmark_keys(given)  # a mistake in the data set or the budget is not one of the first row
    check_budget(budget)
    comparison = Comparison(given, tuple(named_rows(methods, given["name"])), tuple(range(seeds)), budget, tuple(rest))
    _ = comparison.configs  # any mistake shows before the first run
    return comparison


def report(
    comparison: Comparison,
    found: Mapping[str, Record],
    failures: Mapping[str, str] | None = None,
    against: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    store: PredictionStore | None = None,
) -> dict[str, Any]:
    """Return the comparison as plain values: means and deviations over seeds, published numbers, cost relative to ERM.

    Args:
        comparison: Rows and seeds.
        found: Records of its runs by id.
        failures: Reasons of failed runs by id.
        against: The row that all others are compared with, graph by graph; of several, see `preferred`.
        pairs: Further pairs of rows to compare so.
        store: Where predictions are kept; needed for such comparisons.
    """
    clock, rows = clock_of(found.values()), []
    baseline = [found[one] for (name, _), one in comparison.ids.items() if name == BASELINE and one in found]
    for row in comparison.rows:
        ids = {seed: comparison.ids[row.name, seed] for seed in comparison.seeds}
        done = {seed: found[one] for seed, one in ids.items() if one in found}
        config = comparison.configs[row.name, comparison.seeds[0]]
        means = {name: METRICS[name].over(done.values()) for name in REPORTED}
        published = {name: METRICS[name].published(config.dataset, row.published) for name in REPORTED}
        rows.append(
            {
                "row": row.name,
                "title": row.title,
                "group": row.group,
                "method": row.method,
                "model": config.model["name"],
                "preset": row.preset,
                "published": row.published,
                "epochs": config.training.epochs,
                "seeds": list(done),
                "given": given(config, done.values()),
                "failed": {str(seed): failures[one] for seed, one in ids.items() if failures and one in failures},
                **{name: mean.to_dict() if mean.known else None for name, mean in means.items()},
                "seconds_per_epoch": mean_seconds(done.values(), clock),
                "cost": relative_cost(done.values(), baseline, clock),
                "paper": {
                    name: None if (pair := published[name]) is None else {"mean": pair[0], "std": pair[1]}
                    for name in ("ood_test", "precision_at_10")
                },
            }
        )
    opponents = comparison.opponents(against)
    base = preferred([comparison], opponents, found) if opponents else None
    for row, one in zip(comparison.rows, rows, strict=True):
        if base is not None:
            one["difference"] = None if row == base else paired_difference(comparison, row, base, found, store)
    chosen = [(comparison.row(first), comparison.row(second)) for first, second in pairs]
    return {
        "dataset": comparison.settings,
        "train_graphs": _common(record.get("train_graphs") for record in found.values()),
        "metric": _common(record.get("metric") for record in found.values()),
        "budget": comparison.budget,
        "seeds": list(comparison.seeds),
        "selection": _common(config.training.selection for config in comparison.configs.values()),
        "clock": clock,
        "against": base.title if base else None,
        "pairs": [
            {
                "first": first.title,
                "second": second.title,
                "difference": paired_difference(comparison, first, second, found, store),
            }
            for first, second in chosen
        ],
        "rows": rows,
    }


def given(config: RunConfig, done: Collection[Record]) -> dict[str, Any]:
    """Return what the runs of a row were given; rows with other entries had another chance and are not ranked.

    Args:
        config: The configuration of one of the runs.
        done: The records of the runs.
    """
    return {
        "graphs": _common(record.get("train_graphs") for record in done),
        "epochs": config.training.epochs,
        "seeds": len(done),
        "inputs": list(config.model.get("inputs", ())),
    }


def chance_of(given: Mapping[str, Any]) -> str:
    """Return what rows were given as one value to compare."""
    return json.dumps(given, sort_keys=True)


def preferred(comparisons: Sequence[Comparison], rows: Sequence[Row], found: Mapping[str, Record]) -> Row:
    """Return the row that is best on OOD validation in the mean over its runs, the first of rows without any."""

    def on_validation(row: Row) -> float:
        runs = [found.get(one.ids[row.name, seed]) for one in comparisons for seed in one.seeds]
        known = [worth(run["metric"], run["ood_val"]) for run in runs if run and run.get("ood_val") is not None]
        return sum(known) / len(known) if known else -math.inf

    return max(rows, key=on_validation)


def paired_difference(
    comparison: Comparison, first: Row, second: Row, found: Mapping[str, Record], store: PredictionStore | None
) -> dict[str, Any] | str:
    """Return the mean difference of two rows on OOD test with its interval, in points, or why there is none."""
    if store is None:
        return paired.NOT_KEPT
    pair = paired.pair_up(*(comparison.predictions_of(row, found, store) for row in (first, second)))
    return pair if isinstance(pair, str) else paired.differences([[pair]])[0].to_dict()


def _common(values: Iterable[Any]) -> Any:
    """Return the value all agree on, None if there is none, a list if they differ."""
    different = list(dict.fromkeys(value for value in values if value is not None))
    return different[0] if len(different) == 1 else different or None


def table(report: Mapping[str, Any]) -> Table:
    """Return the table of a comparison's report, with those columns that have any content."""
    rows, wanted = report["rows"], len(report["seeds"])
    epochs = {row["epochs"] for row in rows}
    columns: list[tuple[str, list[Cell]]] = [("", [Cell(row["title"]) for row in rows])]
    if len(epochs) > 1:
        columns.append(("epochs", [Cell.of(row["epochs"]) for row in rows]))
    for name in REPORTED:
        published = [row["paper"].get(name) for row in rows]
        if name in ("ood_test", "id_test") or any(published) or any(row[name] for row in rows):
            columns.append((METRICS[name].head, _measured(report, name)))
        if name == "ood_test" and report["against"]:
            gains = [paired.cell(row["difference"], wanted) for row in rows]
            columns.append((f"difference to {report['against']}", gains))
        if any(published):
            columns.append(("paper", _published(report, name, published)))
    cost = [Cell.mean(row["cost"]) if row["seeds"] else _missing(row) for row in rows]
    done = [len(row["seeds"]) for row in rows]
    columns.append(("time", cost))
    columns.append(("seeds", [Cell.of(one) if one == wanted else Cell(f"{one} of {wanted}") for one in done]))
    if any(row["failed"] for row in rows):
        reasons = [" ".join(f"Seed {seed}: {why}" for seed, why in row["failed"].items()) for row in rows]
        columns.append(("failed", [Cell(reason) for reason in reasons]))
    return Table.of_columns(columns, title(report), note(report), [str(row["group"]) for row in rows])


def _missing(row: Mapping[str, Any]) -> Cell:
    return Cell(FAILED if row["failed"] else NOT_RUN)


def _measured(report: Mapping[str, Any], name: str) -> list[Cell]:
    """Return the column of a metric; its best rows are marked if all had the same chance and all seeds."""
    metric, cells = METRICS[name], []
    for row in report["rows"]:
        cell = Cell.mean(**(row[name] or {"mean": None}), digits=metric.digits, given=chance_of(row["given"]))
        cells.append(cell if row["seeds"] else _missing(row))
    whole = all(len(row["seeds"]) == len(report["seeds"]) for row in report["rows"] if row["seeds"])
    lowest = report["metric"] in LOWER_IS_BETTER
    return ranked(cells, chance(report["dataset"]["name"], name), lowest) if metric.ranked and whole else cells


def _published(report: Mapping[str, Any], name: str, published: Sequence[Mapping[str, Any] | None]) -> list[Cell]:
    """Return the column of published numbers, the best ones marked if no row of the paper's table is left out."""
    cells = [Cell.mean(**(pair or {"mean": None}), digits=METRICS[name].digits) for pair in published]
    shown = [row["published"] for row, pair in zip(report["rows"], published, strict=True) if pair]
    whole = is_whole_table(name, report["dataset"], shown)
    return ranked(cells, chance(report["dataset"]["name"], name)) if whole else cells


def differences_note(metrics: Sequence[str]) -> str:
    """Return the words of a note for paired differences of some metrics."""
    measured = [metric in LOWER_IS_BETTER for metric in metrics]
    unit = "units of RMSE, where negative is better" if any(measured) else "points"
    return DIFFERENCES.format(unit if all(measured) or not any(measured) else f"points or {unit}")


def title(report: Mapping[str, Any]) -> str:
    """Return the benchmark, its size and the budget."""
    data, epochs = report["dataset"], {row["epochs"] for row in report["rows"]}
    words = [str(data[key]) for key in ("name", "rule", "split", "domain", "shift") if data.get(key) is not None]
    words += [f"bias {data['bias']}"] if "bias" in data else []
    words += ["equal sizes"] if data.get("larger") is False else []
    size = f"{report['train_graphs']} training graphs, " if report["train_graphs"] else ""
    same = f", {counted(epochs.pop(), 'epoch')}" if len(epochs) == 1 else ""
    return f"{' / '.join(words)}, {size}budget {report['budget']}{same}"


def note(report: Mapping[str, Any]) -> str:
    """Return what the numbers are and how the epochs were chosen."""
    rule = report["selection"]
    chosen = chosen_on(rule) if isinstance(rule, str) else "epoch chosen by different rules"
    metric = str(report["metric"])
    parts = [f"{SCORES.get(metric, 'Test score in %')}, {over_seeds(len(report['seeds']))}; {chosen}."]
    if any(row["paper"]["ood_test"] for row in report["rows"]):
        parts.append("Paper: its own numbers, with all graphs and epochs.")
    if any(row["cost"] for row in report["rows"]):
        parts.append(f"Time: {CLOCKS[report['clock']]} per training epoch, ERM = 1.")
    if report["against"] or report["pairs"]:
        parts.append(differences_note([metric]))
    for one in report["pairs"]:
        words = paired.cell(one["difference"], len(report["seeds"])).text
        parts.append(f"{one['first']} minus {one['second']}: {words}.")
    return " ".join(parts)
