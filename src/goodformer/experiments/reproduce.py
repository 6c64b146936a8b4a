"""The tables and figures of the paper, computed from records: ours beside the paper's, and what is still to be run.

An artefact is a declaration: blocks of columns, each column one figure of one comparison. A record counts only where
its settings are those the run would be trained with now, and every block has one budget.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.engine import Run, RunConfig
from goodformer.experiments import compare, paper, runner
from goodformer.experiments.compare import Comparison
from goodformer.experiments.competitors import ALL, PAPER, Competitor, competitors
from goodformer.experiments.pace import Paces, duration
from goodformer.experiments.sheets import ABSENT, NOT_RUN, RULES, Cell, Sheet, count, ranked
from goodformer.experiments.tables import Record, insert, moments, written
from goodformer.registry import InputError, unknown

FULL, REDUCED = "full", compare.BUDGET
INFERENCE = "inference"
"""Kind of the records that tell how long predicting takes."""
TRAINED, PREDICTED = 18_000, 3_000
"""Graphs that seconds are told for: the training and the test graphs of GOOD-Motif."""


# ------------------------------------------------------------------------------------------ figures of a record


@dataclass(frozen=True)
class Figure:
    """Something that records tell and that may stand in a column.

    Args:
        value: What a record tells of it, None where nothing.
        published: What is published for a data set (all its settings) and a row: mean and deviation, or a mean.
        digits: Behind the point.
        ranked: Whether the best ones are marked.
    """

    value: Callable[[Record], float | None]
    published: Callable[[Mapping[str, Any], str], Sequence[float] | None] = lambda _, __: None
    digits: int = 2
    ranked: bool = True


def _percent(*path: str) -> Callable[[Record], float | None]:
    """A share somewhere in a record, in %."""

    def value(record: Record) -> float | None:
        found: Any = record
        for name in path:
            found = (found or {}).get(name)
        return None if found is None else 100 * found

    return value


def _training(record: Record) -> float | None:
    """Processor seconds of an epoch, for as many graphs as the full data have."""
    seconds, graphs = record.get("processor_seconds_per_epoch"), record.get("train_graphs")
    return seconds / graphs * TRAINED if seconds and graphs else None


def _inference(record: Record) -> float | None:
    """Processor seconds of predicting as many graphs as the full data have for test."""
    told = record.get(INFERENCE)
    return told["processor_seconds"] / told["graphs"] * PREDICTED if told else None


def _seconds(what: str, dataset: Mapping[str, Any], row: str) -> Sequence[float] | None:
    found = paper.seconds(dataset, row, what)
    return None if found is None else (found,)


FIGURES = {
    "ood_test": Figure(_percent("ood_test"), partial(paper.published, "ood_test")),
    "concept": Figure(_percent("ood_test"), paper.leaderboard),
    "id_val": Figure(_percent("by_rule", "id_val", "ood_test")),
    "last": Figure(_percent("by_rule", "last", "ood_test")),
    "precision_at_10": Figure(
        lambda record: record.get("precision_at_10"), partial(paper.published, "precision_at_10"), digits=3
    ),
    "edge_auc": Figure(lambda record: record.get("edge_auc"), digits=3),
    "training": Figure(_training, partial(_seconds, "training"), digits=1, ranked=False),
    INFERENCE: Figure(_inference, partial(_seconds, INFERENCE), digits=1, ranked=False),
}


# ------------------------------------------------------------------------------------------ declarations


@dataclass(frozen=True)
class Column:
    """One figure of the rows of one comparison; ``beside`` says whose figures stand beside ours, if any."""

    head: str
    comparison: Comparison
    figure: str = "ood_test"
    beside: str = "paper"


@dataclass(frozen=True)
class Block:
    """A table of one budget.

    Args:
        title: What it shows.
        columns: Its columns.
        note: What has to be said of it.
        quoted: Rows that are published only and never run here.
        unit: The row whose figure is the unit of the others, told behind each figure.
    """

    title: str
    columns: tuple[Column, ...]
    note: str = ""
    quoted: tuple[Competitor, ...] = ()
    unit: str = ""

    @property
    def rows(self) -> list[Competitor]:
        """All rows of its columns."""
        run = [row for column in self.columns for row in column.comparison.rows]
        return list({row.name: row for row in (*self.quoted, *run)}.values())

    @property
    def configs(self) -> dict[str, RunConfig]:
        """All runs it is made of by their ids, seed by seed."""
        runs = [config for column in self.columns for config in column.comparison.configs.values()]
        return {config.id: config for config in sorted(runs, key=lambda config: config.seed)}


@dataclass(frozen=True)
class Artefact:
    """A table or a figure of the paper.

    Args:
        name: What a user types.
        place: Where it stands in the paper.
        about: What it shows.
        make: Its blocks under a budget, with a number of seeds.
        budgets: Budgets it is shown under.
        seeds: Seeds each row has.
        drawn: Whether it is a picture.
    """

    name: str
    place: str
    about: str
    make: Callable[[str, int], list[Block]]
    budgets: tuple[str, ...] = (FULL, REDUCED)
    seeds: int = 3
    drawn: bool = False

    def blocks(self, budget: str | None = None, seeds: int | None = None) -> list[Block]:
        """What it is made of, under all its budgets or under one."""
        budgets = self.budgets if budget is None else (budget,)
        return [block for one in budgets for block in self.make(one, seeds or self.seeds)]


BASIS, SIZE = ({"name": "good-motif", "domain": domain} for domain in ("basis", "size"))
MOTIF = {"Motif basis": BASIS, "Motif size": SIZE}
HIV = {f"HIV {domain}": {"name": "good-hiv", "domain": domain} for domain in ("scaffold", "size")}
THEIRS = {
    "SST2": {"name": "good-sst2", "vectors": "bert"},
    "Twitter": {"name": "good-twitter", "vectors": "bert"},
    "DrugOOD": {"name": "drugood", "domain": "assay", "measurement": "ic50"},
}
OTHERS = {
    "SST2, spaCy vectors": {"name": "good-sst2"},
    "Twitter, spaCy vectors": {"name": "good-twitter"},
    "DrugOOD EC50": {"name": "drugood", "domain": "assay", "measurement": "ec50"},
}
"""Data that are to be had where the paper's are not; its figures do not stand beside them."""
EPOCHS = {"good-hiv": 3, "good-sst2": 3, "good-twitter": 8, "drugood": 8}
"""Epochs of a reduced budget on data whose graphs it does not cut."""

