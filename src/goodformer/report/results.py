"""The results page: one table per benchmark, computed from the records in ``results/*.jsonl`` alone.

``goodformer runs table --write docs/results.md`` writes the tables between the markers of ``docs/results.md``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goodformer.config.presets import configure
from goodformer.config.run import LABELS, RunConfig
from goodformer.data.benchmarks.sizes import generated_sizes
from goodformer.engine.store import NamedRecord
from goodformer.errors import InputError
from goodformer.report.metrics import METRICS, SELECTION_NAMES, chosen_on
from goodformer.report.records import Record, clock_of, mean_seconds, read_records, relative_cost
from goodformer.report.rows import GNN, GOODFORMER, PAPER, PLAIN_GNN, SHARED, version_title
from goodformer.report.table import ABSENT, Cell, Table, insert
from goodformer.spec import METRIC_NAMES, percent, worth

MOST_CHANGES = 4
"""Number of changed settings that a label lists; with more, as after a change of a preset, it only counts them."""
EMPTY = "No run has been recorded yet; `goodformer runs export` adds finished runs to `results/`."
BENCHMARK = ("dataset", "domain", "shift", "train_graphs")
VARIANT = ("measurement", "vectors")
"""Settings that make a data set another one than the paper's; the title of a table names them."""
NAMED = ("name", "domain", "shift", "bias", "larger", *VARIANT)
"""Settings of a data set that do not count as changes of a preset."""
KEY = ("method", "model", "preset", "budget", "epochs", "selection")
"""Entries that the runs of one row have in common."""
BESIDE = ("id_test", "ood_val", "precision_at_10", "edge_auc")
"""Metrics shown after OOD test and the paper's number."""
SHOWN_ELSEWHERE = (
    *("dataset.name", "dataset.graphs", "model.name", "method.name"),
    *("training.epochs", "training.selection", "dataset.seed"),
)
"""Settings that a title, a note or a column shows; the seed of a split is one of the seeds of its row."""

Key = tuple[Any, ...]


def markdown(records: Sequence[Record]) -> str:
    """Return the tables of all records in Markdown."""
    return "\n\n".join(table.markdown() for table in tables(records)) or EMPTY


def write(results: Path = Path("results"), page: Path = Path("docs/results.md")) -> bool:
    """Write the tables of all records between the markers of a page; return whether it changed."""
    return insert(page, "tables", markdown(read_records(results, NamedRecord)))


def tables(records: Sequence[Record]) -> list[Table]:
    """Return one table per benchmark: one row per method and settings, mean and standard deviation over seeds."""
    return [_table(key, some) for key, some in _benchmarks(records).items()]


def rows(records: Sequence[Record]) -> list[list[tuple[str, list[Record]]]]:
    """Return the rows of `tables`, each as its name and its records, one list per table."""
    return [
        [(_label(dict(zip(KEY, key, strict=True))), found) for key, found in _rows(some).items()]
        for some in _benchmarks(records).values()
    ]


def _benchmarks(records: Sequence[Record]) -> dict[Key, list[Record]]:
    """Return the records of each benchmark, by name, the largest number of graphs first.

    The splits of one table of rows, which differ a little in size, are one benchmark.
    """

    def benchmark(record: Record) -> Key:
        dataset = record.get("config", {}).get("dataset", {})
        size = None if "split" in dataset else record.get("train_graphs")
        return (*(record.get(key) for key in BENCHMARK[:-1]), size, *(dataset.get(key) for key in VARIANT))

    def order(key: Key) -> Key:
        named = dict(zip(BENCHMARK, key, strict=False))
        return (*(str(named[name]) for name in BENCHMARK[:-1]), -(named["train_graphs"] or 0), *map(str, key))

    found = _grouped(records, benchmark)
    return {key: found[key] for key in sorted(found, key=order)}


