"""The tables and figures of the paper as declarations: each column is one metric of one comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from goodformer.config.presets import check_budget, presets
from goodformer.config.run import RunConfig
from goodformer.errors import InputError, unknown
from goodformer.report.compare import BUDGET, Comparison
from goodformer.report.metrics import METRICS, SELECTION_NAMES, TEST_GRAPHS, TRAINING_GRAPHS
from goodformer.report.records import INFERENCE
from goodformer.report.rows import ALL, Row
from goodformer.report.rows import rows as named_rows

FULL, SETTLED, MEDIUM, SHORT, REDUCED = "full", "settled", "medium", "short", BUDGET
"""Budgets of tables: everything; all graphs until ID validation stops improving; all graphs and 15 epochs; all graphs
and few epochs; few graphs and few epochs."""


@dataclass(frozen=True)
class Column:
    """One metric of the rows of one comparison; ``beside`` names the source of the published numbers next to it."""

    head: str
    comparison: Comparison
    metric: str = "ood_test"
    beside: str = "paper"


@dataclass(frozen=True)
class Contrast:
    """A part of a method, and the rows of a table with and without it, which are compared seed by seed."""

    part: str
    present: str
    absent: str


@dataclass(frozen=True)
class TablePlan:
    """A table under one budget, before its records are read.

    Args:
        title: What it shows.
        columns: Its columns.
        note: What a reader has to know about it.
        quoted: Rows with published numbers only, which are never run.
        unit: The row whose number is the unit of the others in its column.
        contrasts: Pairs of rows whose difference is put into words below the table.
    """

    title: str
    columns: tuple[Column, ...]
    note: str = ""
    quoted: tuple[Row, ...] = ()
    unit: str = ""
    contrasts: tuple[Contrast, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """Return all rows of its columns."""
        run = [row for column in self.columns for row in column.comparison.rows]
        return list({row.name: row for row in (*self.quoted, *run)}.values())

    @property
    def configs(self) -> dict[str, RunConfig]:
        """Return all runs of the table by id, ordered by seed."""
        return runs_of(column.comparison for column in self.columns)

    @property
    def timed(self) -> dict[str, RunConfig]:
        """Return the runs whose inference time a column shows, by id."""
        return runs_of(column.comparison for column in self.columns if column.metric == INFERENCE)


def runs_of(comparisons: Iterable[Comparison]) -> dict[str, RunConfig]:
    """Return all runs of some comparisons by id, ordered by seed."""
    runs = {comparison.ids[key]: config for comparison in comparisons for key, config in comparison.configs.items()}
    return dict(sorted(runs.items(), key=lambda pair: pair[1].seed))


@dataclass(frozen=True)
class Artefact:
    """A table or a figure of the paper, or one of ours beside them.

    Args:
        name: What a user types.
        place: Its number in the paper; empty if it is not there.
        about: What it shows.
        make: Its tables for a budget and a number of seeds.
        budgets: Budgets it is shown under.
        seeds: Number of seeds per row.
        drawn: Whether it is a figure.
        folders: Whether it needs the run folders themselves: records contain no weights.
    """

    name: str
    place: str
    about: str
    make: Callable[[str, int], list[TablePlan]]
    budgets: tuple[str, ...] = (FULL, REDUCED)
    seeds: int = 3
    drawn: bool = False
    folders: bool = False

    def plans(self, budget: str | None = None, seeds: int | None = None) -> list[TablePlan]:
        """Return the plans of its tables under all its budgets or under one."""
        if budget is not None:
            check_budget(budget)
        budgets = self.budgets if budget is None else (budget,)
        return [table for one in budgets for table in self.make(one, seeds or self.seeds)]


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
"""Available substitutes for data of the paper that are not; the paper's numbers are not shown beside them."""
EPOCHS = {"good-hiv": 3, "good-sst2": 3, "good-twitter": 8, "drugood": 8}
"""Epochs of a reduced budget on data whose graphs it does not cut."""

