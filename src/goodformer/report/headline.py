"""The short tables of the README: what our GOODFormer reaches on synthetic and real data, beside its controls.

A control has the same inputs, graphs and epochs as GOODFormer, so that a difference is due to the method. ERM on the
same network says what the inputs and the network reach alone; the other controls are methods that find subgraphs, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.config.members import FAST, MOLECULES, blend_preset, gains_from_networks
from goodformer.data.benchmarks.sizes import generated_sizes
from goodformer.errors import InputError
from goodformer.report import paired, suite
from goodformer.report.artefacts import (
    CONCEPT,
    CONTROLS,
    ERM_ALIKE,
    FULL,
    HIV,
    MOTIF,
    OTHERS,
    REDUCED,
    SHORT,
    SPURIOUS,
    compared,
)
from goodformer.report.compare import Comparison, preferred
from goodformer.report.metrics import METRICS
from goodformer.report.paired import PredictionStore
from goodformer.report.paper import read_numbers
from goodformer.report.records import Record, records_by_id, seed_difference
from goodformer.report.rows import VERSIONS
from goodformer.report.table import ABSENT, NOT_RUN, Cell, Table

SEEDS, OURS = 3, "goodformer"
PAIR = {OURS: VERSIONS["default"], ERM_ALIKE: "ERM, same network and inputs"}
RIVAL_ROWS = CONTROLS.split(",")
"""Other methods with the inputs, graphs and epochs of ours."""
ABOUT = ("train_graphs", "epochs")
ACCURACY, PRECISION = "OOD test accuracy, %", "Precision@10"
NOTE = (
    "Three seeds unless stated otherwise. The difference is ours minus ERM's, with a 95 % confidence interval over "
    "seeds (Student's t), at the epoch that is best on OOD validation and at the last one. The ceiling is the share of "
    "OOD test graphs whose label is that of their motif; noise changed the other labels. "
    "*Inputs alone* ranks edges by the inputs of their ends, without training."
)
INPUTS = "inputs.json"
"""What the inputs alone find, in a folder of records."""


@dataclass(frozen=True)
class Place:
    """A benchmark with all its graphs and GOODFormer's five epochs: one row of the table of synthetic data."""

    title: str
    dataset: Mapping[str, Any]

    @property
    def comparison(self) -> Comparison:
        """Return the runs of ours and of all controls."""
        return compared(self.dataset, ",".join([*PAIR, *RIVAL_ROWS]), SHORT, SEEDS)


PLACES = (
    *(Place(f"GOOD-{head}", dataset) for head, dataset in MOTIF.items()),
    *(Place(f"GOOD-{head} shift", dataset) for head, dataset in CONCEPT.items()),
    *(Place(f"SP-Motif, bias {dataset['bias']}", dataset) for dataset in SPURIOUS.values()),
)
"""Rows of the table."""
RIVALS = {
    "forest": "random forest",
    "linear": "logistic regression",
    "erm": "ERM on GIN-VN",
    "gps": "GraphGPS",
    OURS: VERSIONS["default"],
}
"""Rows of comparisons that are columns of the table of real data, and their headings."""


BASELINES = ("forest", "linear")
MOLECULE_ROWS = {
    "forest": "random forest",
    "linear": "logistic regression",
    "goodformer:molecules": "GOODFormer alone",
    f"blend:{MOLECULES}": "`fit --networks`",
    f"blend:{FAST}": "`fit --no-networks`",
}
"""Rows of the suite of molecules that are columns of its table, and their headings."""


def tables(sources: Sequence[Path]) -> list[Table]:
    """Return the table of ours beside ERM on all benchmarks, and that of all controls, where there are records."""
    found = records_by_id(sources)
    return [_beside_erm(found, sources), _controls(found, sources)]


