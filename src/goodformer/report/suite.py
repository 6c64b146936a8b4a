"""Many methods on several data sets: one comparison for each, and the mean of their paired differences.

Suites are listed in ``config/settings/suites.yaml``. A data set may have several splits; it counts once in every mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from goodformer.config.presets import read_settings
from goodformer.config.run import RunConfig
from goodformer.data.readers.values import counted
from goodformer.errors import check_name
from goodformer.report import compare, paired
from goodformer.report.compare import BUDGET, SCORES, Comparison, differences_note, preferred
from goodformer.report.metrics import METRICS, over_seeds
from goodformer.report.paired import Pair, PredictionStore
from goodformer.report.records import Mean, Record, mean_of
from goodformer.report.rows import ALL, Row
from goodformer.report.table import FAILED, NOT_RUN, Cell, Table, ranked
from goodformer.spec import LOWER_IS_BETTER

OOD = METRICS["ood_test"]


@dataclass(frozen=True)
class Suite:
    """The same rows and seeds on several data sets.

    Attributes:
        name: Name of the suite.
        data: For each data set, by its title, the comparison on each of its splits.
    """

    name: str
    data: Mapping[str, Sequence[Comparison]]

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons on all splits of all data sets."""
        return [one for some in self.data.values() for one in some]

    @property
    def first(self) -> Comparison:
        """One of the comparisons; rows, seeds and budget are the same in all."""
        return self.comparisons[0]

    @cached_property
    def runs(self) -> list[RunConfig]:
        """The configurations of all runs."""
        return [config for one in self.comparisons for config in one.runs]

    def missing(self, found: Mapping[str, Record]) -> list[RunConfig]:
        """Return the configurations without a record."""
        return [config for one in self.comparisons for config in one.missing(found)]


def names() -> list[str]:
    """Return the names of the suites."""
    return list(read_settings("suites"))


def plan(name: str, methods: str = ALL, seeds: int = 3, budget: str = BUDGET, overrides: Sequence[str] = ()) -> Suite:
    """Return a suite whose settings have been checked.

    Args:
        name: Name of a suite.
        methods: Rows, see `goodformer.report.rows.rows`.
        seeds: Number of seeds, counted from 0.
        budget: Name of a budget, the same for all rows.
        overrides: ``part.setting=value`` for all rows and data sets.
    """
    check_name("suite", name, names())
    data = {}
    for title, entry in read_settings("suites")[name].items():
        each = entry.get("each", {})
        splits = [dict(zip(each, values, strict=True)) for values in product(*each.values())]
        data[title] = [compare.plan({**entry["dataset"], **own}, methods, seeds, budget, overrides) for own in splits]
    return Suite(name, data)


def report(
    suite: Suite,
    found: Mapping[str, Record],
    failures: Mapping[str, str] | None = None,
    against: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    store: PredictionStore | None = None,
) -> dict[str, Any]:
    """Return the suite as plain values: OOD test on each data set and its mean, and paired differences.

    Args:
        suite: Rows, seeds and data sets.
        found: Records of its runs by id.
        failures: Reasons of failed runs by id.
        against: The row that all others are compared with, graph by graph. Of several, it is on each data set the one
            that is best on its OOD validation.
        pairs: Further pairs of rows to compare so.
        store: Where predictions are kept; needed for such comparisons.
    """
    opponents, reasons, rows = suite.first.opponents(against), failures or {}, []
    base = {title: preferred(some, opponents, found) for title, some in suite.data.items()} if opponents else {}
    for row in suite.first.rows:
        data = {title: _over(some, row, found) for title, some in suite.data.items()}
        complete = all(one["runs"] == one["wanted"] for one in data.values())
        failed = [reasons[one] for some in suite.comparisons for one in _ids(some, row) if one in reasons]
        means = [one["ood_test"]["mean"] for one in data.values() if one["ood_test"]]
        rows.append(
            {
                "row": row.name,
                "title": row.title,
                "group": row.group,
                "ood_test": {"mean": sum(means) / len(means), "std": None} if complete else None,
                "failed": failed,
                "data": data,
            }
        )
        if base:
            own = dict.fromkeys(suite.data, row)
            rows[-1] |= differences(suite, own, base, found, store) if opponents != [row] else {"difference": None}
    chosen = [[suite.first.row(name) for name in names] for names in pairs]
    return {
        "suite": suite.name,
        "data": {title: [one.settings for one in some] for title, some in suite.data.items()},
        "metrics": sorted({str(record["metric"]) for record in found.values() if record.get("metric")}),
        "budget": suite.first.budget,
        "seeds": list(suite.first.seeds),
        "against": " or ".join(row.title for row in opponents) or None,
        "preferred": {title: row.title for title, row in base.items()} if len(opponents) > 1 else None,
        "pairs": [
            {
                "first": one.title,
                "second": other.title,
                **differences(suite, dict.fromkeys(suite.data, one), dict.fromkeys(suite.data, other), found, store),
            }
            for one, other in chosen
        ],
        "rows": rows,
    }


def _ids(comparison: Comparison, row: Row) -> list[str]:
    return [comparison.ids[row.name, seed] for seed in comparison.seeds]