PRESETS = "goodformer:paper,goodformer:as_published"
CHANGES = "goodformer:without-entropy,goodformer:gil-generator,goodformer:without-encoder,goodformer:laplacian-input"
TAKEN = (
    *(
        "without-walks",
        "without-adversary",
        "without-budget",
        "trunk-values",
        "without-node-weights",
        "sum-aggregation",
    ),
    *("without-average", "without-temperature", "without-interventions", "without-encoder", "mlp-predictor"),
)
"""What the default loses, preset by preset, in the table of its ablation."""
SENSITIVITY = {
    "lambda": ("variance_weight", (0.1, 1.0, 10.0, 100.0)),
    "alpha_E": ("entropy_weight", (0.01, 0.1, 1.0, 10.0)),
    "alpha_PSE": ("encoder_weight", (0.01, 0.1, 1.0, 10.0)),
}
"""The weights of the paper's figure, the settings they are here, and the values tried."""
COMMON = "GOODFormer (paper) and (as_published) are the presets of that name, GOODFormer is the default."
SAME = (
    "Rows called alike have the node inputs, the aggregation of messages and the averaging of weights that GOODFormer "
    "has by default; what is left is the method."
)


@cache
def _comparison(dataset: str, rows: str, seeds: int, budget: str, overrides: tuple[str, ...]) -> Comparison:
    settings = json.loads(dataset)
    return Comparison(settings, tuple(competitors(rows, settings["name"])), tuple(range(seeds)), budget, overrides)


def compared(
    dataset: Mapping[str, Any], rows: str, budget: str, seeds: int, overrides: tuple[str, ...] = ()
) -> Comparison:
    """A comparison; under a reduced budget, data that it does not cut have fewer epochs than others have."""
    epochs = EPOCHS.get(dataset["name"]) if budget == REDUCED else None
    more = () if epochs is None else (f"training.epochs={epochs}",)
    return _comparison(json.dumps(dataset), rows, seeds, budget, (*more, *overrides))


def _columns(data: Mapping[str, Any], rows: str, budget: str, seeds: int, **more: Any) -> tuple[Column, ...]:
    """A column for each data set."""
    return tuple(Column(head, compared(dataset, rows, budget, seeds), **more) for head, dataset in data.items())