ERM_ALIKE = "erm on goodformer alike"
"""The row that trains GOODFormer's own network by ERM."""
BOTH = {"": "ood_test", ", Precision@10": "precision_at_10"}
"""Metrics of tables that show accuracy and explanation, by what they add to a heading."""
REFERENCE = "For reference"
"""Title of the table whose rows are horizontal lines in a figure."""
PRESETS = "goodformer:paper,goodformer:as_published"
CONTROLS = "gsat alike,ciga alike,dir alike,gil alike"
"""Methods that find subgraphs, with GOODFormer's inputs."""
CHANGES = "goodformer:without-entropy,goodformer:gil-generator,goodformer:without-encoder,goodformer:laplacian-input"
CHANGED = "default-"
"""Prefix of the presets that change one part of the default."""
COMPONENTS = (
    Contrast("Test-time temperature", "goodformer", "goodformer:default-without-temperature"),
    Contrast("Interventions (mean and variance)", "goodformer", "goodformer:default-without-interventions"),
    Contrast("Subgraph encoder", "goodformer", "goodformer:default-without-encoder"),
    Contrast("Entropy loss (off in ours)", "goodformer:default-entropy-loss", "goodformer"),
)
"""Parts of the paper's method, and the rows with and without each of them."""
SENSITIVITY = {
    "lambda": ("variance_weight", (0.1, 1.0, 10.0, 100.0)),
    "alpha_E": ("entropy_weight", (0.01, 0.1, 1.0, 10.0)),
    "alpha_PSE": ("encoder_weight", (0.01, 0.1, 1.0, 10.0)),
}
"""The weights of the paper's figure, the settings they correspond to, and the values tried."""
PRESET_NOTE = (
    "GOODFormer (paper) is the preset `paper`, the paper's equations and settings; the paper's number for GOODFormer "
    "stands beside this row alone. GOODFormer (published code) is the preset `as_published`. GOODFormer (ours) is the "
    "preset `default`. It differs from the paper in its inputs (cycle walks), adversary, mask budget and weight "
    "averaging, and its entropy loss is off; *Model and method* lists all differences."
)
ALIKE_NOTE = (
    "Rows with the same inputs (`alike` on the command line) have the node inputs, message aggregation and weight "
    "averaging of GOODFormer (ours). ERM on GOODFormer is the same network trained in the same way, so that only the "
    "method differs; the other rows keep their own network, learning rate, batch size and schedule."
)
RULE_NOTE = (
    "All columns show OOD test of the same runs: at the epoch that is best on OOD validation, at the one that is best "
    "on ID validation, or at the last epoch."
)
REAL = "erm,gps,gsat,imold,forest,linear,goodformer:paper,goodformer"
"""Rows of the table of real data."""
REAL_NOTE = (
    "Every run ends after five epochs without a better metric on ID validation, at the latest after 30; `compare` "
    "shows the same runs at the epoch that is best on ID validation. What `fit` uses for molecules, GOODFormer with "
    "forests and linear models, is measured in *Design history*."
)
TIME_NOTE = (
    f"CPU seconds on one core for {TRAINING_GRAPHS:,} training graphs and for {TEST_GRAPHS:,} predicted graphs, scaled "
    "from the measured number of graphs; in brackets, the multiple of GraphGPS. Paper: seconds per epoch on one V100; "
    "the paper does not say which graphs it predicts."
)


@cache
def _comparison(dataset: str, rows: str, seeds: int, budget: str, overrides: tuple[str, ...]) -> Comparison:
    settings = json.loads(dataset)
    return Comparison(settings, tuple(named_rows(rows, settings["name"])), tuple(range(seeds)), budget, overrides)


def compared(
    dataset: Mapping[str, Any], rows: str, budget: str, seeds: int, overrides: tuple[str, ...] = ()
) -> Comparison:
    """Return a comparison; a reduced budget trains for fewer epochs on data whose graphs it does not cut."""
    epochs = EPOCHS.get(dataset["name"]) if budget == REDUCED else None
    more = () if epochs is None else (f"training.epochs={epochs}",)
    return _comparison(json.dumps(dataset), rows, seeds, budget, (*more, *overrides))


def _columns(
    data: Mapping[str, Any],
    rows: str,
    budget: str,
    seeds: int,
    metrics: Mapping[str, str] | None = None,
    beside: str = "paper",
) -> tuple[Column, ...]:
    """Return one column per data set and metric; ``metrics`` maps what is added to the heading to the metric."""
    return tuple(
        Column(f"{head}{label}", compared(dataset, rows, budget, seeds), metric, beside)
        for head, dataset in data.items()
        for label, metric in (metrics or {"": "ood_test"}).items()
    )