def _over(comparisons: Sequence[Comparison], row: Row, found: Mapping[str, Record]) -> dict[str, Any]:
    """Return OOD test of a row on one data set: mean and deviation over seeds of the mean over its splits."""
    runs = [[found.get(one) for one in _ids(comparison, row)] for comparison in comparisons]
    by_seed = [mean_of(OOD.value(run) for run in some if run is not None).mean for some in zip(*runs, strict=True)]
    mean: Mean = mean_of(by_seed)
    known = sum(run is not None for some in runs for run in some)
    wanted = sum(map(len, runs))
    return {"ood_test": mean.to_dict() if mean.known else None, "runs": known, "wanted": wanted}


def differences(
    suite: Suite,
    first: Mapping[str, Row],
    second: Mapping[str, Row],
    found: Mapping[str, Record],
    store: PredictionStore | None,
) -> dict[str, Any]:
    """Return the difference of a row to another on each data set and in the mean, with intervals, or why there is none.

    Args:
        suite: The data sets.
        first: The row on each data set.
        second: The other row on each data set.
        found: Records of the runs by id.
        store: Where predictions are kept.
    """
    parts: dict[str, list[Pair] | str] = {}
    for title, some in suite.data.items():
        rows = first[title], second[title]
        pairs = [paired.NOT_KEPT if store is None else _pair(one, *rows, found, store) for one in some]
        reasons = [pair for pair in pairs if isinstance(pair, str)]
        parts[title] = reasons[0] if reasons else [pair for pair in pairs if not isinstance(pair, str)]
    whole = [part for part in parts.values() if not isinstance(part, str)]
    if not whole:
        reason = next(part for part in parts.values() if isinstance(part, str))
        return {"difference": reason, "differences": dict.fromkeys(parts, reason)}
    mean, each = paired.differences(whole)
    made = iter(each)
    by_data: dict[str, Any] = {
        title: part if isinstance(part, str) else next(made).to_dict() for title, part in parts.items()
    }
    by_data |= {title: None for title, row in second.items() if row == first[title]}  # a row and itself
    left = len(parts) - len(whole)
    total: Any = mean.to_dict() if not left else f"{counted(left, 'data set')} {paired.NOT_KEPT}"
    return {"difference": total, "differences": by_data}


def _pair(
    comparison: Comparison, first: Row, second: Row, found: Mapping[str, Record], store: PredictionStore
) -> Pair | str:
    return paired.pair_up(*(comparison.predictions_of(row, found, store) for row in (first, second)))


def table(report: Mapping[str, Any]) -> Table:
    """Return the table of a suite's report: the mean over data sets first, then each data set."""
    rows, wanted, against = report["rows"], len(report["seeds"]), report["against"]
    columns: list[tuple[str, list[Cell]]] = [("", [Cell(row["title"]) for row in rows])]
    means = [score(row) for row in rows]
    lowest = bool(report["metrics"]) and all(metric in LOWER_IS_BETTER for metric in report["metrics"])
    columns.append(("mean", ranked(means, lowest=lowest)))
    if against:
        columns.append((f"difference to {against}", [paired.cell(row["difference"], wanted) for row in rows]))
    for title in report["data"]:
        columns.append((title, ranked([score(row, title) for row in rows], lowest=lowest)))
        if against:
            gains = [paired.cell(row.get("differences", {}).get(title), wanted) for row in rows]
            columns.append(("difference", gains))
    return Table.of_columns(columns, _title(report), _note(report), [str(row["group"]) for row in rows])


def score(row: Mapping[str, Any], title: str | None = None) -> Cell:
    """Return OOD test of a row of a suite's report, on one data set or in the mean over all."""
    own = list(row["data"].values()) if title is None else [row["data"][title]]
    found = (row if title is None else own[0])["ood_test"]
    runs, wanted = (sum(one[key] for one in own) for key in ("runs", "wanted"))
    if found is None:
        return Cell(FAILED if row["failed"] else NOT_RUN if not runs else f"{runs} of {wanted} runs")
    remark = "" if runs == wanted else f"({runs} of {wanted} runs)"
    return Cell.mean(**found, digits=OOD.digits, remark=remark, given=remark)


def _title(report: Mapping[str, Any]) -> str:
    return f"suite {report['suite']}, {counted(len(report['data']), 'data set')}, budget {report['budget']}"


def _note(report: Mapping[str, Any]) -> str:
    """Return what the numbers are."""
    scores = " or ".join(SCORES.get(metric, metric) for metric in report["metrics"]) or "Test score in %"
    parts = [f"On OOD test: {scores}, {over_seeds(len(report['seeds']))}."]
    several = [f"{title} {len(some)} splits" for title, some in report["data"].items() if len(some) > 1]
    if several:
        parts.append(f"Averaged over splits: {', '.join(several)}.")
    if report["against"] or report["pairs"]:
        parts.append(differences_note(report["metrics"]))
    if report["preferred"]:
        chosen = ", ".join(f"{title} {row}" for title, row in report["preferred"].items())
        parts.append(f"Differences are to the one of them that is better on OOD validation: {chosen}.")
    for pair in report["pairs"]:
        words = {"mean": pair["difference"], **pair["differences"]}
        texts = [f"{name} {paired.cell(found, len(report['seeds'])).text}" for name, found in words.items()]
        parts.append(f"{pair['first']} minus {pair['second']}: {'; '.join(texts)}.")
    return " ".join(parts)