def _main(budget: str, seeds: int) -> list[Block]:
    data = {**MOTIF, **HIV, **(THEIRS if budget == FULL else OTHERS)}
    columns = _columns(data, f"{ALL},{PRESETS}", budget, seeds)
    own = "erm on goodformer alike"
    alike = f"erm alike,gsat alike,ciga alike,imold alike,gps alike,{own},goodformer"
    if budget != FULL:
        same = Block("Same inputs", _columns(MOTIF, alike, budget, seeds, beside=""), SAME)
        return [Block("Main table", columns, COMMON), same]
    shifted = {f"{head}, concept": {**dataset, "shift": "concept"} for head, dataset in MOTIF.items()}
    concept = _columns(shifted, f"{own},goodformer", budget, seeds, figure="concept", beside="GOOD")
    quoted = tuple(competitors("erm,irm,vrex,dir,gsat,ciga", "good-motif"))
    note = (
        "The paper has no concept shift; GOOD: that benchmark's leaderboard (github.com/divelab/GOOD), ten runs on GIN."
    )
    return [
        Block("Main table", columns, COMMON),
        Block("Same inputs", _columns(MOTIF, f"{own},goodformer", budget, seeds, beside=""), SAME),
        Block("Same inputs, concept shift", concept, f"{note} {SAME}", quoted),
        Block("Other rules of choosing the epoch", _rules(f"{own},{PRESETS},goodformer", seeds), RULE_NOTE),
    ]


RULE_NOTE = (
    "The same runs: the epoch that is best on shifted validation graphs (ood_val), on validation graphs like those of "
    "training (id_val), or simply the last."
)


def _rules(rows: str, seeds: int) -> tuple[Column, ...]:
    """OOD test under every rule of choosing the epoch."""
    names = {"ood_val": "ood_test", "id_val": "id_val", "last": "last"}
    return tuple(
        Column(f"{head}, {rule}", compared(dataset, rows, FULL, seeds), figure, beside="")
        for head, dataset in MOTIF.items()
        for rule, figure in names.items()
    )


def _precision(budget: str, seeds: int) -> list[Block]:
    rows = f"dir,grea,gil,gsat,ciga,imold,cal-plus,goodformer,{PRESETS}"
    columns = tuple(
        Column(f"{head} {label}", compared(dataset, rows, budget, seeds), figure)
        for head, dataset in MOTIF.items()
        for label, figure in (("Precision@10", "precision_at_10"), ("edge AUC", "edge_auc"))
    )
    return [
        Block(
            "Finding the invariant subgraph", columns, "On OOD test graphs, at the epoch and weights of the accuracy."
        )
    ]


def _ablation(budget: str, seeds: int) -> list[Block]:
    rows = f"goodformer:paper,{CHANGES},goodformer:signnet-input"
    theirs = Block("Ablation of the paper's GOODFormer", _columns({**MOTIF, **HIV}, rows, budget, seeds))
    if budget == FULL:
        return [theirs]
    changes = ",".join(f"goodformer:default-{part}" for part in TAKEN)
    columns = tuple(
        Column(f"{head}{label}", compared(dataset, f"goodformer,{changes}", budget, seeds), figure, beside="")
        for head, dataset in MOTIF.items()
        for label, figure in (("", "ood_test"), (", Precision@10", "precision_at_10"))
    )
    return [theirs, Block("Ablation of the default", columns, "Each row takes one thing from the default.")]


def _predictor(budget: str, seeds: int) -> list[Block]:
    rows = "goodformer:paper,goodformer:mlp-predictor"
    return [Block("Graph transformer or MLP as predictor", _columns({**MOTIF, **HIV}, rows, budget, seeds))]


def _shift_level(budget: str, seeds: int) -> list[Block]:
    data = {f"SP-Motif b={bias}": {"name": "sp-motif", "bias": bias} for bias in (0.5, 0.7, 0.9)}
    rows = f"gps,exphormer,erm on goodformer alike,goodformer,{PRESETS}"
    return [Block("Levels of shift", _columns(data, rows, budget, seeds), f"{COMMON} {SAME}")]