def _beside_erm(found: Mapping[str, Record], sources: Sequence[Path]) -> Table:
    """Return accuracy and Precision@10 of ours, beside ERM on the same network and beside the inputs alone."""
    rows = []
    for place in PLACES:
        ours, erm = (_records(place, row, found) for row in PAIR)
        if not (ours or erm):
            continue
        size, epochs = (next((one[key] for one in (*ours, *erm) if one.get(key)), None) for key in ABOUT)
        graphs = (size, (generated_sizes(place.comparison.settings) or {}).get("test"))
        gaps = [Cell(difference(ours, erm, metric)) for metric in ("ood_test", "last")]
        reached = [_mean("ood_test", ours), _mean("ood_test", erm), *gaps]
        limit = Cell.mean(ceiling(place.comparison.settings))
        explained = [_mean("precision_at_10", ours), Cell(inputs_alone(place, sources))]  # ERM scores no edges
        facts = [*(Cell(ABSENT if one is None else f"{one:,}") for one in graphs), Cell.of(epochs)]
        rows.append([Cell(place.title), *reached, limit, *explained, *facts])
    ours_head, erm_head = PAIR.values()
    heads = [
        f"{ACCURACY}: {ours_head}",
        erm_head,
        "difference to ERM",
        "at the last epoch",
        "ceiling",
        f"{PRECISION}: {ours_head}",
    ]
    return Table(["", *heads, "inputs alone", "training graphs", "OOD test graphs", "epochs"], rows)


def _controls(found: Mapping[str, Record], sources: Sequence[Path]) -> Table:
    """Return ours and all controls in rows, and both metrics of the benchmarks where a rival was run in columns."""
    places = [place for place in PLACES if any(_records(place, row, found) for row in RIVAL_ROWS)]
    heads = [f"{place.title}: {metric}" for place in places for metric in (ACCURACY, PRECISION)]
    rows = []
    for name in (OURS, ERM_ALIKE, *RIVAL_ROWS) if places else ():
        mine = [_records(place, name, found) for place in places]
        if any(mine):
            title = PAIR.get(name) or next(row.title for row in places[0].comparison.rows if row.name == name)
            rows.append([Cell(title), *(_mean(one, some) for some in mine for one in ("ood_test", "precision_at_10"))])
    if places:
        alone = [cell for place in places for cell in (Cell(ABSENT), Cell(inputs_alone(place, sources)))]
        rows.append([Cell("inputs alone"), *alone])
    return Table(["", *heads], rows)


def markdown(sources: Sequence[Path]) -> str:
    """Return both tables and what their columns mean."""
    made = [one.markdown() for one in tables(sources) if one.rows]
    return "\n\n".join([*made, NOTE])


def difference(ours: Sequence[Record], control: Sequence[Record], name: str = "ood_test") -> str:
    """Return by how much our objective changes a metric of accuracy against a control, seed by seed."""
    metric = METRICS[name]
    gap = seed_difference(*({one["config"]["seed"]: metric.value(one) for one in some} for some in (ours, control)))
    if gap is None:
        return ABSENT
    if gap.low is None:
        return f"{gap.mean:+.{metric.digits}f} (one seed)"
    return f"{gap.mean:+.{metric.digits}f} [{gap.low:+.{metric.digits}f}, {gap.high:+.{metric.digits}f}]"


def inputs_alone(place: Place, sources: Sequence[Path]) -> str:
    """Return Precision@10 of the node inputs without any training, as ``python -m lab.inputs`` measured it."""
    for source in sources:
        if (source / INPUTS).is_file():
            for measured in files.read_json(source / INPUTS).values():
                same = [measured["inputs"]] == place.comparison.configs[OURS, 0].model["inputs"]
                if same and measured["dataset"] == place.dataset:
                    return f"{measured['precision_at_10']:.3f}"
    return ABSENT


def _records(place: Place, row: str, found: Mapping[str, Record]) -> list[Record]:
    """Return the records of a row at a place."""
    ids = place.comparison.ids
    return [found[ids[row, seed]] for seed in place.comparison.seeds if ids[row, seed] in found]


