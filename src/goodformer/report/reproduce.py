"""The tables and figures of the paper, computed from records: ours beside the paper's, and what is still to be run.

A record counts only where its settings are those the run would be trained with now, and every block has one budget.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.config.run import RunConfig
from goodformer.data.readers.values import counted
from goodformer.engine import inference
from goodformer.engine.store import Run, export_results, merge_lines
from goodformer.executors import local as runner
from goodformer.registry import InputError
from goodformer.report import compare, headline
from goodformer.report.artefacts import ARTEFACTS, FIGURES, INFERENCE, Artefact, Block, Column, Figure
from goodformer.report.compare import Comparison
from goodformer.report.pace import Paces, duration
from goodformer.report.rows import ALL, PAPER, Row
from goodformer.report.sheets import ABSENT, NOT_RUN, RULES, Cell, Sheet, chance, over, ranked, unrepeated
from goodformer.report.tables import Record, insert, lines, moments, written

# ------------------------------------------------------------------------------------------ records


def known(blocks: Iterable[Block], sources: Sequence[Path], root: Path | None = None) -> dict[str, Record]:
    """All records of files or folders by the ids their settings have today, and those of run folders, which win."""
    found = compare.recorded(sources)
    if root is not None:
        runs = runner.finished(configs_of(blocks).values(), root)
        found |= {run.config.id: run.summary for run in runs if run.summary}
    told = (line for source in sources for _, line in lines(source) if line.get("kind") == INFERENCE)
    return timed(found, told)


def configs_of(blocks: Iterable[Block]) -> dict[str, RunConfig]:
    """All runs of some blocks by their ids."""
    return {one: config for block in blocks for one, config in block.configs.items()}


def timed(found: Mapping[str, Record], told: Iterable[Mapping[str, Any]]) -> dict[str, Record]:
    """The records with what is told of how long predicting takes."""
    more = {RunConfig.from_dict(line["config"]).id: line for line in told}
    return {**found, **{key: {**found.get(key, {}), INFERENCE: line} for key, line in more.items()}}


def trained(found: Mapping[str, Record], identity: str) -> bool:
    """Whether there is a record of a run, and not only of how fast it predicts."""
    return "config" in found.get(identity, {})


def train(
    blocks: Sequence[Block],
    found: Mapping[str, Record],
    root: Path,
    jobs: int = 2,
    threads: int = 1,
    watch: runner.Watch | None = None,
) -> dict[str, str]:
    """Train what has no record, first seeds first; one sentence for each run that failed, by its id."""
    absent = [config for one, config in configs_of(blocks).items() if not trained(found, one)]
    return runner.complete(sorted(absent, key=lambda config: config.seed), root, jobs, threads, watch)


def drawn(blocks: Sequence[Block], root: Path) -> dict[str, Run]:
    """The finished runs of a block's first column and seed, by the titles of their rows."""
    comparison = blocks[0].columns[0].comparison
    runs = {
        row.title: Run(root / comparison.configs[row.name, comparison.seeds[0]].folder_name) for row in comparison.rows
    }
    return {title: run for title, run in runs.items() if run.finished}


def measure(blocks: Iterable[Block], found: Mapping[str, Record], root: Path | None = None) -> list[dict[str, Any]]:
    """Records of how long predicting takes, for the columns that ask for it and have none."""
    wanted = [config for key, config in _timed_configs(blocks).items() if not _timed(found, key)]
    return [inference.measure(config, root) for config in wanted]


def _timed_configs(blocks: Iterable[Block]) -> dict[str, RunConfig]:
    """The runs that columns ask the time of predicting of, by their ids."""
    columns = [column for block in blocks for column in block.columns if column.figure == INFERENCE]
    return {config.id: config for column in columns for config in column.comparison.configs.values()}


def _timed(found: Mapping[str, Record], identity: str) -> bool:
    """Whether there is a record of how long a run's method needs to predict."""
    return INFERENCE in found.get(identity, {})


def export(blocks: Iterable[Block], root: Path, path: Path, measured: Sequence[dict[str, Any]] = ()) -> None:
    """Add the records of finished runs to a file, and those of how long predicting takes to one beside it."""
    if runs := runner.finished(configs_of(blocks).values(), root):
        export_results(runs, path)
    if measured:
        merge_lines(beside(path), measured, lambda line: str(line["id"]), _check)


