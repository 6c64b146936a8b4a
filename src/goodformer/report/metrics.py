"""Metrics: what records contain and columns of tables show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from goodformer.report import paper
from goodformer.report.records import INFERENCE, TORCH, Mean, Record, library_of, mean_of
from goodformer.report.table import Cell
from goodformer.spec import SPLIT_NAMES, percent

TRAINING_GRAPHS, TEST_GRAPHS = 18_000, 3_000
"""Seconds are scaled to this many graphs: the training and the OOD test graphs of GOOD-Motif."""
SELECTION_NAMES = {"ood_val": SPLIT_NAMES["val"], "id_val": SPLIT_NAMES["id_val"], "last": "last epoch"}
"""Names of the rules that choose the reported epoch."""
CHANCE = {
    **dict.fromkeys(("good-motif", "sp-motif", "good-twitter"), 100 / 3),
    **dict.fromkeys(("good-hiv", "good-sst2", "drugood", "bace", "bbbp", "molecule-rules"), 50.0),
}
"""Accuracy or ROC-AUC of guessing, in %."""


@dataclass(frozen=True)
class Metric:
    """A number that a record contains and that a column can show.

    Args:
        head: Heading of the column.
        value: Its value in a record, None if the record does not have it.
        published: The published mean (and deviation) for a data set (all its settings) and a row.
        digits: Decimals.
        ranked: Whether the best values are marked.
    """

    head: str
    value: Callable[[Record], float | None]
    published: Callable[[Mapping[str, Any], str], Sequence[float] | None] = lambda _, __: None
    digits: int = 2
    ranked: bool = True

    def over(self, records: Iterable[Record]) -> Mean:
        """Return mean and deviation over the records that have the metric."""
        return mean_of(self.value(record) for record in records)

    def cell(self, records: Iterable[Record], remark: str = "") -> Cell:
        """Return mean and deviation over the records that have the metric as a cell."""
        found = self.over(records)
        return Cell.mean(found.mean, found.std, self.digits, remark)

    def published_cell(self, dataset: Mapping[str, Any], row: str) -> Cell:
        """Return the published number as a cell."""
        mean, std = (*(self.published(dataset, row) or ()), None, None)[:2]
        return Cell.mean(mean, std, self.digits)


def entry(record: Record, *path: str) -> Any:
    """Return the entry at a path in a record, None if a step is missing."""
    found: Any = record
    for name in path:
        found = (found or {}).get(name)
    return found


def _percent(*path: str) -> Callable[[Record], float | None]:
    """Return the score at a path of a record: shares in %, RMSE in its own units."""

    def value(record: Record) -> float | None:
        found = entry(record, *path)
        return None if found is None else percent(record.get("metric")) * found

    return value


def _scaled(seconds: float | None, graphs: int | None, wanted: int) -> float | None:
    return seconds / graphs * wanted if seconds and graphs else None


def _published_seconds(what: str, dataset: Mapping[str, Any], row: str) -> Sequence[float] | None:
    found = paper.seconds(dataset, row, what)
    return None if found is None else (found,)


def _by_logits(record: Record) -> float | None:
    """Return Precision@10 by logits; if the method's scores are its logits, an older record has it as the plain one."""
    found: float | None = record.get("precision_at_10_logits")
    method = entry(record, "config", "method") or {}
    own = method.get("name") == "goodformer" and method.get("edge_score", "logits") == "logits"
    return record.get("precision_at_10") if found is None and own else found


METRICS = {
    "ood_test": Metric(SPLIT_NAMES["test"], _percent("ood_test"), partial(paper.published, "ood_test")),
    "id_test": Metric(SPLIT_NAMES["id_test"], _percent("id_test"), ranked=False),
    "ood_val": Metric(SPLIT_NAMES["val"], _percent("ood_val"), ranked=False),
    "concept": Metric(SPLIT_NAMES["test"], _percent("ood_test"), paper.leaderboard),
    "by_ood_val": Metric(SPLIT_NAMES["test"], _percent("by_rule", "ood_val", "ood_test")),
    "id_val": Metric(SPLIT_NAMES["test"], _percent("by_rule", "id_val", "ood_test")),
    "last": Metric(SPLIT_NAMES["test"], _percent("by_rule", "last", "ood_test")),
    "precision_at_10": Metric(
        "Precision@10", lambda record: record.get("precision_at_10"), partial(paper.published, "precision_at_10"), 3
    ),
    "precision_at_10_logits": Metric("Precision@10, logits", _by_logits, digits=3, ranked=False),
    "edge_auc": Metric("edge AUC", lambda record: record.get("edge_auc"), digits=3),
    "node_auc": Metric("node AUC", lambda record: record.get("node_auc"), digits=3),
    "training": Metric(
        "training, s",
        lambda record: (
            _scaled(record.get("processor_seconds_per_epoch"), record.get("train_graphs"), TRAINING_GRAPHS)
            if library_of(record) == TORCH  # times of the others do not compare
            else None
        ),
        partial(_published_seconds, "training"),
        digits=1,
        ranked=False,
    ),
    INFERENCE: Metric(
        "inference, s",
        lambda record: _scaled(
            entry(record, INFERENCE, "processor_seconds"), entry(record, INFERENCE, "graphs"), TEST_GRAPHS
        ),
        partial(_published_seconds, INFERENCE),
        digits=1,
        ranked=False,
    ),
}
"""All metrics by name; ``id_val`` and ``last`` are OOD test at the epoch that these rules choose."""


def by_rule(name: str, rule: str, records: Iterable[Record]) -> Mean:
    """Return mean and deviation of a metric at the epoch that a selection rule chooses.

    Args:
        name: Name of a metric that records have per rule, such as ``ood_test`` or ``precision_at_10``.
        rule: ``ood_val``, ``id_val`` or ``last``.
        records: Records of the seeds of a row.
    """
    return METRICS[name].over({**record, name: None, **(entry(record, "by_rule", rule) or {})} for record in records)


def chance(dataset: str, metric: str) -> float | None:
    """Return the value that guessing reaches on a data set, None if it is unknown."""
    return 0.5 if metric in ("edge_auc", "node_auc") else None if metric == "precision_at_10" else CHANCE.get(dataset)


def chosen_on(rule: str) -> str:
    """Return the words of a note for a rule that chooses the reported epoch."""
    return f"epoch chosen on {SELECTION_NAMES[rule]}" if rule != "last" else "last epoch"


def over_seeds(seeds: int) -> str:
    """Return the words of a note for averages over some seeds."""
    return "one seed, no standard deviation" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"
