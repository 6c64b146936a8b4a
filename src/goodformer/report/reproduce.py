"""The tables and figures of the paper from records: our numbers beside the paper's, and the commands for missing runs.

A record counts only if its settings are those the run would be trained with today. Every table has one budget.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.config.run import RunConfig
from goodformer.data.benchmarks.sizes import generated_sizes
from goodformer.data.readers.values import counted
from goodformer.engine.store import Run, export_results, merge_lines
from goodformer.errors import InputError
from goodformer.report import headline, verdict_page
from goodformer.report.artefacts import ARTEFACTS, FULL, REFERENCE, Artefact, Column, Contrast, TablePlan
from goodformer.report.compare import Comparison, chance_of, given
from goodformer.report.metrics import (
    METRICS,
    SELECTION_NAMES,
    Metric,
    by_rule,
    chance,
    chosen_on,
    over_seeds,
)
from goodformer.report.pace import Paces, duration
from goodformer.report.paper import is_whole_table
from goodformer.report.records import (
    INFERENCE,
    Mean,
    Record,
    SeedDifference,
    finished,
    seed_difference,
    timed_records,
    welch,
)
from goodformer.report.rows import ALL, PAPER, THEIRS, VERSIONS, Row
from goodformer.report.table import ABSENT, NOT_RUN, Cell, Table, insert, ranked

SURE = 1.96
"""Standard errors on each side of a 95 % interval."""

# ------------------------------------------------------------------------------------------ records


def known_records(plans: Iterable[TablePlan], sources: Sequence[Path], root: Path | None = None) -> dict[str, Record]:
    """Return all records by id, from files of records and from run folders, which win, with inference times."""
    return timed_records(sources, configs_of(plans).values(), root)


def configs_of(plans: Iterable[TablePlan]) -> dict[str, RunConfig]:
    """Return all runs of some tables by id."""
    return {one: config for plan in plans for one, config in plan.configs.items()}


def trained(found: Mapping[str, Record], identity: str) -> bool:
    """Return whether there is a record of a run, not only of its inference time."""
    return "config" in found.get(identity, {})


def untrained(plans: Sequence[TablePlan], found: Mapping[str, Record]) -> list[RunConfig]:
    """Return the runs without a record, first seeds first."""
    absent = [config for one, config in configs_of(plans).items() if not trained(found, one)]
    return sorted(absent, key=lambda config: config.seed)


def untimed(plans: Iterable[TablePlan], found: Mapping[str, Record]) -> list[RunConfig]:
    """Return the runs whose inference time is shown and not recorded."""
    wanted = {key: config for plan in plans for key, config in plan.timed.items()}
    return [config for key, config in wanted.items() if INFERENCE not in found.get(key, {})]


def drawn_runs(plans: Sequence[TablePlan], root: Path) -> dict[str, Run]:
    """Return the finished runs of the first column and seed, by the titles of their rows."""
    comparison = plans[0].columns[0].comparison
    runs = {
        row.title: Run(root / comparison.configs[row.name, comparison.seeds[0]].folder_name) for row in comparison.rows
    }
    return {title: run for title, run in runs.items() if run.finished}


def export(plans: Iterable[TablePlan], root: Path, path: Path, measured: Sequence[dict[str, Any]] = ()) -> None:
    """Add the records of finished runs to a file, and inference times to ``NAME-inference.jsonl`` beside it."""

    def check(path: Path, lines: Sequence[Any]) -> None:
        if not all(isinstance(line, dict) and line.get("kind") == INFERENCE for line in lines):
            raise InputError(f"{path} contains other lines than records of inference times; choose another file.")

    if runs := finished(configs_of(plans).values(), root):
        export_results(runs, path)
    if measured:
        beside = path.with_name(f"{path.stem}-{INFERENCE}{path.suffix}")
        merge_lines(beside, measured, lambda line: str(line["id"]), check)


# ------------------------------------------------------------------------------------------ reports


def report(
    one: Artefact,
    plans: Sequence[TablePlan],
    found: Mapping[str, Record],
    chosen: Sequence[str] = (),
    root: Path | None = None,
) -> dict[str, Any]:
    """Return an artefact as plain values: every cell, the published numbers, and the commands for missing runs.

    Args:
        one: The artefact.
        plans: Its tables, or some of them.
        found: Records by id.
        chosen: Options of the command that chose these tables.
        root: Folder of runs; missing run folders are a gap of artefacts that need them.
    """
    paces, folders = Paces(found.values()), root if one.folders else None
    absent = [
        config
        for key, config in configs_of(plans).items()
        if not (trained(found, key) and (folders is None or Run(folders / config.folder_name).finished))
    ]
    times, gap = len(untimed(plans, found)), _times_gap(one, plans, found, chosen)
    if absent:
        command = shlex.join(["goodformer", "reproduce", one.name, *chosen, "--run"])
        gap = {"command": command, **_cost(absent, paces), "times": times}
    tables = [_table(one, plan, found, paces, chosen) for plan in plans]
    return {
        "artefact": one.name,
        "place": one.place,
        "about": one.about,
        "tables": tables,
        "remark": chance_remark(tables) if one.drawn and not one.folders else "",
        "there": {} if folders is None else coverage(one, plans, found, folders),
        "gap": gap,
    }


def _table(
    one: Artefact, plan: TablePlan, found: Mapping[str, Record], paces: Paces, chosen: Sequence[str]
) -> dict[str, Any]:
    """Return the values of one table."""
    budget = plan.columns[0].comparison.budget
    times = _times_gap(one, [plan], found, chosen if "--budget" in chosen else ("--budget", budget, *chosen))
    return {
        "title": plan.title,
        "budget": budget,
        "note": plan.note,
        "unit": plan.unit,
        "columns": [_heading(column, found, paces) for column in plan.columns],
        "rows": [
            {
                "row": row.name,
                "title": row.title,
                "group": row.group,
                "preset": row.preset,
                "published": row.published,
                "cells": [_entry(column, row, found) for column in plan.columns],
            }
            for row in plan.rows
        ],
        "contrasts": [_contrast(plan, one, found) for one in plan.contrasts],
        "gaps": [*gaps(plan, found, paces), *([times] if times else [])],
    }


def _heading(column: Column, found: Mapping[str, Record], paces: Paces) -> dict[str, Any]:
    """Return what a column shows: its data, its size, its epochs."""
    comparison = column.comparison
    graphs = {found[one]["train_graphs"] for one in comparison.ids.values() if trained(found, one)}
    epochs = {config.training.epochs for config in comparison.configs.values()}
    selection = next(iter(comparison.configs.values())).training.selection
    return {
        "head": column.head,
        "metric": column.metric,
        "beside": column.beside,
        "dataset": comparison.settings,
        "train_graphs": graphs.pop() if len(graphs) == 1 else paces.graphs(comparison.settings),
        "chance": chance(comparison.settings["name"], column.metric),
        "test_graphs": (generated_sizes(comparison.settings) or {}).get("test"),
        "epochs": epochs.pop() if len(epochs) == 1 else None,
        "seeds": len(comparison.seeds),
        "selection": rule if (rule := column.metric.removeprefix("by_")) in SELECTION_NAMES else selection,
    }


def _entry(column: Column, row: Row, found: Mapping[str, Record]) -> dict[str, Any]:
    """Return a cell: ``seeds`` of the ``of`` runs are recorded, ``known`` of them have the metric."""
    comparison, metric = column.comparison, METRICS[column.metric]
    ids = [comparison.ids[row.name, seed] for seed in comparison.seeds if row in comparison.rows]
    done = [found[one] for one in ids if one in found and (column.metric == INFERENCE or trained(found, one))]
    known = sum(metric.value(record) is not None for record in done)
    published = metric.published(comparison.settings, row.published) if column.beside else None
    return {
        "seeds": known if column.metric == INFERENCE else len(done),
        "known": known,
        "of": len(ids),
        "given": given(comparison.configs[row.name, comparison.seeds[0]], done) if ids else None,
        **metric.over(done).to_dict(),
        "rules": [by_rule("ood_test", one, done).to_dict() for one in SELECTION_NAMES if column.metric == "ood_test"],
        "beside": None if published is None else dict(zip(("mean", "std"), (*published, None), strict=False)),
    }


def _contrast(plan: TablePlan, one: Contrast, found: Mapping[str, Record]) -> dict[str, Any]:
    """Return what a part of a method changes in each column, over the seeds that have both runs."""
    return {
        "part": one.part,
        "changes": [
            {"head": column.head, "metric": column.metric, "change": None if gap is None else gap._asdict()}
            for column in plan.columns
            for gap in [column_difference(column, one.present, one.absent, found)]
        ],
    }


def column_difference(column: Column, ours: str, theirs: str, found: Mapping[str, Record]) -> SeedDifference | None:
    """Return the difference of two rows in a column, paired over seeds; None if no seed has both."""
    comparison, metric = column.comparison, METRICS[column.metric]
    by_seed = (
        {
            seed: metric.value(found[key])
            for seed in comparison.seeds
            if trained(found, key := comparison.ids[row, seed])
        }
        for row in (ours, theirs)
    )
    return seed_difference(*by_seed)


def gaps(plan: TablePlan, found: Mapping[str, Record], paces: Paces) -> Iterator[dict[str, Any]]:
    """Yield, for each incomplete comparison, the command that trains the missing runs and their estimated cost."""
    shown = [column.comparison for column in plan.columns if column.metric != INFERENCE]
    for comparison in {tuple(one.ids.values()): one for one in shown}.values():
        missing = {key: comparison.configs[key] for key, one in comparison.ids.items() if not trained(found, one)}
        if missing:
            names = [row.name for row in comparison.rows if any(key[0] == row.name for key in missing)]
            yield {"command": _command(comparison, names), **_cost(missing.values(), paces)}


def _command(comparison: Comparison, names: Sequence[str]) -> str:
    """Return the command line that trains some rows of a comparison."""
    everything = [row.name for row in PAPER]
    rows = [ALL, *(name for name in names if name not in everything)] if set(everything) <= set(names) else names
    given = {key: value for key, value in comparison.dataset.items() if key != "name"}
    plain = [word for key in ("domain", "shift") if key in given for word in (f"--{key}", str(given.pop(key)))]
    settings = [f"dataset.{key}={value}" for key, value in given.items()] + list(comparison.overrides)
    words = ["goodformer", "compare", "--dataset", comparison.dataset["name"], *plain, "--methods", ",".join(rows)]
    words += ["--seeds", str(len(comparison.seeds)), "--budget", comparison.budget, "--records", "results"]
    return shlex.join([*words, *(word for line in settings for word in ("--set", line))])


def _times_gap(
    one: Artefact, plans: Sequence[TablePlan], found: Mapping[str, Record], chosen: Sequence[str]
) -> dict[str, Any] | None:
    """Return the command that measures and records missing inference times, None if none is missing."""
    times = len(untimed(plans, found))
    words = ["goodformer", "reproduce", one.name, *chosen, "--times-only", "--export", f"results/{one.name}.jsonl"]
    return {"command": shlex.join(words), "runs": 0, "seconds": None, "unknown": 0, "times": times} if times else None


def _cost(configs: Iterable[RunConfig], paces: Paces) -> dict[str, Any]:
    """Return the number of runs, their CPU seconds as far as known, and the number of runs without an estimate."""
    seconds = [paces.seconds(config) for config in configs]
    known = [one for one in seconds if one is not None]
    return {"runs": len(seconds), "seconds": sum(known) if known else None, "unknown": len(seconds) - len(known)}


def coverage(
    one: Artefact, plans: Sequence[TablePlan], found: Mapping[str, Record], root: Path | None = None
) -> dict[str, tuple[int, int]]:
    """Return how many records, inference times and run folders exist, and how many the tables need."""
    configs = configs_of(plans)
    there = {"runs": (sum(trained(found, key) for key in configs), len(configs))}
    if times := {key for plan in plans for key in plan.timed}:
        there["inference times"] = (sum(INFERENCE in found.get(key, {}) for key in times), len(times))
    if one.folders and root is not None:
        there["run folders"] = (len(finished(configs.values(), root)), len(configs))
    return there


def in_words(there: Mapping[str, Sequence[int]]) -> str:
    """Return a coverage in words."""
    return " and ".join(f"{done} of {wanted} {what}" for what, (done, wanted) in there.items())


def listing(sources: Sequence[Path], root: Path, seeds: int | None = None) -> list[dict[str, str]]:
    """Return one row per artefact: its name, place and content, and its coverage under each budget."""
    plans = {name: {budget: one.plans(budget, seeds) for budget in one.budgets} for name, one in ARTEFACTS.items()}
    found = known_records([plan for some in plans.values() for each in some.values() for plan in each], sources)
    return [
        {
            "name": one.name,
            "place": one.place or "ours",
            "about": one.about,
            "runs": ", ".join(
                f"{budget} {in_words(coverage(one, some, found, root))}" for budget, some in plans[name].items()
            ),
        }
        for name, one in ARTEFACTS.items()
    ]


# ------------------------------------------------------------------------------------------ tables


def table(made: Mapping[str, Any]) -> Table:
    """Return one table of a report."""
    rows = made["rows"]
    unit = next((place for place, row in enumerate(rows) if row["row"] == made["unit"]), None)
    columns: list[tuple[str, list[Cell]]] = [("", [Cell(row["title"]) for row in rows])]
    for place, column in enumerate(made["columns"]):
        entries = [row["cells"][place] for row in rows]
        metric, level = METRICS[column["metric"]], chance(column["dataset"]["name"], column["metric"])
        columns.append((column["head"], _cells(entries, metric, unit, level)))
        if any(entry["beside"] for entry in entries):
            published = [entry["beside"] or {"mean": None, "std": None} for entry in entries]
            shown = [row["published"] for row, entry in zip(rows, entries, strict=True) if entry["beside"]]
            whole = is_whole_table(column["metric"], column["dataset"], shown)
            columns.append((column["beside"], _cells(published, metric, unit, level, whole)))
    return Table.of_columns(columns, title(made), note(made), [str(row["group"]) for row in rows])


def _cells(
    entries: Sequence[Mapping[str, Any]], metric: Metric, unit: int | None, level: float | None, whole: bool = True
) -> list[Cell]:
    """Return the cells of a column, the best ones marked if no row is left out, all had the same chance and seeds, and
    the best is decided.

    A metric without ranks is also shown relative to a row.
    """
    base, cells = entries[unit]["mean"] if unit is not None and not metric.ranked else None, []
    for entry in entries:
        wanted, known = entry.get("of", 0), entry.get("known", 0)
        if entry["mean"] is None:
            cells.append(Cell(NOT_RUN if wanted and not entry["seeds"] else ABSENT))
            continue
        remarks = [f"({entry['mean'] / base:.1f} x)"] if base else []
        remarks += [f"({known} of {counted(wanted, 'seed')})"] if known != wanted else []
        had = chance_of(entry["given"]) if "given" in entry else None
        cells.append(Cell.mean(entry["mean"], entry["std"], metric.digits, " ".join(remarks), had))
    whole = whole and all(entry.get("known", 0) == entry.get("of", 0) for entry in entries if entry["mean"] is not None)
    return ranked(cells, level) if metric.ranked and whole and _decided(entries) else cells


def _decided(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the best mean of our runs is above all others by more than the scatter of the seeds.

    It must be so whichever rule chooses the epoch, as far as records have all rules. Means of the paper, which has no
    runs here, are always ranked.
    """
    ours = [entry for entry in entries if entry["mean"] is not None and entry.get("of")]
    if not ours:
        return True
    best = max(range(len(ours)), key=lambda place: ours[place]["mean"])
    for view in (ours, *zip(*(entry["rules"] for entry in ours), strict=True)):
        means = [Mean(one["mean"], one["std"], entry["known"]) for one, entry in zip(view, ours, strict=True)]
        if any(one.mean is None for one in means):
            continue
        first = means.pop(best)
        if any(first.std is None or one.std is None or welch(first, one).low <= 0 for one in means):
            return False
    return True