def beside(path: Path) -> Path:
    """Where the records of how long predicting takes lie: results hold nothing but runs."""
    return path.with_name(f"{path.stem}-{INFERENCE}{path.suffix}")


def _check(path: Path, lines: Sequence[Any]) -> None:
    if not all(isinstance(line, dict) and line.get("kind") == INFERENCE for line in lines):
        raise InputError(f"{path} holds something else than records of inference; choose another file.")


# ------------------------------------------------------------------------------------------ reports


def report(
    one: Artefact,
    blocks: Sequence[Block],
    found: Mapping[str, Record],
    chosen: Sequence[str] = (),
    root: Path | None = None,
) -> dict[str, Any]:
    """An artefact as plain values: every cell, what stands beside it, and the commands that would fill the gaps.

    Args:
        one: The artefact.
        blocks: Its blocks, or some of them.
        found: Records by id.
        chosen: Options of the command that chose these blocks.
        root: Where run folders lie; those that an artefact needs and that are not there are a gap, too.
    """
    paces = Paces(found.values())
    configs = configs_of(blocks)
    folders = root if one.folders else None
    absent = [config for key, config in configs.items() if not (trained(found, key) and _kept(config, folders))]
    return {
        "artefact": one.name,
        "place": one.place,
        "about": one.about,
        "blocks": [_block(one, block, found, paces, chosen) for block in blocks],
        "there": {} if folders is None else coverage_of(one, blocks, found, folders),
        "gap": _whole_gap(one, blocks, found, _cost(absent, paces), chosen),
    }


def _whole_gap(
    one: Artefact, blocks: Sequence[Block], found: Mapping[str, Record], cost: Mapping[str, Any], chosen: Sequence[str]
) -> dict[str, Any] | None:
    """The command that would fill all gaps, and its cost; None where there is none."""
    if not cost["runs"]:
        return _untimed(one, blocks, found, chosen)
    times = sum(not _timed(found, key) for key in _timed_configs(blocks))
    return {"command": _reproduce(one, chosen, "--run"), **cost, "times": times}


def _kept(config: RunConfig, root: Path | None) -> bool:
    """Whether the folder of a finished run is there, where one is asked for."""
    return root is None or Run(root / config.folder_name).finished


def _block(
    one: Artefact, block: Block, found: Mapping[str, Record], paces: Paces, chosen: Sequence[str]
) -> dict[str, Any]:
    """One block of a report."""
    budget = block.columns[0].comparison.budget
    own = chosen if "--budget" in chosen else ("--budget", budget, *chosen)
    untimed = _untimed(one, [block], found, own)
    return {
        "title": block.title,
        "budget": budget,
        "note": block.note,
        "unit": block.unit,
        "columns": [_heading(column, found, paces) for column in block.columns],
        "rows": [
            {
                "row": row.name,
                "title": row.title,
                "group": row.group,
                "preset": row.preset,
                "cells": [_entry(column, row, found) for column in block.columns],
            }
            for row in block.rows
        ],
        "gaps": [*gaps(block, found, paces), *([untimed] if untimed else [])],
    }


def _untimed(
    one: Artefact, blocks: Sequence[Block], found: Mapping[str, Record], chosen: Sequence[str]
) -> dict[str, Any] | None:
    """The command that would measure how long predicting takes and keep it, where that is asked for and not known."""
    times = sum(not _timed(found, key) for key in _timed_configs(blocks))
    command = _reproduce(one, chosen, "--times-only", "--export", f"results/{one.name}.jsonl")
    return {"command": command, "runs": 0, "seconds": None, "unknown": 0, "times": times} if times else None


def _reproduce(one: Artefact, chosen: Sequence[str], *more: str) -> str:
    """The command line that shows an artefact, or what options chose of it, and does something more."""
    return shlex.join(["goodformer", "reproduce", one.name, *chosen, *more])