def _paper_data(budget: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the data of the paper's smaller tables; budgets between full and reduced are for GOOD-Motif only."""
    return MOTIF if budget in (MEDIUM, SHORT) else {**MOTIF, **HIV}


def _main(budget: str, seeds: int) -> list[TablePlan]:
    real = {FULL: {**HIV, **THEIRS}, REDUCED: {**HIV, **OTHERS}}.get(budget, {})
    main = TablePlan("Main table", _columns({**MOTIF, **real}, f"{ALL},{PRESETS}", budget, seeds), PRESET_NOTE)
    pair = f"{ERM_ALIKE},goodformer"
    more = {FULL: "", REDUCED: f"erm alike,{CONTROLS},imold alike,gps alike,"}
    alike = f"{more.get(budget, f'{CONTROLS},')}{pair}"
    same = TablePlan("Same inputs", _columns(MOTIF, alike, budget, seeds, BOTH, beside=""), ALIKE_NOTE)
    if budget != FULL:
        return [main, same]
    concept = TablePlan(
        "Same inputs, concept shift",
        _columns(CONCEPT, pair, budget, seeds, {"": "concept"}, beside="GOOD"),
        "The paper has no concept shift. GOOD: the leaderboard of that benchmark (github.com/divelab/GOOD), ten runs "
        f"on GIN. {ALIKE_NOTE}",
        tuple(named_rows("erm,irm,vrex,dir,gsat,ciga", "good-motif")),
    )
    rules = {f", by {SELECTION_NAMES['ood_val']}": "ood_test", f", by {SELECTION_NAMES['id_val']}": "id_val"}
    rules[f", {SELECTION_NAMES['last']}"] = "last"
    columns = _columns(MOTIF, f"{ERM_ALIKE},{PRESETS},goodformer", FULL, seeds, rules, beside="")
    return [main, same, concept, TablePlan("Other selection rules", columns, RULE_NOTE)]


def _real(budget: str, seeds: int) -> list[TablePlan]:
    longest = ("training.epochs=30",)  # also for presets with fewer, which a budget would not lengthen
    columns = (
        Column(head, compared(dataset, REAL, budget, seeds, longest), "by_ood_val", beside="")
        for head, dataset in {**HIV, **OTHERS}.items()
    )
    return [TablePlan("Real data", tuple(columns), REAL_NOTE)]


def _precision(budget: str, seeds: int) -> list[TablePlan]:
    rows = f"dir,grea,gil,gsat,ciga,imold,cal-plus,goodformer,{PRESETS}"
    metrics = {" Precision@10": "precision_at_10", ", by logits": "precision_at_10_logits", " edge AUC": "edge_auc"}
    note = (
        "Measured on OOD test graphs, with the same epoch and weights as the accuracy. Edges are ranked by the scores "
        "of the method: by the mask in GOODFormer (paper) and (published code), by its logits in GOODFormer (ours). A "
        "mask that saturates ties edges; the column by logits shows how they would still be ranked."
    )
    return [TablePlan("Finding the invariant subgraph", _columns(MOTIF, rows, budget, seeds, metrics), note)]


def _ablation(budget: str, seeds: int) -> list[TablePlan]:
    rows = f"goodformer:paper,{CHANGES},goodformer:signnet-input"
    return [TablePlan("Ablation of the paper's GOODFormer", _columns(_paper_data(budget), rows, budget, seeds))]


def _changed(budget: str, seeds: int) -> list[TablePlan]:
    changes = ",".join(f"goodformer:{name}" for name in presets("goodformer") if name.startswith(CHANGED))
    note = "Each row removes or replaces one part of GOODFormer (ours), the preset `default`."
    columns = _columns(MOTIF, f"goodformer,{changes}", budget, seeds, BOTH, beside="")
    return [TablePlan("Ablation of the default", columns, note)]


def _components(budget: str, seeds: int) -> list[TablePlan]:
    rows = dict.fromkeys(name for one in COMPONENTS for name in (one.present, one.absent))
    note = (
        "Each row removes one part of the paper's method from GOODFormer (ours) or, for the entropy loss, adds it. The "
        "differences are taken seed by seed; brackets hold 95 % confidence intervals (Student's t)."
    )
    title = "Which of the paper's components still change anything in ours"
    columns = _columns(MOTIF, ",".join(rows), budget, seeds, BOTH, beside="")
    return [TablePlan(title, columns, note, contrasts=COMPONENTS)]


def _predictor(budget: str, seeds: int) -> list[TablePlan]:
    rows = "goodformer:paper,goodformer:mlp-predictor"
    return [TablePlan("Graph transformer or MLP as predictor", _columns(_paper_data(budget), rows, budget, seeds))]


def _shift_level(budget: str, seeds: int) -> list[TablePlan]:
    rows = f"gps,exphormer,{ERM_ALIKE},goodformer,{PRESETS}"
    return [TablePlan("Levels of shift", _columns(SPURIOUS, rows, budget, seeds), f"{PRESET_NOTE} {ALIKE_NOTE}")]


def _runtime(budget: str, seeds: int) -> list[TablePlan]:
    rows = f"graphormer,gps,exphormer,goodformer,{PRESETS}"
    whole = compared(BASIS, rows, budget, seeds)
    columns = (
        Column(METRICS["training"].head, whole, "training"),
        Column(METRICS[INFERENCE].head, whole, INFERENCE),
        Column(METRICS["ood_test"].head, whole),
    )
    return [TablePlan("Time on Motif basis", columns, TIME_NOTE, unit="gps")]


def _sensitivity(budget: str, seeds: int) -> list[TablePlan]:
    made = []
    for domain, dataset in MOTIF.items():
        for weight, (setting, values) in SENSITIVITY.items():
            tried = {value: (f"method.{setting}={value:g}",) for value in values}
            columns = (
                Column(
                    f"{weight} = {value:g}",
                    compared(dataset, "goodformer:paper", budget, seeds, change),
                    beside="",
                )
                for value, change in tried.items()
            )
            made.append(TablePlan(f"{domain}: {weight}", tuple(columns)))
    return [*made, TablePlan(REFERENCE, _columns(MOTIF, "ciga,exphormer", budget, seeds, beside=""))]


def _subgraphs(budget: str, seeds: int) -> list[TablePlan]:
    columns = _columns({"": BASIS}, "dir,gsat,ciga,goodformer", budget, seeds, {"Precision@10": "precision_at_10"})
    return [
        TablePlan("Runs that are drawn", columns, "The figure needs their run folders: records contain no weights.")
    ]


EVERY = (FULL, SHORT, REDUCED)
ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact("table-main", "Table 3", "all methods on all benchmarks, OOD test", _main, EVERY),
        Artefact(
            "table-real", "", "baselines and GOODFormer on real data, until they stop improving", _real, (SETTLED,)
        ),
        Artefact("table-precision", "Table 4", "Precision@10 and edge AUC of the found subgraphs", _precision, EVERY),
        Artefact(
            "figure-subgraphs",
            "Figure 2",
            "found subgraphs beside the true ones",
            _subgraphs,
            (REDUCED,),
            seeds=1,
            drawn=True,
            folders=True,
        ),
        Artefact(
            "table-ablation",
            "Table 5",
            "GOODFormer with parts replaced or removed",
            _ablation,
            (FULL, MEDIUM, SHORT, REDUCED),
        ),
        Artefact("table-components", "", "our GOODFormer without parts of the paper's", _components, (SHORT,)),
        Artefact(
            "table-changes", "", "our GOODFormer with each part replaced or removed", _changed, (REDUCED,), seeds=1
        ),
        Artefact(
            "figure-sensitivity",
            "Figures 3 and 4",
            "OOD test over the loss weights",
            _sensitivity,
            (REDUCED,),
            seeds=1,
            drawn=True,
        ),
        Artefact("table-runtime", "Table 8", "training and inference time of graph transformers", _runtime),
        Artefact("table-shift-level", "Table 7", "SP-Motif at three levels of shift", _shift_level, EVERY),
        Artefact("table-predictor", "Table 9", "graph transformer against MLP as predictor", _predictor, EVERY),
    )
}


