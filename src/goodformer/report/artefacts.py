"""The tables and figures of the paper as declarations: blocks of columns, each column one figure of one comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from goodformer.config.presets import check_budget, presets
from goodformer.config.run import RunConfig
from goodformer.registry import InputError, unknown
from goodformer.report import paper
from goodformer.report.compare import BUDGET, Comparison
from goodformer.report.rows import ALL, Row
from goodformer.report.rows import rows as named_rows
from goodformer.report.tables import Record

FULL, SHORT, REDUCED = "full", "short", BUDGET
"""Budgets of tables: everything; all graphs of GOOD-Motif and few epochs; few graphs and few epochs."""
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
    quoted: tuple[Row, ...] = ()
    unit: str = ""

    @property
    def rows(self) -> list[Row]:
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
        folders: Whether it needs the run folders themselves: records have no weights.
    """

    name: str
    place: str
    about: str
    make: Callable[[str, int], list[Block]]
    budgets: tuple[str, ...] = (FULL, REDUCED)
    seeds: int = 3
    drawn: bool = False
    folders: bool = False

    def blocks(self, budget: str | None = None, seeds: int | None = None) -> list[Block]:
        """What it is made of, under all its budgets or under one."""
        if budget is not None:
            check_budget(budget)
        budgets = self.budgets if budget is None else (budget,)
        return [block for one in budgets for block in self.make(one, seeds or self.seeds)]


BASIS, SIZE = ({"name": "good-motif", "domain": domain} for domain in ("basis", "size"))
MOTIF = {"Motif basis": BASIS, "Motif size": SIZE}
CONCEPT = {f"{head}, concept": {**dataset, "shift": "concept"} for head, dataset in MOTIF.items()}
SPURIOUS = {f"SP-Motif b={bias}": {"name": "sp-motif", "bias": bias} for bias in (0.5, 0.7, 0.9)}
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

ERM_ALIKE = "erm on goodformer alike"
"""The row that is GOODFormer's own network trained without its method."""
REFERENCE = "For reference"
"""Title of the block that stands as level lines in a picture."""
PRESETS = "goodformer:paper,goodformer:as_published"
CHANGES = "goodformer:without-entropy,goodformer:gil-generator,goodformer:without-encoder,goodformer:laplacian-input"
CHANGED = "default-"
"""How the presets begin that change one thing of the default."""
SENSITIVITY = {
    "lambda": ("variance_weight", (0.1, 1.0, 10.0, 100.0)),
    "alpha_E": ("entropy_weight", (0.01, 0.1, 1.0, 10.0)),
    "alpha_PSE": ("encoder_weight", (0.01, 0.1, 1.0, 10.0)),
}
"""The weights of the paper's figure, the settings they are here, and the values tried."""
COMMON = "GOODFormer (paper) and (as_published) are the presets of that name, GOODFormer is the default."
ALIKE_NOTE = (
    "Rows called alike have the node inputs, the aggregation of messages and the averaging of weights that GOODFormer "
    "has by default. ERM on GOODFormer is the same network trained the same way, so that what is left is the method; "
    "other rows keep their own network, learning rate, batch size and schedule."
)


@cache
def _comparison(dataset: str, rows: str, seeds: int, budget: str, overrides: tuple[str, ...]) -> Comparison:
    settings = json.loads(dataset)
    return Comparison(settings, tuple(named_rows(rows, settings["name"])), tuple(range(seeds)), budget, overrides)


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


def _paper_data(budget: str) -> Mapping[str, Mapping[str, Any]]:
    """Data of the paper's smaller tables; the short budget is for GOOD-Motif."""
    return MOTIF if budget == SHORT else {**MOTIF, **HIV}


def _told_by(
    data: Mapping[str, Any], rows: str, budget: str, seeds: int, figures: Mapping[str, str]
) -> Iterator[Column]:
    """A column for each data set and figure, called by both."""
    for head, dataset in data.items():
        for label, figure in figures.items():
            yield Column(f"{head}{label}", compared(dataset, rows, budget, seeds), figure)