def chance_remark(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return how many points of a figure are at chance: within the 95 % interval of guessing on its test graphs."""
    points, guessed = 0, 0
    for made in tables:
        for row in made["rows"] if made["title"] != REFERENCE else ():
            for column, cell in zip(made["columns"], row["cells"], strict=True):
                level, graphs = column["chance"], column["test_graphs"]
                if cell["mean"] is not None and level is not None and graphs is not None:
                    error = math.sqrt(level * (100 - level) / (graphs * cell["known"]))
                    points, guessed = points + 1, guessed + (abs(cell["mean"] - level) <= SURE * error)
    if not guessed:
        return ""
    if guessed == points:
        return f"{VERSIONS[THEIRS]} is at chance under this budget; nothing about sensitivity follows."
    return f"{guessed} of {points} points are at chance, within the 95 % interval of guessing on the test graphs."


def unrecorded(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a figure lacks, one entry per row: its title and the columns without a record."""
    found: dict[str, list[str]] = {}
    for made in tables:
        for row in made["rows"]:
            cells = zip(made["columns"], row["cells"], strict=True)
            name = "" if made["title"] == REFERENCE or len(tables) == 1 else f"{made['title'].partition(':')[0]}, "
            heads = [f"{name}{column['head']}" for column, cell in cells if not cell["seeds"]]
            found.setdefault(row["title"], []).extend(heads)
    return [f"{title} ({'; '.join(heads)})" for title, heads in found.items() if heads]


def title(made: Mapping[str, Any]) -> str:
    """Return the title of a table with its budget."""
    return f"{made['title']}, budget {made['budget']}"


def note(made: Mapping[str, Any]) -> str:
    """Return the size of the data, the epochs, the selection rule and the table's own note."""
    facts: dict[str, list[str]] = {}
    for column in made["columns"]:
        graphs, tested, epochs = column["train_graphs"], column["test_graphs"], column["epochs"]
        size = "an unknown number of" if graphs is None else f"{graphs:,}"
        kinds = "training" if tested is None else f"training and {tested:,} OOD test"
        length = "epochs differ between methods" if epochs is None else counted(epochs, "epoch")
        facts.setdefault(f"{size} {kinds} graphs, {length}", []).append(column["head"])
    of = "; ".join(fact if len(facts) == 1 else f"{', '.join(heads)}: {fact}" for fact, heads in facts.items())
    seeds = over_seeds(max(column["seeds"] for column in made["columns"]))
    rules = {column["selection"] for column in made["columns"]}
    rule = chosen_on(rules.pop()) if len(rules) == 1 else "the headings name the selection rule"
    parts = [f"{of[0].upper()}{of[1:]}.", f"{seeds[0].upper()}{seeds[1:]}; {rule}."]
    beside = any(cell["beside"] for row in made["rows"] for cell in row["cells"])
    if beside and made["budget"] != FULL:
        parts.append("The paper's numbers are for all graphs and all epochs.")
    return " ".join(part for part in (*parts, made["note"]) if part)


def contrasts(made: Mapping[str, Any]) -> list[str]:
    """Return a sentence per part of a method: what it changes in each column of the table."""
    lines = []
    for one in made["contrasts"]:
        clauses = [f"{change['head']}: {change_in_words(change)}" for change in one["changes"]]
        known = any(change["change"] for change in one["changes"])
        lines.append(f"{one['part']}. {'; '.join(clauses)}." if known else f"{one['part']}: not run.")
    return lines


def change_in_words(change: Mapping[str, Any]) -> str:
    """Return a paired difference in words; one whose interval includes zero adds nothing measurable."""
    if change["change"] is None:
        return "not run"
    gap, digits = SeedDifference(**change["change"]), METRICS[change["metric"]].digits
    number, seeds = f"{gap.mean:+.{digits}f}", counted(gap.pairs, "seed")
    if gap.low is None:
        return f"not measured, {number} with one seed has no interval"
    interval = f"[{gap.low:+.{digits}f}, {gap.high:+.{digits}f}]"
    what = "Precision@10" if change["metric"] == "precision_at_10" else "accuracy"
    if gap.measurable:
        return f"changes {what} by {number} {interval}, {seeds}"
    return f"adds nothing measurable here ({number} {interval}, {seeds})"


def missing(made: Mapping[str, Any]) -> list[str]:
    """Return the commands that train the missing runs of a table, each with its estimated time."""
    return [_gap_line(gap) for gap in made["gaps"]]


def rest(one: Mapping[str, Any]) -> list[str]:
    """Return the coverage of an artefact that needs more than records, and the command for all that is missing."""
    there = [f"There are {in_words(one['there'])}."] if one.get("there") else []
    return [*there, *([_gap_line(one["gap"])] if one["gap"] else [])]


def _gap_line(gap: Mapping[str, Any]) -> str:
    """Return a command and, as a comment, what it runs and how long that may take."""
    times = counted(gap["times"], "inference time") if gap.get("times") else ""
    runs = counted(gap["runs"], "run") if gap["runs"] or not times else ""
    what = " and ".join(part for part in (runs, times) if part)
    if gap["seconds"] is None:
        return f"{gap['command']}  # {what}, no estimate"
    more = f", no estimate for {gap['unknown']} of them" if gap["unknown"] else ""
    return f"{gap['command']}  # {what}, about {duration(gap['seconds'])} of one core{more}"


def text(one: Mapping[str, Any], width: int | None = None) -> str:
    """Return an artefact as text: its tables, and below each the commands for missing runs."""
    parts = []
    for made in one["tables"]:
        parts.append(table(made).text(width))
        parts += ["\n".join(contrasts(made))] if made["contrasts"] else []
        parts += ["\n".join(["Not run:", *missing(made)])] if made["gaps"] else []
    return "\n\n".join([*parts, *([one["remark"]] if one.get("remark") else []), *rest(one)])


def markdown(one: Mapping[str, Any]) -> str:
    """Return an artefact in Markdown: its tables, and below each the commands for missing runs."""
    wanted = one.get("there") or (len(one["tables"]) > 1 and one["gap"])
    everything = ["All of it:", _fenced(rest(one))] if wanted else []
    remark = [one["remark"]] if one.get("remark") else []
    return "\n\n".join([*(_markdown(made) for made in one["tables"]), *remark, *everything])


def _markdown(made: Mapping[str, Any]) -> str:
    lines, words = missing(made), "\n".join(f"- {line}" for line in contrasts(made))
    parts = [table(made).markdown(), words, *(["Not run:", _fenced(lines)] if lines else [])]
    return "\n\n".join(part for part in parts if part)


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def latex(one: Mapping[str, Any]) -> str:
    """Return an artefact in LaTeX: its tables, and after each, as comments, the commands for missing runs."""
    return "\n\n".join(
        "\n".join(
            [
                table(made).latex(),
                *(f"% {line}" for line in (*contrasts(made), *(f"not run: {one}" for one in missing(made)))),
            ]
        )
        for made in one["tables"]
    )


# ------------------------------------------------------------------------------------------ the page


def page(sources: Sequence[Path], images: Path) -> str:
    """Return all artefacts in Markdown, with the figures that exist in the folder of images.

    A figure is left out if one of its runs has no record that counts: it would show what its tables call not run.
    A table without any record is reduced to its commands if a later one has the same title.
    """
    plans = {name: one.plans() for name, one in ARTEFACTS.items()}
    found, sections = known_records([plan for some in plans.values() for plan in some], sources), []
    for name, one in ARTEFACTS.items():
        whole = report(one, plans[name], found)
        tables = whole["tables"]
        last = {made["title"]: made for made in tables}
        about = f"{one.place} of the paper: {one.about}." if one.place else f"Not in the paper: {one.about}."
        parts = [f"## {one.name}", about]
        if one.drawn and (lacking := unrecorded(tables)):
            parts.append(f"The picture is not shown: no run is recorded of {', '.join(lacking)}.")
        elif (images / f"{one.name}.png").is_file():
            parts.append(f"![{one.about}]({images.name}/{one.name}.png)")
        parts += [whole["remark"]] if whole["remark"] else []
        for made in tables:
            begun = any(cell["seeds"] for row in made["rows"] for cell in row["cells"])
            if begun or last[made["title"]] is made:
                parts.append(_markdown(made))
            else:
                rows = counted(len(made["rows"]), "row")
                parts.append(f"### {title(made)}\n\nNo run is recorded yet ({rows}).\n\n{_fenced(missing(made))}")
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


def write(sources: Sequence[Path] = (Path("results"),), target: Path = Path("docs/reproduce.md")) -> bool:
    """Write all artefacts between the markers of a page, or the short tables if the page has their markers."""
    text = target.read_text(encoding="utf-8") if target.is_file() else ""
    short = {
        "claims": verdict_page.in_short,
        "headline": headline.markdown,
        "molecules": lambda sources: headline.molecule_table(sources).markdown(),
        "real": lambda sources: headline.real_table(sources).markdown(),
    }
    found = [marker for marker in short if f"<!-- {marker}: begin -->" in text]
    if found:
        return any([insert(target, marker, short[marker](sources)) for marker in found])  # noqa: C419
    return insert(target, "artefacts", page(sources, target.parent / "images"))
