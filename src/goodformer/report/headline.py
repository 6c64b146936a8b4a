"""The short tables of the README: what our GOODFormer reaches on synthetic and real data, beside its controls.

A control has the same inputs, graphs and epochs as GOODFormer, so that a difference is due to the method. ERM on the
same network says what the inputs and the network reach alone; GSAT and CIGA are other methods that find subgraphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.data.benchmarks.sizes import generated_sizes
from goodformer.report.artefacts import CONCEPT, ERM_ALIKE, HIV, MOTIF, OTHERS, REDUCED, SHORT, SPURIOUS, compared
from goodformer.report.compare import Comparison
from goodformer.report.metrics import METRICS
from goodformer.report.paper import read_numbers
from goodformer.report.records import Record, records_by_id, seed_difference
from goodformer.report.rows import VERSIONS
from goodformer.report.table import ABSENT, NOT_RUN, Cell, Table

SEEDS, OURS = 3, "goodformer"
GSAT_ALIKE, CIGA_ALIKE = "gsat alike", "ciga alike"
CONTROLS = {ERM_ALIKE: "ERM, same network and inputs", GSAT_ALIKE: "GSAT, same inputs", CIGA_ALIKE: "CIGA, same inputs"}
"""Rows beside ours that had the same chance, and their headings."""
COLUMNS = {OURS: VERSIONS["default"], **CONTROLS}
ABOUT = ("train_graphs", "epochs")
NOTE = (
    "Three seeds unless stated otherwise. The difference is ours minus ERM's, with a 95 % confidence interval over "
    "seeds (Student's t). The ceiling is the share of OOD test graphs whose label is that of their motif; noise "
    "changed the other labels."
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
        return compared(self.dataset, ",".join(COLUMNS), SHORT, SEEDS)


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


def tables(sources: Sequence[Path]) -> list[Table]:
    """Return one table of accuracy and one of Precision@10; benchmarks and controls without a record are left out."""
    found = records_by_id(sources)
    done = [(place, {row: _records(place, row, found) for row in COLUMNS}) for place in PLACES]
    heads = {row: head for row, head in COLUMNS.items() if row == OURS or any(mine[row] for _, mine in done)}
    about = ["training graphs", "OOD test graphs", "epochs"]
    accuracy, precision = [], []
    for place, mine in done:
        known = [record for some in mine.values() for record in some]
        if not known:
            continue
        size, epochs = (next((one[key] for one in known if one.get(key)), None) for key in ABOUT)
        graphs = (size, (generated_sizes(place.comparison.settings) or {}).get("test"))
        facts = [*(Cell(ABSENT if one is None else f"{one:,}") for one in graphs), Cell.of(epochs)]
        means = [_mean("ood_test", mine[row]) for row in heads]
        limit = Cell.mean(ceiling(place.comparison.settings))
        accuracy.append([Cell(place.title), *means, Cell(difference(mine[OURS], mine[ERM_ALIKE])), limit, *facts])
        scoring = [_mean("precision_at_10", mine[row]) for row in heads if row != ERM_ALIKE]  # ERM scores no edges
        precision.append([Cell(place.title), *scoring, Cell(inputs_alone(place, sources)), *facts])
    scored = [head for row, head in heads.items() if row != ERM_ALIKE]
    return [
        Table(["OOD test accuracy, %", *heads.values(), "difference to ERM", "ceiling", *about], accuracy),
        Table(["Precision@10", *scored, "inputs alone", *about], precision),
    ]


def markdown(sources: Sequence[Path]) -> str:
    """Return both tables and what their columns mean."""
    return "\n\n".join([*(one.markdown() for one in tables(sources)), NOTE])


def difference(ours: Sequence[Record], control: Sequence[Record]) -> str:
    """Return by how much our objective changes OOD test accuracy against a control, seed by seed."""
    metric = METRICS["ood_test"]
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
            rows.append([Cell(title), Cell(metric), *cells, Cell.of(about["train_graphs"]), Cell.of(about["epochs"])])
    return Table(["", "metric, %", *RIVALS.values(), "training graphs", "epochs"], rows)


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