def _runtime(budget: str, seeds: int) -> list[Block]:
    rows = f"graphormer,gps,exphormer,goodformer,{PRESETS}"
    whole, once = compared(BASIS, rows, budget, seeds), compared(BASIS, rows, budget, 1)
    columns = (
        Column("training, s", whole, "training"),
        Column("inference, s", once, INFERENCE),
        Column("OOD test", whole),
    )
    note = (
        f"Processor seconds on one core for {TRAINED:,} training graphs and for {PREDICTED:,} graphs predicted, scaled "
        "from what was measured; in brackets how many times those of GraphGPS. Paper: seconds an epoch on one V100; it "
        "does not say which graphs its inference is of."
    )
    return [Block("Time on Motif basis", columns, note, unit="gps")]


def _sensitivity(budget: str, seeds: int) -> list[Block]:
    blocks = [
        Block(f"{domain}: {weight}", tuple(_tried(weight, dataset, budget, seeds)))
        for domain, dataset in MOTIF.items()
        for weight in SENSITIVITY
    ]
    return [*blocks, Block("For reference", _columns(MOTIF, "ciga,exphormer", budget, seeds, beside=""))]


def _tried(weight: str, dataset: Mapping[str, Any], budget: str, seeds: int) -> Iterator[Column]:
    """A column for each value of a weight, everything else as the preset has it."""
    setting, values = SENSITIVITY[weight]
    for value in values:
        change = (f"method.{setting}={value:g}",)
        comparison = compared(dataset, "goodformer,goodformer:paper", budget, seeds, change)
        yield Column(f"{weight} = {value:g}", comparison, beside="")


def _subgraphs(budget: str, seeds: int) -> list[Block]:
    columns = _columns({"Precision@10": BASIS}, "dir,gsat,ciga,goodformer", budget, seeds, figure="precision_at_10")
    return [Block("Runs that are drawn", columns, "The picture needs their run folders: records have no weights.")]


ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact("table-main", "Table 3", "all methods on all benchmarks, OOD test", _main),
        Artefact("table-precision", "Table 4", "Precision@10 and edge AUC of the found subgraphs", _precision),
        Artefact(
            "figure-subgraphs", "Figure 2", "found subgraphs beside the true ones", _subgraphs, (REDUCED,), 1, True
        ),
        Artefact("table-ablation", "Table 5", "GOODFormer with parts replaced or taken away", _ablation),
        Artefact(
            "figure-sensitivity",
            "Figures 3 and 4",
            "OOD test over the weights of the loss",
            _sensitivity,
            (REDUCED,),
            1,
            True,
        ),
        Artefact("table-runtime", "Table 8", "training and inference time of graph transformers", _runtime),
        Artefact("table-shift-level", "Table 7", "SP-Motif at three levels of shift", _shift_level),
        Artefact("table-predictor", "Table 9", "graph transformer against MLP as predictor", _predictor),
    )
}


def artefact(name: str) -> Artefact:
    """The artefact of a name."""
    if name not in ARTEFACTS:
        raise unknown("artefact", name, ARTEFACTS)
    return ARTEFACTS[name]


def narrowed(blocks: Sequence[Block], datasets: str | None = None, methods: str | None = None) -> list[Block]:
    """The blocks with the columns of some data sets and some rows only.

    Args:
        blocks: Blocks of an artefact.
        datasets: Names of data sets, separated by commas.
        methods: Rows as in `goodformer.experiments.competitors.competitors`.
    """
    kept = [replace(block, columns=tuple(_narrowed(block.columns, datasets, methods))) for block in blocks]
    found = [block for block in kept if block.columns]
    if not found:
        raise InputError("nothing of this artefact is left; name data sets and rows that it has.")
    return found


def _narrowed(columns: Iterable[Column], datasets: str | None, methods: str | None) -> Iterator[Column]:
    for column in columns:
        comparison = column.comparison
        name = comparison.dataset["name"]
        if datasets is not None and name not in [word.strip() for word in datasets.split(",")]:
            continue
        wanted = None if methods is None else {row.name for row in competitors(methods, name)}
        rows = tuple(row for row in comparison.rows if wanted is None or row.name in wanted)
        if rows:
            yield column if rows == comparison.rows else replace(column, comparison=replace(comparison, rows=rows))


# ------------------------------------------------------------------------------------------ records


def known(blocks: Iterable[Block], sources: Sequence[Path], root: Path | None = None) -> dict[str, Record]:
    """All records of files or folders by the ids their settings have today, and those of run folders, which win."""
    found = compare.recorded(sources)
    if root is not None:
        found |= {run.config.id: run.summary for run in finished(blocks, root) if run.summary}
    for line in (line for source in sources for line in _lines(source) if line.get("kind") == INFERENCE):
        identity = RunConfig.from_dict(line["config"]).id
        found[identity] = {**found.get(identity, {}), INFERENCE: line}
    return found