def _heading(column: Column, found: Mapping[str, Record], paces: Paces) -> dict[str, Any]:
    """What a column is of."""
    configs = list(column.comparison.configs.values())
    graphs = {found[config.id]["train_graphs"] for config in configs if trained(found, config.id)}
    epochs = {config.training.epochs for config in configs}
    return {
        "head": column.head,
        "figure": column.figure,
        "beside": column.beside,
        "dataset": configs[0].dataset,
        "train_graphs": graphs.pop() if len(graphs) == 1 else paces.graphs(configs[0].dataset),
        "epochs": epochs.pop() if len(epochs) == 1 else None,
        "seeds": len(column.comparison.seeds),
        "selection": column.figure if column.figure in RULES else configs[0].training.selection,
    }


def _entry(column: Column, row: Row, found: Mapping[str, Record]) -> dict[str, Any]:
    """What is known of a row in a column: ``seeds`` of the runs it has (``of``) are done, ``told`` have the figure."""
    comparison, figure = column.comparison, FIGURES[column.figure]
    configs = [comparison.configs[row.name, seed] for seed in comparison.seeds if row in comparison.rows]
    done = [found[config.id] for config in configs if config.id in found]
    values = [figure.value(record) for record in done if column.figure == INFERENCE or "config" in record]
    settings = next(iter(comparison.configs.values())).dataset
    beside = figure.published(settings, row.published) if column.beside else None
    told = sum(value is not None for value in values)
    return {
        "seeds": told if column.figure == INFERENCE else len(values),
        "told": told,
        "of": len(configs),
        **_moments(values),
        "beside": None if beside is None else _moments(beside, given=True),
    }


def _moments(values: Sequence[float | None], given: bool = False) -> dict[str, float | None]:
    """Mean and deviation, measured or given as such."""
    found = values if given else moments(values) or ()
    mean, std = (*found, None, None)[:2]
    return {"mean": mean, "std": std}


def gaps(block: Block, found: Mapping[str, Record], paces: Paces) -> Iterator[dict[str, Any]]:
    """For each comparison that is not complete the command that would run the rest, and how long it may take."""
    told = [column.comparison for column in block.columns if column.figure != INFERENCE]
    for comparison in {tuple(config.id for config in one.configs.values()): one for one in told}.values():
        missing = {key: config for key, config in comparison.configs.items() if not trained(found, config.id)}
        if missing:
            names = [row.name for row in comparison.rows if any(key[0] == row.name for key in missing)]
            yield {"command": _command(comparison, names), **_cost(missing.values(), paces)}


def _cost(configs: Iterable[RunConfig], paces: Paces) -> dict[str, Any]:
    """Number of runs, their processor seconds as far as known, and how many nothing is known of."""
    seconds = [paces.seconds(config) for config in configs]
    told = [one for one in seconds if one is not None]
    return {"runs": len(seconds), "seconds": sum(told) if told else None, "unknown": len(seconds) - len(told)}


def _command(comparison: Comparison, names: Sequence[str]) -> str:
    """The command line that trains some rows of a comparison."""
    everything = [row.name for row in PAPER]
    rows = [ALL, *(name for name in names if name not in everything)] if set(everything) <= set(names) else names
    given = {key: value for key, value in comparison.dataset.items() if key != "name"}
    plain = [word for key in ("domain", "shift") if key in given for word in (f"--{key}", str(given.pop(key)))]
    settings = [f"dataset.{key}={value}" for key, value in given.items()] + list(comparison.overrides)
    words = ["goodformer", "compare", "--dataset", comparison.dataset["name"], *plain, "--methods", ",".join(rows)]
    words += ["--seeds", str(len(comparison.seeds)), "--budget", comparison.budget, "--records", "results"]
    return shlex.join([*words, *(word for line in settings for word in ("--set", line))])


def coverage(
    one: Artefact, found: Mapping[str, Record], seeds: int | None = None, root: Path | None = None
) -> dict[str, dict[str, tuple[int, int]]]:
    """How much of an artefact is there, by budget."""
    return {budget: coverage_of(one, one.blocks(budget, seeds), found, root) for budget in one.budgets}