def _grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Return the records by key, in the order in which keys first appear."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _rows(records: Sequence[Record]) -> dict[Key, list[Record]]:
    """Return the records of each row of a table, those with the same settings but for the seed; best OOD test first."""

    def row(record: Record) -> Key:  # runs with other settings than their preset's are rows of their own
        preset = ", ".join((str(record.get("preset")), *_changes(record)))
        return tuple({**record, "preset": preset, "epochs": _epochs(record)}.get(key) for key in KEY)

    def order(pair: tuple[Key, list[Record]]) -> float:
        mean, metric = METRICS["ood_test"].over(pair[1]).mean, str(pair[1][0].get("metric"))
        return math.inf if mean is None else -worth(metric, mean)

    return dict(sorted(_grouped(records, row).items(), key=order))


def _epochs(record: Record) -> Any:
    """Return the most epochs that a run may have; early stopping ends runs of one row after different numbers."""
    if record.get("members"):  # a blend: one step after its members
        return record.get("epochs")
    return record.get("config", {}).get("training", {}).get("epochs", record.get("epochs"))


def _table(benchmark: Key, records: Sequence[Record]) -> Table:
    """Return the table of one benchmark; what all rows share stands in the note, empty columns are left out."""
    groups = _rows(records)
    keys = [dict(zip(KEY, key, strict=True)) for key in groups]
    found = list(groups.values())
    baselines = [_baseline(key["budget"], groups) for key in keys]
    columns = [
        ("method", [Cell(_label(key)) for key in keys]),
        ("OOD test", [METRICS["ood_test"].cell(some) for some in found]),
        ("paper", [_published(some[0], key["preset"]) for key, some in zip(keys, found, strict=True)]),
        *((metric.head, [metric.cell(some) for some in found]) for metric in map(METRICS.__getitem__, BESIDE)),
        ("s/epoch (x ERM)", [_cost(some, base) for some, base in zip(found, baselines, strict=True)]),
    ]
    columns = [(head, cells) for head, cells in columns if any(cell.text != ABSENT for cell in cells)]
    shared = []
    for name, words in (("budget", "budget {}".format), ("epochs", "{} epochs".format), ("selection", chosen_on)):
        values = [key[name] for key in keys]
        if len(set(values)) > 1:
            texts = [SELECTION_NAMES.get(str(value), str(value)) for value in values]
            columns.append(("epoch chosen on" if name == "selection" else name, [Cell(text) for text in texts]))
        elif values[0] is not None:
            shared.append(words(values[0]))
    splits = [len({one.get("config", {}).get("dataset", {}).get("seed") for one in some}) for some in found]
    if max(splits) > 1:
        columns.append(("splits", [Cell.of(count) for count in splits]))
    columns.append(("seeds", [Cell.of(len({one.get("seed") for one in some})) for some in found]))
    generated = [generated_sizes(record.get("config", {}).get("dataset", {})) for record in records]
    tested = {None if sizes is None else sizes["test"] for sizes in generated}
    shared += [f"{count:,} OOD test graphs" for count in tested if count is not None and len(tested) == 1]
    note = ", ".join(shared)
    return Table.of_columns(columns, _title(benchmark, records), f"{note[:1].upper()}{note[1:]}." if note else "")


def _title(benchmark: Key, records: Sequence[Record]) -> str:
    """Return the name of a benchmark, its size and its metric."""
    named = dict(zip((*BENCHMARK, *VARIANT), benchmark, strict=True))
    words = [str(named[part]) for part in ("dataset", "domain", "shift") if named[part] is not None]
    words += [f"{name} {named[name]}" for name in VARIANT if named[name] is not None]
    sizes = [record["train_graphs"] for record in records if record.get("train_graphs") is not None]
    size = [f"{'-'.join(str(one) for one in dict.fromkeys((min(sizes), max(sizes))))} training graphs"] if sizes else []
    units = [
        f"{METRIC_NAMES[one]}, %" if percent(one) == 100 else METRIC_NAMES[one]
        for one in dict.fromkeys(record["metric"] for record in records if record.get("metric") in METRIC_NAMES)
    ]
    return ", ".join([" / ".join(words), *size, *units])


