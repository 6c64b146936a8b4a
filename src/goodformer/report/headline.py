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
from goodformer.report.records import Record, SeedDifference, records_by_id, seed_difference
from goodformer.report.rows import VERSIONS
from goodformer.report.table import ABSENT, NOT_RUN, Cell, Table

SEEDS, OURS = 3, "goodformer"
GSAT_ALIKE, CIGA_ALIKE = "gsat alike", "ciga alike"
CONTROLS = {ERM_ALIKE: "ERM, same network and inputs", GSAT_ALIKE: "GSAT, same inputs", CIGA_ALIKE: "CIGA, same inputs"}
"""Rows beside ours that had the same chance, and their headings."""
COLUMNS = {OURS: VERSIONS["default"], **CONTROLS}
ABOUT = ("train_graphs", "epochs")
CEILING = (
    "The ceiling is the share of OOD test graphs whose label is that of their motif. It is computed on all OOD test "
    "graphs; rows with 2,000 training graphs are tested on other, fewer ones and have none (-)."
)
INPUTS = "inputs.json"
"""What the inputs alone find, in a folder of records."""
METRIC_NAMES = {"ood_test": "OOD test accuracy, %", "precision_at_10": "Precision@10"}


@dataclass(frozen=True)
class Place:
    """A benchmark and a budget: one row of the table of synthetic data."""

    title: str
    dataset: Mapping[str, Any]
    budget: str = SHORT

    @property
    def comparison(self) -> Comparison:
        """Return the runs of ours and of all controls."""
        return compared(self.dataset, ",".join(COLUMNS), self.budget, SEEDS)


PLACES = (
    *(Place(f"GOOD-{head}", dataset) for head, dataset in MOTIF.items()),
    *(Place(f"GOOD-{head}", dataset, REDUCED) for head, dataset in MOTIF.items()),
    *(Place(f"GOOD-{head} shift", dataset) for head, dataset in CONCEPT.items()),
    *(Place(f"SP-Motif, bias {dataset['bias']}", dataset) for dataset in SPURIOUS.values()),
)
"""Rows of the table: all graphs and GOODFormer's five epochs, and 2,000 graphs and four epochs."""
RIVALS = {
    "forest": "random forest",
    "linear": "logistic regression",
    "erm": "ERM on GIN-VN",
    "gps": "GraphGPS",
    OURS: VERSIONS["default"],
}
"""Rows of comparisons that are columns of the table of real data, and their headings."""


def tables(sources: Sequence[Path]) -> list[Table]:
    """Return one table of accuracy and one of Precision@10; benchmarks without a record are left out."""
    found = records_by_id(sources)
    begun = [place for place in PLACES if any(one in found for one in place.comparison.ids.values())]
    made = []
    for metric, name in METRIC_NAMES.items():
        rows = []
        for place in begun:
            done = {row: _records(place, row, found) for row in COLUMNS}
            known = [record for some in done.values() for record in some]
            cells = [Cell(place.title), *(_mean(metric, some) for some in done.values())]
            if metric == "ood_test":
                cells.append(Cell.mean(ceiling(place.comparison.settings) if place.budget == SHORT else None))
            else:
                cells[1 + list(COLUMNS).index(ERM_ALIKE)] = Cell(ABSENT)  # ERM scores no edges, trained or not
                cells.append(Cell(inputs_alone(place, sources)))
            size, epochs = (next((one[key] for one in known if one.get(key)), None) for key in ABOUT)
            graphs = (size, (generated_sizes(place.comparison.settings) or {}).get("test"))
            rows.append([*cells, *(Cell(ABSENT if one is None else f"{one:,}") for one in graphs), Cell.of(epochs)])
        more = ["ceiling"] if metric == "ood_test" else ["inputs alone"]
        made.append(Table([name, *COLUMNS.values(), *more, "training graphs", "OOD test graphs", "epochs"], rows))
    return made


def markdown(sources: Sequence[Path]) -> str:
    """Return both tables and, from the same records, what the objective adds beyond the inputs."""
    return "\n\n".join([*(one.markdown() for one in tables(sources)), CEILING, *sentences(sources)])


def sentences(sources: Sequence[Path]) -> list[str]:
    """Return what our objective changes against its controls, seed by seed, on the benchmarks that have both."""
    found = records_by_id(sources)
    questions = {
        "Against ERM on the same network with the same inputs, the objective changes OOD test accuracy by": (
            "ood_test",
            ERM_ALIKE,
        ),
        "Against GSAT with the same inputs, Precision@10 changes by": ("precision_at_10", GSAT_ALIKE),
        "Against CIGA with the same inputs, Precision@10 changes by": ("precision_at_10", CIGA_ALIKE),
    }
    made = []
    for question, (metric, control) in questions.items():
        answers = []
        for place in PLACES:
            values = (
                {record["config"]["seed"]: METRICS[metric].value(record) for record in _records(place, row, found)}
                for row in (OURS, control)
            )
            gap = seed_difference(*values)
            if gap is not None:
                size = "" if place.budget == SHORT else " (2,000 graphs)"
                answers.append(f"{_interval(gap, METRICS[metric].digits)} on {place.title}{size}")
        made += [f"- {question} {'; '.join(answers)}."] if answers else []
    note = "Differences are means over seeds with 95 % confidence intervals (Student's t)."
    return ["\n".join(made), note] if made else []


def _interval(gap: SeedDifference, digits: int) -> str:
    if gap.low is None:
        return f"{gap.mean:+.{digits}f} (one seed)"
    return f"{gap.mean:+.{digits}f} [{gap.low:+.{digits}f}, {gap.high:+.{digits}f}]"


def inputs_alone(place: Place, sources: Sequence[Path]) -> str:
    """Return Precision@10 of the node inputs without any training, as ``python -m lab.inputs`` measured it."""
    for source in sources:
        if place.budget == SHORT and (source / INPUTS).is_file():
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
