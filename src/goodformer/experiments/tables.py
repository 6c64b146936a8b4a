"""Tables of the documentation, computed from the records in ``results/*.jsonl`` and from nothing else.

``goodformer runs table --write docs/results.md`` writes them between the markers in ``docs/results.md``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.engine.config import RunConfig
from goodformer.experiments.competitors import GNN, PAPER, PLAIN_GNN
from goodformer.experiments.paper import published
from goodformer.experiments.presets import configure
from goodformer.registry import InputError

Record = Mapping[str, Any]

EMPTY = "No run has been recorded yet; `goodformer runs export` adds finished runs to `results/`."
BENCHMARK = ("dataset", "domain", "shift", "train_graphs")
COLUMNS = ("method", "model", "preset", "budget", "epochs", "selection")
FIGURES = {
    "id_test": "ID test",
    "ood_val": "OOD validation",
    "ood_test": "OOD test",
    "precision_at_10": "Precision@10",
    "edge_auc": "edge AUC",
}
TOLD = ("measurement", "vectors")
"""Settings of a data set that make it another one than the paper's, and so stand in its heading."""
NAMED = ("name", "domain", "shift", "bias", "larger", *TOLD)
"""Settings of a data set that its heading tells."""
PERCENT = ("id_test", "ood_val", "ood_test")


def read_records(source: Path) -> list[Record]:
    """All records of a file, or of the ``*.jsonl`` files in a folder, each run once, the last line of it winning."""
    records: dict[str, Record] = {}
    for path in [source] if source.is_file() else sorted(source.glob("*.jsonl")):
        for record in files.read_lines(path):
            if not isinstance(record, dict) or "id" not in record:
                raise InputError(f"{path} holds a line that is not a record of a run; remove or mend it.")
            if "kind" not in record:  # records of something else than training name it
                records[record["id"]] = record
    return list(records.values())


def markdown(records: Sequence[Record]) -> str:
    """One table a benchmark, one row a method and its settings, mean and standard deviation over seeds."""
    if not records:
        return EMPTY
    return "\n\n".join(_benchmark_table(key, rows) for key, rows in _group(records, BENCHMARK).items())


def write(results: Path = Path("results"), page: Path = Path("docs/results.md")) -> bool:
    """Put the tables of all records between the markers of a page; True where that changed it."""
    return insert(page, "tables", markdown(read_records(results)))


def insert(page: Path, name: str, body: str) -> bool:
    """Replace what stands between the markers ``name: begin`` and ``name: end`` of a page; True if that changed it."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if not page.is_file():
        raise InputError(f"there is no page {page} to write to; run this in a checkout of the project.")
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"{page} does not hold the lines {begin} and {end} once each; add them where it belongs.")
    head, rest = text.split(begin)
    new = f"{head}{begin}\n{body}\n{end}{rest.split(end)[1]}"
    if new != text:
        files.write_text(page, new)
    return new != text


def _group(records: Iterable[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """Records that agree in all keys, in the order they first appear."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record.get(key) for key in keys), []).append(record)
    return groups


def _benchmark_table(key: tuple[Any, ...], records: Sequence[Record]) -> str:
    """A heading and the table under it."""
    named = dict(zip(BENCHMARK, key, strict=True))
    words = [str(named[part]) for part in ("dataset", "domain", "shift") if named[part] is not None]
    config = records[0].get("config", {}).get("dataset", {})
    words += [f"{name} {config[name]}" for name in TOLD if name in config]
    head = ["method", "model", "preset", "budget", "epochs", "epoch chosen on", *FIGURES.values()]
    groups = _group(_told_apart(records), COLUMNS)
    rows = [
        [*_row(group, rows), *_cost(rows, _baseline(group, groups)), str(len(rows))] for group, rows in groups.items()
    ]
    head += ["OOD test, paper", "s/epoch", "x ERM", "seeds"]
    return f"### {' / '.join(words)}, {named['train_graphs']} training graphs\n\n{markdown_table(head, rows)}"


def _told_apart(records: Sequence[Record]) -> Iterator[Record]:
    """The records, those with other settings than their preset's having these behind its name."""
    for record in (record for alike in _group(records, COLUMNS).values() for record in alike):
        changed = _changed(record)
        yield {**record, "preset": ", ".join((str(record.get("preset")), *changed))} if changed else record