def _lines(source: Path) -> Iterator[Mapping[str, Any]]:
    for path in [source] if source.is_file() else sorted(source.glob("*.jsonl")):
        yield from files.read_lines(path)


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
    configs = {one: config for block in blocks for one, config in block.configs.items() if not trained(found, one)}
    return runner.complete(sorted(configs.values(), key=lambda config: config.seed), root, jobs, threads, watch)


def finished(blocks: Iterable[Block], root: Path) -> list[Run]:
    """The finished runs of some blocks in a folder."""
    configs = {one: config for block in blocks for one, config in block.configs.items()}
    runs = [Run(root / config.folder_name) for config in configs.values()]
    return [run for run in runs if run.finished]


# ------------------------------------------------------------------------------------------ reports


def report(
    one: Artefact, blocks: Sequence[Block], found: Mapping[str, Record], chosen: Sequence[str] = ()
) -> dict[str, Any]:
    """An artefact as plain values: every cell, what stands beside it, and the commands that would fill the gaps.

    Args:
        one: The artefact.
        blocks: Its blocks, or some of them.
        found: Records by id.
        chosen: Options of the command that chose these blocks.
    """
    paces = Paces(found.values())
    absent = {key: config for block in blocks for key, config in block.configs.items() if not trained(found, key)}
    command = shlex.join(["goodformer", "reproduce", one.name, *chosen, "--run"])
    return {
        "artefact": one.name,
        "place": one.place,
        "about": one.about,
        "blocks": [_block(block, found, paces) for block in blocks],
        "gap": {"command": command, **_cost(absent.values(), paces)} if absent else None,
    }


def _block(block: Block, found: Mapping[str, Record], paces: Paces) -> dict[str, Any]:
    """One block of a report."""
    return {
        "title": block.title,
        "budget": block.columns[0].comparison.budget,
        "note": block.note,
        "unit": block.unit,
        "columns": [_heading(column, found, paces) for column in block.columns],
        "rows": [
            {
                "row": row.name,
                "title": row.title,
                "group": row.group,
                "cells": [_entry(column, row, found) for column in block.columns],
            }
            for row in block.rows
        ],
        "gaps": list(gaps(block, found, paces)),
    }


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
        "selection": configs[0].training.selection,
    }


