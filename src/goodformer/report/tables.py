"""Tables of the documentation, computed from the records in ``results/*.jsonl`` and from nothing else.

``goodformer runs table --write docs/results.md`` writes them between the markers in ``docs/results.md``.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.config.presets import configure
from goodformer.config.run import LABELS, RunConfig
from goodformer.registry import InputError
from goodformer.report.paper import published
from goodformer.report.rows import GNN, PAPER, PLAIN_GNN

Record = Mapping[str, Any]

EMPTY = "No run has been recorded yet; `goodformer runs export` adds finished runs to `results/`."
RECORDS = "give a file of records, one JSON object a line, as goodformer runs export -o FILE writes it"
BENCHMARK = ("dataset", "domain", "shift", "train_graphs")
COLUMNS = ("method", "model", "preset", "budget", "epochs", "selection")
HEADINGS = {
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
PARTS = ("dataset", "model", "method", "training")
ELSEWHERE = ("dataset.name", "dataset.graphs", "model.name", "method.name", "training.epochs", "training.selection")
"""Settings that a heading or a column tells, or the number of training graphs."""
PERCENT = ("id_test", "ood_val", "ood_test")


def read_records(source: Path) -> list[Record]:
    """All records of a file, or of the ``*.jsonl`` files in a folder, each run once, the last line of it winning."""
    records: dict[str, Record] = {}
    for path, record in lines(source):
        if not isinstance(record, dict) or "id" not in record:
            raise InputError(f"{path} holds a line that is not a record of a run; {RECORDS}.")
        if "kind" not in record:  # records of something else than training name it
            records[record["id"]] = record
    return list(records.values())


def lines(source: Path) -> Iterator[tuple[Path, Any]]:
    """All lines of a file, or of the ``*.jsonl`` files in a folder, each with the file it is in."""
    for path in [source] if source.is_file() else sorted(source.glob("*.jsonl")):
        yield from ((path, line) for line in files.read_lines(path, RECORDS))


def markdown(records: Sequence[Record]) -> str:
    """One table a benchmark, one row a method and its settings, mean and standard deviation over seeds."""
    if not records:
        return EMPTY
    return "\n\n".join(_benchmark_table(key, rows) for key, rows in _group(records, _benchmark).items())


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


def _group(records: Iterable[Record], key: Callable[[Record], tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Record]]:
    """Records that agree in a key, in the order they first appear."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _benchmark(record: Record) -> tuple[Any, ...]:
    """What a heading tells: two runs under one heading have the same data."""
    dataset = record.get("config", {}).get("dataset", {})
    return (*(record.get(key) for key in BENCHMARK), *(dataset.get(key) for key in TOLD))


def _columns(record: Record) -> tuple[Any, ...]:
    """What the first columns tell."""
    return tuple(record.get(key) for key in COLUMNS)


def _benchmark_table(key: tuple[Any, ...], records: Sequence[Record]) -> str:
    """A heading and the table under it."""
    named = dict(zip((*BENCHMARK, *TOLD), key, strict=True))
    words = [str(named[part]) for part in ("dataset", "domain", "shift") if named[part] is not None]
    words += [f"{name} {named[name]}" for name in TOLD if named[name] is not None]
    head = ["method", "model", "preset", "budget", "epochs", "epoch chosen on", *HEADINGS.values()]
    groups = _group(_told_apart(records), _columns)
    rows = [
        [*_row(group, rows), *_cost(rows, _baseline(group, groups)), str(len(rows))] for group, rows in groups.items()
    ]
    head += ["OOD test, paper", "s/epoch", "x ERM", "seeds"]
    return f"### {' / '.join(words)}, {named['train_graphs']} training graphs\n\n{markdown_table(head, rows)}"


def _told_apart(records: Sequence[Record]) -> Iterator[Record]:
    """The records, those with other settings than their preset's having these behind its name."""
    for record in (record for alike in _group(records, _columns).values() for record in alike):
        changed = _changed(record)
        yield {**record, "preset": ", ".join((str(record.get("preset")), *changed))} if changed else record


def _changed(record: Record) -> list[str]:
    """What a run has otherwise than its preset and budget would have it, as far as no heading or column tells it."""
    told = record.get("config")
    if not told:
        return []
    try:
        config = RunConfig.from_dict(told)
        given = {name: config.dataset[name] for name in NAMED if name in config.dataset}
        parts = (config.method["name"], config.model["name"], config.preset, config.budget)
        own, usual = (_settings(one) for one in (config, configure(given, *parts)))
    except InputError:  # of a preset or a setting that is no more, or of data that have no usual settings
        return [f"settings {_fingerprint(told)}"]
    return [f"{_short(path, own)}={own[path]}" for path in sorted(own, key=_bare) if own[path] != usual.get(path)]


def _settings(config: RunConfig) -> dict[str, Any]:
    """The settings of a run by their paths, but its seed and what stands elsewhere."""
    tree = config.to_dict()
    paths = {f"{part}.{name}": value for part in PARTS for name, value in tree[part].items()}
    return {path: value for path, value in paths.items() if path not in ELSEWHERE}


def _fingerprint(config: Mapping[str, Any]) -> str:
    """A few digits that belong to some settings, whatever their seed and labels."""
    content = {name: value for name, value in config.items() if name not in ("seed", *LABELS)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:6]


def _short(path: str, paths: Iterable[str]) -> str:
    """The name of a setting, and its part where another part has a setting of that name."""
    return _bare(path) if sum(_bare(one) == _bare(path) for one in paths) == 1 else path


def _bare(path: str) -> str:
    return path.partition(".")[2]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _row(group: tuple[Any, ...], records: Sequence[Record]) -> list[str]:
    """The cells of one method under one setting."""
    figures = [spread([record.get(key) for record in records], 100 if key in PERCENT else 1) for key in HEADINGS]
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

    Where a graphics card computed, or a record does not tell it, that of the clock on the wall. Old records do not name
    the device: theirs was the processor where it was asked for, or where the machine has no card.
    """
    own, wall = "processor_seconds_per_epoch", "seconds_per_epoch"

    def tells(record: Record) -> bool:
        asked = (record.get("hardware") or {}).get("accelerator")
        guess = "cpu" if asked == "cpu" or (record.get("machine") or {}).get("gpu") is None else asked
        return record.get(own) is not None and (record.get("device") or guess) == "cpu"

    told = [tells(record) for record in found]
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