def _label(key: Mapping[str, Any]) -> str:
    """Return method, model and preset; the usual model and the default preset are left out.

    GOODFormer has the titles of its versions: ours, the paper's, the published code's.
    """
    method, model, (preset, *changes) = key["method"], key["model"], str(key["preset"]).split(", ")
    if method == model == GOODFORMER:
        return ", ".join([version_title(preset), *changes])
    usual = (PLAIN_GNN, GNN) if method != "goodformer" else ("goodformer",)
    words = [method if model in usual else f"{method} on {model}", *([] if preset == "default" else [preset]), *changes]
    return ", ".join(words)


def _changes(record: Record) -> list[str]:
    """Return the settings in which a run differs from its preset and budget, unless they are shown elsewhere."""
    stored = record.get("config")
    if not stored:
        return []
    try:
        config = RunConfig.from_dict(stored)
        given = {name: config.dataset[name] for name in NAMED if name in config.dataset}
        parts = (config.method["name"], config.model["name"], config.preset, config.budget)
        own, usual = (_settings(one) for one in (config, configure(given, *parts)))
    except InputError:  # a preset or a setting that no longer exists, or data without usual settings
        return [f"settings {_digest({name: stored[name] for name in stored if name not in ('seed', *LABELS)})}"]
    names = {path: path.partition(".")[2] for path in own}
    short = {path: name if list(names.values()).count(name) == 1 else path for path, name in names.items()}
    changed = [path for path in own if own[path] != usual.get(path)]
    if len(changed) > MOST_CHANGES:
        return [f"{len(changed)} settings changed ({_digest(own)})"]
    return [f"{short[path]}={own[path]}" for path in sorted(changed, key=names.__getitem__)]


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]


def _settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run by their paths, without its seed and those shown elsewhere."""
    tree = config.to_dict()
    parts = ("dataset", "model", "method", "training")
    paths = {f"{part}.{name}": value for part in parts for name, value in tree[part].items()}
    return {path: value for path, value in paths.items() if path not in SHOWN_ELSEWHERE}


def _published(record: Record, preset: str) -> Cell:
    """Return the paper's OOD test of a row, ``-`` if the paper does not have the row."""
    settings = record.get("config", {}).get("dataset") or {"domain": record.get("domain")}
    dataset = {"name": record["dataset"], **settings}
    pair = (record["method"], record["model"])
    for row in PAPER:
        if (row.method, row.model_on(dataset["name"])) == pair:
            name = replace(row, name=f"{row.name}:{preset}", preset=preset).published
            return METRICS["ood_test"].published_cell(dataset, name)
    return Cell(ABSENT)


def _baseline(budget: str, groups: Mapping[Key, Sequence[Record]]) -> Sequence[Record]:
    """Return the records of plain ERM on a GNN under a budget, without runs that took over inputs of GOODFormer.

    Of several rows, that with the fewest changes of the preset ``default`` counts.
    """
    borrowed = [path.partition(".")[2] for path in SHARED]
    found: dict[int, Sequence[Record]] = {}
    for key, some in groups.items():
        named = dict(zip(KEY, key, strict=True))
        changes = _changes(some[0])
        plain = all("=" in one and one.partition("=")[0] not in borrowed for one in changes)
        own = plain and some[0].get("preset") == "default"
        if own and named["method"] == "erm" and named["model"] in (PLAIN_GNN, GNN) and named["budget"] == budget:
            found.setdefault(len(changes), some)
    return found[min(found)] if found else []


def _cost(records: Sequence[Record], baseline: Sequence[Record]) -> Cell:
    """Return mean seconds per epoch, CPU seconds if every record has them, and the multiple of ERM's."""
    name = clock_of((*records, *baseline))
    mine, ratio = mean_seconds(records, name), relative_cost(records, baseline, name)
    return Cell.mean(mine, digits=1, remark="" if ratio is None else f"({ratio:.2f} x)")