def _entry(column: Column, row: Competitor, found: Mapping[str, Record]) -> dict[str, Any]:
    """What is known of a row in a column; ``seeds`` None where it is quoted only."""
    comparison, figure = column.comparison, FIGURES[column.figure]
    configs = [comparison.configs[row.name, seed] for seed in comparison.seeds if row in comparison.rows]
    done = [found[config.id] for config in configs if config.id in found]
    values = [figure.value(record) for record in done if column.figure == INFERENCE or "config" in record]
    settings = next(iter(comparison.configs.values())).dataset
    beside = figure.published(settings, row.published) if column.beside else None
    return {
        "seeds": sum(value is not None for value in values) if column.figure == INFERENCE else len(values),
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
    for comparison in {id(one): one for one in told}.values():
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
    words += ["--seeds", str(len(comparison.seeds)), "--budget", comparison.budget]
    return shlex.join([*words, *(word for line in settings for word in ("--set", line))])


def coverage(one: Artefact, found: Mapping[str, Record], seeds: int | None = None) -> dict[str, tuple[int, int]]:
    """Runs with a record and all runs, by budget."""
    told = {}
    for budget in one.budgets:
        wanted = {identity for block in one.blocks(budget, seeds) for identity in block.configs}
        told[budget] = (sum(trained(found, identity) for identity in wanted), len(wanted))
    return told


# ------------------------------------------------------------------------------------------ tables


def sheet(block: Mapping[str, Any]) -> Sheet:
    """A block of a report as a table."""
    heads, columns = [""], [[Cell(row["title"]) for row in block["rows"]]]
    unit = [row["row"] for row in block["rows"]].index(block["unit"]) if block["unit"] else None
    for place, column in enumerate(block["columns"]):
        entries = [row["cells"][place] for row in block["rows"]]
        beside = [entry["beside"] for entry in entries]
        figure = FIGURES[column["figure"]]
        heads.append(column["head"])
        columns.append(_cells(entries, figure, unit, [_missing(entry) for entry in entries]))
        if any(beside):
            heads.append(column["beside"])
            columns.append(_cells([entry or {"mean": None, "std": None} for entry in beside], figure, unit))
    groups = [str(row["group"]) for row in block["rows"]]
    title = f"{block['title']}, budget {block['budget']}"
    return Sheet(title, heads, [list(row) for row in zip(*columns, strict=True)], groups, note(block))


def _cells(
    entries: Sequence[Mapping[str, Any]], figure: Figure, unit: int | None, missing: Sequence[str] | None = None
) -> list[Cell]:
    """The cells of a column, the best ones marked."""
    base = entries[unit]["mean"] if unit is not None and not figure.ranked else None
    words = missing or [ABSENT] * len(entries)
    cells = [_cell(entry, figure.digits, base, word) for entry, word in zip(entries, words, strict=True)]
    return ranked(cells) if figure.ranked else cells


def _cell(entry: Mapping[str, Any], digits: int, base: float | None, missing: str) -> Cell:
    if entry["mean"] is None:
        return Cell(missing)
    remarks = [f"({written(entry['mean'] / base, 1)} x)"] if base else []
    if entry.get("of") and entry["seeds"] < entry["of"]:
        remarks.append(f"({entry['seeds']} of {count(entry['of'], 'seed')})")
    deviation = "" if entry["std"] is None else written(entry["std"], digits)
    return Cell(written(entry["mean"], digits), deviation, value=entry["mean"], remark=" ".join(remarks))


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
    rule = RULES[block["columns"][0]["selection"]]
    parts = [
        f"{of[0].upper()}{of[1:]}.",
        f"Mean ± standard deviation over {count(seeds, 'seed')}; epoch chosen {rule}.",
    ]
    return " ".join(part for part in (*parts, block["note"]) if part)


def _facts(column: Mapping[str, Any]) -> str:
    graphs, epochs = column["train_graphs"], column["epochs"]
    size = "an unknown number of" if graphs is None else f"{graphs:,}"
    return f"{size} training graphs, {'epochs as each method has them' if epochs is None else count(epochs, 'epoch')}"


def missing(block: Mapping[str, Any]) -> list[str]:
    """The commands that would run what a block lacks, each with its time."""
    return [_line(gap) for gap in block["gaps"]]


def rest(one: Mapping[str, Any]) -> list[str]:
    """The command that would run all that an artefact lacks, with its time."""
    return [_line(one["gap"])] if one["gap"] else []


def _line(gap: Mapping[str, Any]) -> str:
    """A command and how long it may take."""
    runs = count(gap["runs"], "run")
    if gap["seconds"] is None:
        return f"{gap['command']}  # {runs}, no estimate"
    more = f", no estimate for {gap['unknown']} of them" if gap["unknown"] else ""
    return f"{gap['command']}  # {runs}, about {duration(gap['seconds'])} of one core{more}"


def markdown(one: Mapping[str, Any]) -> str:
    """An artefact in Markdown: its tables, and under each what is not run."""
    parts = []
    for block in one["blocks"]:
        lines = missing(block)
        parts += [sheet(block).markdown(), *(["Not run:", _fenced(lines)] if lines else [])]
    everything = ["All of it:", _fenced(rest(one))] if len(one["blocks"]) > 1 and one["gap"] else []
    return "\n\n".join([*parts, *everything])


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def latex(one: Mapping[str, Any]) -> str:
    """An artefact in LaTeX: its tables, and after each, as comments, what is not run."""
    parts = []
    for block in one["blocks"]:
        parts.append("\n".join([sheet(block).latex(), *(f"% not run: {line}" for line in missing(block))]))
    return "\n\n".join(parts)


# ------------------------------------------------------------------------------------------ the page


def page(results: Path) -> str:
    """All artefacts in Markdown, from records alone."""
    parts = []
    for one in ARTEFACTS.values():
        blocks = one.blocks()
        made = report(one, blocks, known(blocks, [results]))
        parts.append(f"## {one.name}\n\n{one.place} of the paper: {one.about}.\n\n{markdown(made)}")
    return "\n\n".join(parts)


def write(results: Path = Path("results"), target: Path = Path("docs/reproduce.md")) -> bool:
    """Put all artefacts between the markers of a page; True where that changed it."""
    return insert(target, "artefacts", page(results))