def artefact(name: str) -> Artefact:
    """Return the artefact of a name."""
    if name not in ARTEFACTS:
        raise unknown("artefact", name, ARTEFACTS)
    return ARTEFACTS[name]


def _names(comparison: Comparison) -> set[str]:
    """Return the names of a data set, general to special: the data set, its domain or bias, its shift."""
    settings = comparison.settings
    words = [settings["name"], settings.get("domain", settings.get("bias")), settings.get("shift")]
    return {"/".join(str(word) for word in words[:count]) for count in range(1, 4) if None not in words[:count]}


def narrowed(tables: Sequence[TablePlan], datasets: str | None = None, methods: str | None = None) -> list[TablePlan]:
    """Return the tables with the columns of some data sets and with some rows only.

    Args:
        tables: Tables of an artefact.
        datasets: Names of data sets, separated by commas: ``good-motif``, ``good-motif/basis``, ``sp-motif/0.9`` or
            ``good-motif/basis/concept``.
        methods: Rows as in `goodformer.report.rows.rows`.
    """
    names = None if datasets is None else [word.strip() for word in datasets.split(",")]
    own = {name for table in tables for column in table.columns for name in _names(column.comparison)}
    for name in names or ():
        if name not in own:
            raise unknown("data set of this artefact", name, own)
    found = []
    for table in tables:
        columns = []
        for column in table.columns:
            comparison, data = column.comparison, column.comparison.dataset["name"]
            wanted = None if methods is None else {row.name for row in named_rows(methods, data)}
            rows = tuple(row for row in comparison.rows if wanted is None or row.name in wanted)
            if rows and (names is None or _names(comparison) & set(names)):
                kept = comparison if rows == comparison.rows else replace(comparison, rows=rows)
                columns.append(replace(column, comparison=kept))
        if columns:
            found.append(replace(table, columns=tuple(columns)))
    if not found:
        names = list(dict.fromkeys(row.name for table in tables for row in table.rows))
        raise InputError(f"no row of this artefact is left; choose from its rows: {', '.join(names)}.")
    return found