def coverage_of(
    one: Artefact, blocks: Sequence[Block], found: Mapping[str, Record], root: Path | None = None
) -> dict[str, tuple[int, int]]:
    """What is there and what is wanted: records of runs, and where it takes these, times of predicting, run folders."""
    configs = configs_of(blocks)
    told = {"runs": (sum(trained(found, key) for key in configs), len(configs))}
    if times := _timed_configs(blocks):
        told["inference times"] = (sum(_timed(found, key) for key in times), len(times))
    if one.folders and root is not None:
        told["run folders"] = (sum(_kept(config, root) for config in configs.values()), len(configs))
    return told


def in_words(told: Mapping[str, Sequence[int]]) -> str:
    """How much is there, in a few words."""
    return " and ".join(f"{done} of {wanted} {what}" for what, (done, wanted) in told.items())


# ------------------------------------------------------------------------------------------ tables


def sheet(block: Mapping[str, Any]) -> Sheet:
    """A block of a report as a table."""
    heads, columns = [""], [[Cell(row["title"]) for row in block["rows"]]]
    unit = next((place for place, row in enumerate(block["rows"]) if row["row"] == block["unit"]), None)
    for place, column in enumerate(block["columns"]):
        entries = [row["cells"][place] for row in block["rows"]]
        beside = [entry["beside"] for entry in entries]
        figure = FIGURES[column["figure"]]
        heads.append(column["head"])
        level = chance(column["dataset"]["name"], column["figure"])
        columns.append(_cells(entries, figure, unit, level, [_missing(entry) for entry in entries]))
        if any(beside):
            heads.append(column["beside"])
            quoted = _cells([entry or {"mean": None, "std": None} for entry in beside], figure, unit, level)
            columns.append(unrepeated(quoted, [row["preset"] for row in block["rows"]]))
    groups = [str(row["group"]) for row in block["rows"]]
    return Sheet(_title(block), heads, [list(row) for row in zip(*columns, strict=True)], groups, note(block))


def _title(block: Mapping[str, Any]) -> str:
    return f"{block['title']}, budget {block['budget']}"


def _cells(
    entries: Sequence[Mapping[str, Any]],
    figure: Figure,
    unit: int | None,
    level: float | None,
    missing: Sequence[str] | None = None,
) -> list[Cell]:
    """The cells of a column, the best ones marked."""
    base = entries[unit]["mean"] if unit is not None and not figure.ranked else None
    words = missing or [ABSENT] * len(entries)
    cells = [_cell(entry, figure.digits, base, word) for entry, word in zip(entries, words, strict=True)]
    return ranked(cells, level) if figure.ranked else cells


def _cell(entry: Mapping[str, Any], digits: int, base: float | None, missing: str) -> Cell:
    if entry["mean"] is None:
        return Cell(missing)
    remarks = [f"({written(entry['mean'] / base, 1)} x)"] if base else []
    whole = not entry.get("of") or entry["told"] == entry["of"]
    if not whole:
        remarks.append(f"({entry['told']} of {counted(entry['of'], 'seed')})")
    deviation = "" if entry["std"] is None else written(entry["std"], digits)
    return Cell(written(entry["mean"], digits), deviation, value=entry["mean"], remark=" ".join(remarks), whole=whole)


def _missing(entry: Mapping[str, Any]) -> str:
    """What stands where there is no figure: nothing was to be run, nothing has been, or nothing was told."""
    return NOT_RUN if entry["of"] and not entry["seeds"] else ABSENT


def note(block: Mapping[str, Any]) -> str:
    """What the columns are of, how the epoch was chosen, and what else has to be said."""
    facts: dict[str, list[str]] = {}
    for column in block["columns"]:
        facts.setdefault(_facts(column), []).append(column["head"])
    of = "; ".join(fact if len(facts) == 1 else f"{', '.join(heads)}: {fact}" for fact, heads in facts.items())
    seeds = max(column["seeds"] for column in block["columns"])
    rules = {RULES[column["selection"]] for column in block["columns"]}
    rule = rules.pop() if len(rules) == 1 else "as each column says"
    parts = [f"{_capital(of)}.", f"{_capital(over(seeds))}; epoch chosen {rule}."]
    return " ".join(part for part in (*parts, block["note"]) if part)


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _facts(column: Mapping[str, Any]) -> str:
    graphs, epochs = column["train_graphs"], column["epochs"]
    size = "an unknown number of" if graphs is None else f"{graphs:,}"
    return f"{size} training graphs, {'epochs as each method has them' if epochs is None else counted(epochs, 'epoch')}"