def _changed(record: Record) -> list[str]:
    """What a run has otherwise than its preset and budget would have it, as far as no heading or column tells it."""
    try:
        config = RunConfig.from_dict(record.get("config", {}))
        given = {name: config.dataset[name] for name in NAMED if name in config.dataset}
        parts = (config.method["name"], config.model["name"], config.preset, config.budget)
        own, usual = (_settings(one) for one in (config, configure(given, *parts)))
    except InputError:  # of a preset or a setting that is no more
        return []
    return [f"{name}={value}" for name, value in sorted(own.items()) if value != usual.get(name)]


def _settings(config: RunConfig) -> dict[str, Any]:
    """The settings of a run but its seed and what stands elsewhere."""
    tree = config.to_dict()
    parts = (tree[part] for part in ("dataset", "model", "method", "training"))
    return {name: value for part in parts for name, value in part.items() if name not in (*COLUMNS, "graphs")}


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _row(group: tuple[Any, ...], records: Sequence[Record]) -> list[str]:
    """The cells of one method under one setting."""
    figures = [spread([record.get(key) for record in records], 100 if key in PERCENT else 1) for key in FIGURES]
    return [*("-" if part is None else str(part) for part in group), *figures, _paper(records[0])]


def _paper(record: Record) -> str:
    """What the paper has in the place of a record's OOD test; a gap where it has nothing."""
    dataset = record.get("config", {}).get("dataset") or {"name": record["dataset"], "domain": record["domain"]}
    pair, preset = (record["method"], record["model"]), str(record.get("preset"))
    rows = [row for row in PAPER if (row.method, row.model_on(dataset["name"])) == pair]
    names = [replace(row, name=f"{row.name}:{preset}", preset=preset).published for row in rows]
    found = published("ood_test", dataset, names[0]) if names else None
    return "-" if found is None else " ±".join(written(part, 2) for part in found)


def _baseline(group: tuple[Any, ...], groups: Mapping[tuple[Any, ...], Sequence[Record]]) -> Sequence[Record]:
    """The records of ERM on a GNN under the same budget."""
    budget = COLUMNS.index("budget")
    plain = sorted(groups.items(), key=lambda pair: str(pair[0][2]))  # a preset as it is, then with other settings
    found = (rows for key, rows in plain if key[0] == "erm" and key[1] in (PLAIN_GNN, GNN))
    return next((rows for rows in found if rows[0].get("budget") == group[budget]), [])


def _cost(records: Sequence[Record], baseline: Sequence[Record]) -> list[str]:
    """Seconds an epoch, and how many times those of ERM; of the processor where every record tells them."""
    name = clock_of((*records, *baseline))
    mine, unit = (moments(record.get(name) for record in some) for some in (records, baseline))
    return [
        "-" if mine is None else written(mine[0], 1),
        "-" if mine is None or unit is None else written(mine[0] / unit[0], 2),
    ]


def clock_of(found: Iterable[Record]) -> str:
    """The record entry that tells the cost of an epoch: the processor's own time, which other processes do not change.

    Where a graphics card computed, or a record does not tell it, that of the clock on the wall.
    """
    own, wall = "processor_seconds_per_epoch", "seconds_per_epoch"
    told = [record.get(own) is not None and record.get("machine", {}).get("gpu") is None for record in found]
    return own if told and all(told) else wall


def spread(values: Iterable[float | None], scale: float) -> str:
    """Mean and, over two or more seeds, the standard deviation (n - 1)."""
    found = moments(values, scale)
    return "-" if found is None else " ±".join(written(part, 2 if scale == 100 else 3) for part in found)


def moments(values: Iterable[float | None], scale: float = 1) -> tuple[float, ...] | None:
    """Mean and, over two or more values, the standard deviation (n - 1) of those that are known."""
    known = [scale * value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    mean = statistics.fmean(known)
    return (mean,) if len(known) < 2 else (mean, statistics.stdev(known))


def written(number: float, digits: int) -> str:
    """A number with so many digits behind the point."""
    return f"{number:.{digits}f}"