def _main(budget: str, seeds: int) -> list[Block]:
    if budget == SHORT:
        rows, figures = f"{ERM_ALIKE},{PRESETS},goodformer", {"": "ood_test", " Precision@10": "precision_at_10"}
        return [
            Block("The three presets", tuple(_told_by(MOTIF, rows, budget, seeds, figures)), f"{COMMON} {ALIKE_NOTE}")
        ]
    data = {**MOTIF, **HIV, **(THEIRS if budget == FULL else OTHERS)}
    columns = _columns(data, f"{ALL},{PRESETS}", budget, seeds)
    alike = f"erm alike,gsat alike,ciga alike,imold alike,gps alike,{ERM_ALIKE},goodformer"
    if budget != FULL:
        same = Block("Same inputs", _columns(MOTIF, alike, budget, seeds, beside=""), ALIKE_NOTE)
        return [Block("Main table", columns, COMMON), same]
    concept = _columns(CONCEPT, f"{ERM_ALIKE},goodformer", budget, seeds, figure="concept", beside="GOOD")
    quoted = tuple(named_rows("erm,irm,vrex,dir,gsat,ciga", "good-motif"))
    note = (
        "The paper has no concept shift; GOOD: that benchmark's leaderboard (github.com/divelab/GOOD), ten runs on GIN."
    )
    return [
        Block("Main table", columns, COMMON),
        Block("Same inputs", _columns(MOTIF, f"{ERM_ALIKE},goodformer", budget, seeds, beside=""), ALIKE_NOTE),
        Block("Same inputs, concept shift", concept, f"{note} {ALIKE_NOTE}", quoted),
        Block("Other rules of choosing the epoch", _rules(f"{ERM_ALIKE},{PRESETS},goodformer", seeds), RULE_NOTE),
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
    figures = {" Precision@10": "precision_at_10", " edge AUC": "edge_auc"}
    note = "On OOD test graphs, at the epoch and weights of the accuracy."
    return [Block("Finding the invariant subgraph", tuple(_told_by(MOTIF, rows, budget, seeds, figures)), note)]


def _ablation(budget: str, seeds: int) -> list[Block]:
    rows = f"goodformer:paper,{CHANGES},goodformer:signnet-input"
    theirs = Block("Ablation of the paper's GOODFormer", _columns(_paper_data(budget), rows, budget, seeds))
    if budget != REDUCED:
        return [theirs]
    changes = ",".join(f"goodformer:{name}" for name in presets("goodformer") if name.startswith(CHANGED))
    columns = tuple(
        Column(f"{head}{label}", compared(dataset, f"goodformer,{changes}", budget, seeds), figure, beside="")
        for head, dataset in MOTIF.items()
        for label, figure in (("", "ood_test"), (", Precision@10", "precision_at_10"))
    )
    note = "Each row takes one thing from the default, or puts another in its place."
    return [theirs, Block("Ablation of the default", columns, note)]


def _predictor(budget: str, seeds: int) -> list[Block]:
    rows = "goodformer:paper,goodformer:mlp-predictor"
    return [Block("Graph transformer or MLP as predictor", _columns(_paper_data(budget), rows, budget, seeds))]


def _shift_level(budget: str, seeds: int) -> list[Block]:
    rows = f"gps,exphormer,{ERM_ALIKE},goodformer,{PRESETS}"
    return [Block("Levels of shift", _columns(SPURIOUS, rows, budget, seeds), f"{COMMON} {ALIKE_NOTE}")]


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
    return [*blocks, Block(REFERENCE, _columns(MOTIF, "ciga,exphormer", budget, seeds, beside=""))]


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


EVERY = (FULL, SHORT, REDUCED)
ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact("table-main", "Table 3", "all methods on all benchmarks, OOD test", _main, EVERY),
        Artefact("table-precision", "Table 4", "Precision@10 and edge AUC of the found subgraphs", _precision),
        Artefact(
            "figure-subgraphs",
            "Figure 2",
            "found subgraphs beside the true ones",
            _subgraphs,
            (REDUCED,),
            1,
            drawn=True,
            folders=True,
        ),
        Artefact("table-ablation", "Table 5", "GOODFormer with parts replaced or taken away", _ablation, EVERY, 1),
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
        Artefact("table-predictor", "Table 9", "graph transformer against MLP as predictor", _predictor, EVERY),
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
        methods: Rows as in `goodformer.report.rows.rows`.
    """
    names = None if datasets is None else _datasets(blocks, datasets)
    kept = [replace(block, columns=tuple(_narrowed(block.columns, names, methods))) for block in blocks]
    found = [block for block in kept if block.columns]
    if not found:
        rows = dict.fromkeys(row.name for block in blocks for row in block.rows)
        raise InputError(f"nothing of this artefact is left; name some of its rows, which are {', '.join(rows)}.")
    return found


def _datasets(blocks: Sequence[Block], words: str) -> list[str]:
    """The data sets named, each one of the artefact's."""
    own = {column.comparison.dataset["name"] for block in blocks for column in block.columns}
    names = [word.strip() for word in words.split(",")]
    for name in names:
        if name not in own:
            raise unknown("data set of this artefact", name, own)
    return names


def _narrowed(columns: Iterable[Column], datasets: Sequence[str] | None, methods: str | None) -> Iterator[Column]:
    for column in columns:
        comparison = column.comparison
        name = comparison.dataset["name"]
        if datasets is not None and name not in datasets:
            continue
        wanted = None if methods is None else {row.name for row in named_rows(methods, name)}
        rows = tuple(row for row in comparison.rows if wanted is None or row.name in wanted)
        if rows:
            yield column if rows == comparison.rows else replace(column, comparison=replace(comparison, rows=rows))