def missing(block: Mapping[str, Any]) -> list[str]:
    """The commands that would run what a block lacks, each with its time."""
    return [_line(gap) for gap in block["gaps"]]


def rest(one: Mapping[str, Any]) -> list[str]:
    """What is there of an artefact that takes more than records, and the command that would run all that it lacks."""
    there = [f"There are {in_words(one['there'])}."] if one.get("there") else []
    return [*there, *([_line(one["gap"])] if one["gap"] else [])]


def _line(gap: Mapping[str, Any]) -> str:
    """A command and how long it may take."""
    times = counted(gap["times"], "inference time") if gap.get("times") else ""
    runs = counted(gap["runs"], "run") if gap["runs"] or not times else ""
    what = " and ".join(part for part in (runs, times) if part)
    if gap["seconds"] is None:
        return f"{gap['command']}  # {what}, no estimate"
    more = f", no estimate for {gap['unknown']} of them" if gap["unknown"] else ""
    return f"{gap['command']}  # {what}, about {duration(gap['seconds'])} of one core{more}"


def markdown(one: Mapping[str, Any]) -> str:
    """An artefact in Markdown: its tables, and under each what is not run."""
    wanted = one.get("there") or (len(one["blocks"]) > 1 and one["gap"])
    everything = ["All of it:", _fenced(rest(one))] if wanted else []
    return "\n\n".join([*(_markdown(block) for block in one["blocks"]), *everything])


def _markdown(block: Mapping[str, Any]) -> str:
    lines = missing(block)
    return "\n\n".join([sheet(block).markdown(), *(["Not run:", _fenced(lines)] if lines else [])])


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def latex(one: Mapping[str, Any]) -> str:
    """An artefact in LaTeX: its tables, and after each, as comments, what is not run."""
    parts = []
    for block in one["blocks"]:
        parts.append("\n".join([sheet(block).latex(), *(f"% not run: {line}" for line in missing(block))]))
    return "\n\n".join(parts)


# ------------------------------------------------------------------------------------------ the page

HEADLINE = "headline"
"""Marker of the short table."""


def page(sources: Sequence[Path], images: Path) -> str:
    """All artefacts in Markdown, from records alone, with their pictures where these are drawn."""
    found = known([], sources)
    return "\n\n".join(_section(one, report(one, one.blocks(), found), images) for one in ARTEFACTS.values())


def _section(one: Artefact, made: Mapping[str, Any], images: Path) -> str:
    """An artefact on the page; of a block without any record that a later one shows, too, only what would run it."""
    picture = [f"![{one.about}]({images.name}/{one.name}.png)"] if (images / f"{one.name}.png").is_file() else []
    last = {block["title"]: block for block in made["blocks"]}
    blocks = [
        _markdown(block) if _begun(block) or last[block["title"]] is block else _unbegun(block)
        for block in made["blocks"]
    ]
    return "\n\n".join([f"## {one.name}", f"{one.place} of the paper: {one.about}.", *picture, *blocks])


def _begun(block: Mapping[str, Any]) -> bool:
    """Whether there is any record of a block."""
    return any(cell["seeds"] for row in block["rows"] for cell in row["cells"])


def _unbegun(block: Mapping[str, Any]) -> str:
    rows = counted(len(block["rows"]), "row")
    return f"### {_title(block)}\n\nNothing of it is recorded yet ({rows}).\n\n{_fenced(missing(block))}"


def write(sources: Sequence[Path] = (Path("results"),), target: Path = Path("docs/reproduce.md")) -> bool:
    """Put all artefacts, or the short table of a page that asks for it, between the page's markers; True if changed."""
    if target.is_file() and f"<!-- {HEADLINE}: begin -->" in target.read_text(encoding="utf-8"):
        return insert(target, HEADLINE, headline.table(sources))
    return insert(target, "artefacts", page(sources, target.parent / "images"))