def real_table(sources: Sequence[Path]) -> Table:
    """Return the table of real data: OOD test of GOODFormer beside other methods, one short run each."""
    found, rows = records_by_id(sources), []
    for title, dataset in {**{f"GOOD-{head}": one for head, one in HIV.items()}, **OTHERS}.items():
        plan = compared(dataset, ",".join(RIVALS), REDUCED, 1)
        records = [found.get(plan.ids[row, 0]) for row in RIVALS]
        about = next((record for record in reversed(records) if record), None)  # ours, if it was run
        if about is not None:
            cells = [Cell(NOT_RUN) if one is None else METRICS["ood_test"].cell([one]) for one in records]
            metric = "ROC-AUC" if about["metric"] == "rocauc" else "accuracy"
            facts = (Cell(f"{about['train_graphs']:,}"), Cell.of(about["epochs"]))
            rows.append([Cell(title), Cell(metric), *cells, *facts])
    return Table(["", "metric, %", *RIVALS.values(), "training graphs", "epochs"], rows)


def molecule_table(sources: Sequence[Path]) -> Table:
    """Return OOD test on the suite of molecules: the baselines, GOODFormer alone and what `fit` can use.

    The last columns compare what `fit` chooses by the number of training rows with the better baseline.
    """
    planned, found = suite.plan("molecules", ",".join(MOLECULE_ROWS), SEEDS, FULL), records_by_id(sources)
    store = PredictionStore(Path("runs"), sources)
    own = {row["row"]: row for row in suite.report(planned, found)["rows"]}
    chosen = {title: planned.first.row(default_blend(some, found)) for title, some in planned.data.items()}
    baselines = [planned.first.row(name) for name in BASELINES]
    better = {title: preferred(some, baselines, found) for title, some in planned.data.items()}
    gaps = suite.differences(planned, chosen, better, found, store)
    rows = []
    for title in (None, *planned.data):
        gap = gaps["difference"] if title is None else gaps["differences"][title]
        names = [MOLECULE_ROWS[some[title].name] if title else ABSENT for some in (chosen, better)]
        cells = [suite.score(own[name], title) for name in MOLECULE_ROWS]
        rows.append([Cell(title or "mean"), *cells, *map(Cell, names), paired.cell(gap, SEEDS)])
    heads = [*MOLECULE_ROWS.values(), "default", "better baseline on OOD validation", "default minus that baseline"]
    return Table(["OOD test ROC-AUC, %", *heads], rows)


def default_blend(comparisons: Sequence[Comparison], found: Mapping[str, Record]) -> str:
    """Return the row that `fit` uses by default for classes of molecules with so many training graphs as were recorded.

    Raises:
        InputError: No run is recorded, or `fit` uses different rows for some of the comparisons.
    """
    sizes = [found[one]["train_graphs"] for some in comparisons for one in some.ids.values() if one in found]
    if not sizes:
        raise InputError(f"no run on {comparisons[0].settings['name']} is recorded; run the comparison first.")
    rows = {f"blend:{blend_preset(False, gains_from_networks(False, size))}" for size in sizes}
    if len(rows) > 1:
        raise InputError(f"{comparisons[0].settings['name']} has splits with different defaults; list them apart.")
    return rows.pop()


def _mean(name: str, records: Sequence[Record]) -> Cell:
    """Return mean and deviation of a metric, with the number of seeds if some are missing."""
    known = METRICS[name].over(records).known
    if not known:
        return Cell(ABSENT if records else NOT_RUN)
    return METRICS[name].cell(records, "" if known == SEEDS else f"({known} of {SEEDS} seeds)")


def ceiling(dataset: Mapping[str, Any]) -> float | None:
    """Return the share of OOD test graphs, in %, whose label is that of their motif: noise changed the other labels.

    Args:
        dataset: All settings of a data set, with its name.
    """
    words = (dataset["name"], dataset.get("domain", dataset.get("bias")), dataset.get("shift"))
    found: float | None = read_numbers("ceilings.yaml").get("/".join(str(word) for word in words if word is not None))
    return found
