"""What of the paper reproduces and what does not, claim by claim, from records and measurements alone.

The claims are in ``claims.yaml`` and the paper's numbers in ``paper.yaml``. A verdict follows from a rule in `RULES`,
which the page prints. Verdicts are about the paper's method: the presets ``paper`` and ``as_published``. Our GOODFormer
is another method and is shown apart, without a verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.data.readers.values import counted
from goodformer.errors import InputError
from goodformer.report.artefacts import (
    FULL,
    HIV,
    MEDIUM,
    MOTIF,
    REDUCED,
    SENSITIVITY,
    SHORT,
    SPURIOUS,
    THEIRS,
    compared,
)
from goodformer.report.compare import Comparison
from goodformer.report.metrics import METRICS, SELECTION_NAMES, by_rule
from goodformer.report.paper import read_list
from goodformer.report.records import INFERENCE, Interval, Mean, Record, timed_records, welch
from goodformer.report.rows import GOODFORMER, PAPER
from goodformer.report.table import ABSENT, NOT_RUN, Cell

SEEDS = 3
BUDGETS = (FULL, MEDIUM, SHORT, REDUCED)
"""Budgets from large to small; the largest one with a record is shown."""
DATA: dict[str, Mapping[str, Any]] = {**MOTIF, **HIV, **THEIRS, **SPURIOUS}
REPRODUCED, NOT_REPRODUCED, NOT_DECIDED, DEPENDS, NOT_TESTED = VERDICTS = (
    "reproduced",
    "not reproduced",
    "not decided",
    "depends on the selection rule",
    "not tested",
)
JUDGED = ("paper", "as_published")
"""Presets that verdicts are about."""
OURS = "default"
FEW = 3
"""Rows that a claim lists by name."""
BASELINES = [row.name for row in PAPER if row.name != GOODFORMER]
ENOUGH, CLOSE = 3, 0.01
"""Values of a loss weight that must be above the other row; relative error of a formula."""

RULES = {
    "tested": (
        "A number or an order is tested at the paper's budget only: budget full (all graphs, the paper's epochs) and "
        f"{SEEDS} seeds. With a smaller budget or fewer seeds the verdict is *{NOT_TESTED}* and the figure is shown."
    ),
    "selection": (
        "The paper does not say how it selects the reported epoch. Ours is chosen on OOD validation, as in its "
        "published code and in the GOOD benchmark. No verdict on a number hinges on this choice: each number is also "
        "taken at the epoch that is best on ID validation and at the last epoch. If some of the three means pass and "
        f"the others fail beyond the scatter of the runs, the verdict is *{DEPENDS}*."
    ),
    "number": (
        f"A number is *{REPRODUCED}* if our mean lies within the paper's mean ± 1 standard deviation or above it under "
        f"all three selection rules. If it lies below under all three, it is *{NOT_REPRODUCED}* or *{NOT_DECIDED}*. "
        "The caption of the paper's table calls the values after ± variances, its text calls them standard deviations "
        "of three runs; we read them as standard deviations."
    ),
    "power": (
        f"Three runs decide little if they scatter. A shortfall counts (*{NOT_REPRODUCED}*) only if a 95 % Welch "
        f"interval of the difference of the two means excludes 0, for a number under all three selection rules. "
        f"Otherwise the verdict is *{NOT_DECIDED}*."
    ),
    "order": (
        f"An order is *{REPRODUCED}* if GOODFormer's mean is above the means of all other rows. It is "
        f"*{NOT_REPRODUCED}* as soon as one of them, with all seeds, reaches it and the difference counts, and "
        f"*{NOT_DECIDED}* if some reach it but no difference counts. All rows are taken at the epoch chosen on OOD "
        "validation."
    ),
    "range": (
        f"A range is *{REPRODUCED}* if, for each loss weight, GOODFormer's mean is above the other row's for at least "
        f"{ENOUGH} of the tried values. It is *{NOT_DECIDED}* if the values whose shortfall does not count "
        f"could complete them, else *{NOT_REPRODUCED}*."
    ),
    "ratio": (
        "Seconds per epoch do not depend on the number of epochs, and machines differ: any budget counts, and the "
        f"ratio to another method is compared. It is *{REPRODUCED}* if it is at most the paper's, else "
        f"*{NOT_REPRODUCED}*. With fewer than {SEEDS} runs of either method it is *{NOT_TESTED}*."
    ),
    "theory": (
        f"A statement about any logits is *{REPRODUCED}* if it holds in every measured case, and a formula if its "
        f"relative error is at most {CLOSE:.0%}. A statement about trained models, and the complexity, are tested with "
        "the paper's presets only."
    ),
    "dispersion": (
        f"Attention disperses (*{REPRODUCED}*) if its largest weight on the largest graphs is less than half of that "
        "on the smallest. The temperature helps if it raises the mean accuracy over all graph sizes."
    ),
    "speed": f"The complexity is *{REPRODUCED}* if time per graph grows at most with the square of its nodes.",
}


@dataclass(frozen=True)
class Evidence:
    """All that was measured: records of runs by id, and the files of theory and speed."""

    records: Mapping[str, Record]
    theory: Mapping[str, Any] | None = None
    speed: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, sources: Sequence[Path]) -> Evidence:
        """Read files and folders of records; ``theory.json`` is in such a folder and ``benchmarks`` beside it."""

        def first(paths: Iterator[Path]) -> Mapping[str, Any] | None:
            found: Mapping[str, Any] | None = next((files.read_json(path) for path in paths if path.is_file()), None)
            return found

        theory = first(source / "theory.json" for source in sources)
        speed = first(source.resolve().parent / "benchmarks" / "latest.json" for source in sources)
        return cls(timed_records(sources), theory, speed)


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim with one version of GOODFormer.

    Args:
        version: Preset of GOODFormer.
        measured: The figure in words.
        runs: The budget, its graphs and epochs, and the seeds behind the figure.
        verdict: One of `VERDICTS`.
        reason: Why it is not tested.
    """

    version: str
    measured: str = NOT_RUN
    runs: str = ABSENT
    verdict: str = NOT_TESTED
    reason: str = "no run"

    @property
    def words(self) -> str:
        """Return the verdict, and the reason if it is not tested."""
        return f"{self.verdict} ({self.reason})" if self.verdict == NOT_TESTED else f"**{self.verdict}**"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Args:
        about: What is claimed.
        reports: What the paper reports.
        findings: One per version that is judged.
        ours: The same measurement of our GOODFormer, which has no verdict.
    """

    about: str
    reports: str
    findings: Sequence[Finding]
    ours: Finding = field(default_factory=lambda: Finding(OURS))


@dataclass(frozen=True)
class Group:
    """The claims of a table, figure or section of the paper."""

    title: str
    place: str
    says: str
    claims: Sequence[Claim]


# ------------------------------------------------------------------------------------------ evidence


@dataclass(frozen=True)
class Measured:
    """The recorded runs of a row under a budget."""

    comparison: Comparison
    row: str
    records: Sequence[Record]

    def knows(self, metric: str) -> bool:
        """Whether all seeds have a value of a metric; one that diverged has none."""
        return self.mean(metric).known >= SEEDS

    @property
    def runs(self) -> str:
        """Return the budget, its graphs and epochs, and the seeds, in words."""
        config = self.comparison.configs[self.row, self.comparison.seeds[0]]
        graphs = next((record["train_graphs"] for record in self.records if record.get("train_graphs")), None)
        size = "" if graphs is None else f"{graphs:,} graphs, "
        epochs = counted(config.training.epochs, "epoch")
        return f"{self.comparison.budget} ({size}{epochs}), {len(self.records)} of {counted(SEEDS, 'seed')}"

    def mean(self, metric: str) -> Mean:
        """Return mean and deviation of a metric."""
        return METRICS[metric].over(self.records)


def measured(
    evidence: Evidence, dataset: Mapping[str, Any], row: str, budget: str, changes: tuple[str, ...] = ()
) -> Measured:
    """Return what is recorded of a row under a budget."""
    comparison = compared(dataset, row, budget, SEEDS, changes)
    ids = [comparison.ids[row, seed] for seed in comparison.seeds]
    records = [evidence.records[one] for one in ids if "config" in evidence.records.get(one, {})]
    return Measured(comparison, row, records)


def row_of(preset: str) -> str:
    """Return the row of GOODFormer under a preset."""
    return GOODFORMER if preset == OURS else f"{GOODFORMER}:{preset}"


def _text(metric: str, mean: Mean) -> str:
    return Cell.mean(mean.mean, mean.std, METRICS[metric].digits).plain()


def _interval(metric: str, gap: Interval) -> str:
    digits = METRICS[metric].digits
    return f"{gap.mean:+.{digits}f} [{gap.low:+.{digits}f}, {gap.high:+.{digits}f}]"


def _reported(metric: str, dataset: Mapping[str, Any], row: str) -> Sequence[float]:
    """Return the paper's mean and, if it has one, deviation of a row."""
    name = GOODFORMER if row == row_of("paper") else row
    found = METRICS[metric].published(compared(dataset, "erm", FULL, 1).settings, name)
    if found is None:
        raise InputError(f"paper.yaml has no {metric} of {name} on {dict(dataset)}; add it or change claims.yaml.")
    return found


def _reported_text(metric: str, dataset: Mapping[str, Any], row: str) -> str:
    mean, std = (*_reported(metric, dataset, row), None)[:2]
    return Cell.mean(mean, std, METRICS[metric].digits).plain()


def _untested(one: Measured, metric: str) -> str:
    """Return why a figure does not decide a claim; empty if it does."""
    if one.comparison.budget != FULL:
        return f"budget {one.comparison.budget}"
    return "" if one.knows(metric) else f"{one.mean(metric).known} of {counted(SEEDS, 'seed')}"


# ------------------------------------------------------------------------------------------ kinds of claims


def number(evidence: Evidence, claim: Mapping[str, Any], data: str) -> Claim:
    """Compare GOODFormer's mean with the paper's mean and deviation."""
    dataset, metric = DATA[data], claim.get("metric", "ood_test")
    published = _reported(metric, dataset, row_of("paper"))

    def finding(preset: str) -> Finding:
        for budget in BUDGETS:
            one = measured(evidence, dataset, row_of(preset), budget)
            mean = one.mean(metric)
            if mean.mean is None:
                continue
            text, reason, verdict = _text(metric, mean), _untested(one, metric), NOT_TESTED
            rules = {rule: by_rule(metric, rule, one.records) for rule in SELECTION_NAMES}
            known = {
                rule: mean.mean
                for rule, mean in rules.items()
                if mean.mean is not None and mean.known == len(one.records)
            }
            if not reason and len(known) < len(rules):
                reason = f"{len(known)} of {counted(len(rules), 'selection rule')} recorded"
            if not reason and preset != OURS:
                text = ", ".join(f"{_text(metric, mean)} ({SELECTION_NAMES[rule]})" for rule, mean in rules.items())
                passed = [value >= published[0] - published[1] for value in known.values()]
                if all(passed):
                    verdict = REPRODUCED
                else:
                    gaps = [welch(mean, Mean(published[0], published[1], SEEDS)) for mean in rules.values()]
                    text = f"{text}; difference to the paper {', '.join(_interval(metric, gap) for gap in gaps)}"
                    if any(gap.undecided for gap, good in zip(gaps, passed, strict=True) if not good):
                        verdict = NOT_DECIDED
                    else:
                        verdict = DEPENDS if any(passed) else NOT_REPRODUCED
            if metric == "precision_at_10" and (logits := one.mean("precision_at_10_logits")).mean is not None:
                text = f"{text}; by logits {_text(metric, logits)}"
            return Finding(preset, text, one.runs, verdict, reason)
        return Finding(preset)

    about, digits = f"{data}: {METRICS[metric].head} of GOODFormer", METRICS[metric].digits
    reports = _reported_text(metric, dataset, row_of("paper"))
    return _claim(claim, about, f"{reports}, so at least {published[0] - published[1]:.{digits}f}", finding, ours=True)


def order(evidence: Evidence, claim: Mapping[str, Any], data: str, rivals: Sequence[str]) -> Claim:
    """Compare GOODFormer's mean with those of other rows under one budget."""
    dataset, metric = DATA[data], claim.get("metric", "ood_test")
    titles = {row.name: row.title for row in compared(dataset, ",".join(rivals), FULL, 1).rows}

    def finding(preset: str) -> Finding:
        for budget in BUDGETS:
            one = measured(evidence, dataset, row_of(preset), budget)
            others = {row: measured(evidence, dataset, row, budget) for row in rivals}
            known = {row: other for row, other in others.items() if other.mean(metric).mean is not None}
            mean = one.mean(metric)
            if mean.mean is None or not known:
                continue
            means = {row: other.mean(metric) for row, other in known.items()}
            reached = [row for row, other in means.items() if (other.mean or 0.0) >= mean.mean]
            text = f"{_text(metric, mean)} against {_text(metric, next(iter(means.values())))}"
            if len(rivals) > 1:
                text = f"{_text(metric, mean)}, above {len(known) - len(reached)} of {len(known)} recorded rows"
                text += f"; not above {', '.join(titles[row] for row in reached)}" if reached else ""
            fewest = min(len(other.records) for other in known.values())
            runs = one.runs if fewest == SEEDS else f"{one.runs}; other rows at least {fewest}"
            if reason := _untested(one, metric):
                return Finding(preset, text, runs, reason=reason)
            missing = [row for row in rivals if not others[row].knows(metric)]
            if any(row not in missing and not welch(mean, means[row]).undecided for row in reached):
                return Finding(preset, text, runs, NOT_REPRODUCED, "")
            if missing:
                return Finding(preset, text, runs, reason=f"{len(missing)} of {len(rivals)} other rows incomplete")
            return Finding(preset, text, runs, NOT_DECIDED if reached else REPRODUCED, "")
        return Finding(preset)

    reports = _reported_text(metric, dataset, row_of("paper"))
    if len(rivals) == 1:
        reports = f"{reports} against {_reported_text(metric, dataset, rivals[0])}"
        about = f'{data}: the full model is above the variant "{titles[rivals[0]].partition(", ")[2]}"'
    else:
        best = max(rivals, key=lambda row: _reported(metric, dataset, row)[0])
        reports = f"{reports}; best other row {_reported_text(metric, dataset, best)} ({titles[best]})"
        if _reported(metric, dataset, best)[0] >= _reported(metric, dataset, row_of("paper"))[0]:
            reports += ", not below it in the paper itself"
        names = " and ".join([", ".join(titles[row] for row in rivals[:-1]), titles[rivals[-1]]])
        others = names if len(rivals) <= FEW else f"all {len(rivals)} other rows"
        about = f"{data}: {METRICS[metric].head} of GOODFormer is above {others}"
    return _claim(claim, about, reports, finding)


def wide_range(evidence: Evidence, claim: Mapping[str, Any], data: str) -> Iterator[Claim]:
    """Compare GOODFormer's means over the tried values of each loss weight with one row, a claim per weight."""
    dataset, metric, rival = DATA[data], "ood_test", claim["above"]
    title = compared(dataset, rival, FULL, 1).rows[0].title
    for weight, (setting, values) in SENSITIVITY.items():

        def finding(preset: str, setting: str = setting, values: Sequence[float] = values) -> Finding:
            for budget in BUDGETS:
                other = measured(evidence, dataset, rival, budget)
                tried = {
                    value: measured(evidence, dataset, row_of(preset), budget, (f"method.{setting}={value:g}",))
                    for value in values
                }
                level, means = other.mean(metric), {value: one.mean(metric) for value, one in tried.items()}
                known = {value: mean.mean for value, mean in means.items() if mean.mean is not None}
                if level.mean is None or not known:
                    continue
                above = [value for value, mean in known.items() if mean > level.mean]
                numbers = ", ".join(f"{mean:.2f} at {value:g}" for value, mean in known.items())
                text = f"above for {len(above)} of {counted(len(known), 'value')}: {numbers}; {title} {level.mean:.2f}"
                fewest = min((tried[value] for value in known), key=lambda one: one.mean(metric).known)
                missing = "" if len(known) == len(values) else f"{len(known)} of {len(values)} values run"
                if reason := _untested(fewest, metric) or _untested(other, metric) or missing:
                    return Finding(preset, text, fewest.runs, reason=reason)
                unclear = [value for value in known if value not in above and welch(means[value], level).undecided]
                enough, possible = len(above) >= ENOUGH, len(above) + len(unclear) >= ENOUGH
                verdict = REPRODUCED if enough else NOT_DECIDED if possible else NOT_REPRODUCED
                return Finding(preset, text, fewest.runs, verdict, "")
            return Finding(preset)

        yield _claim(claim, f"{data}: GOODFormer is above {title} over {weight}", "a curve, no numbers", finding)


def ratio(evidence: Evidence, claim: Mapping[str, Any], data: str) -> Claim:
    """Compare the ratio of GOODFormer's time to another row's with the paper's ratio."""
    dataset, metric, unit = DATA[data], claim["metric"], claim["to"]
    title = compared(dataset, unit, FULL, 1).rows[0].title
    ours, theirs = (_reported(metric, dataset, row) for row in (row_of("paper"), unit))
    limit = ours[0] / theirs[0]

    def times(row: str, budget: str) -> tuple[Measured, Mean]:
        comparison = compared(dataset, row, budget, SEEDS)
        found = [evidence.records.get(comparison.ids[row, seed], {}) for seed in comparison.seeds]
        wanted = [record for record in found if METRICS[metric].value(record) is not None]
        return Measured(comparison, row, wanted), METRICS[metric].over(wanted)

    def finding(preset: str) -> Finding:
        shown = Finding(preset)
        for budget in BUDGETS:
            (one, mine), (base, other) = times(row_of(preset), budget), times(unit, budget)
            if mine.mean is None or other.mean is None:
                continue
            found = mine.mean / other.mean
            text = f"{found:.1f} x ({mine.mean:.1f} s against {other.mean:.1f} s, one CPU core)"
            runs = f"{budget}, {counted(len(one.records), 'run')} against {len(base.records)} of {title}"
            if one.knows(metric) and base.knows(metric):
                return Finding(preset, text, runs, REPRODUCED if found <= limit else NOT_REPRODUCED, "")
            if shown.measured == NOT_RUN:
                shown = Finding(preset, text, runs, reason=f"fewer than {SEEDS} runs of each")
        return shown

    what = "time for inference" if metric == INFERENCE else "training time per epoch"
    reports = f"{limit:.1f} x ({ours[0]:g} s against {theirs[0]:g} s, one V100)"
    return _claim(
        claim,
        f"{data}: {what} of GOODFormer relative to {title} is at most the paper's ratio",
        reports,
        finding,
        ours=True,
    )


def _claim(
    claim: Mapping[str, Any], about: str, reports: str, finding: Callable[[str], Finding], ours: bool = False
) -> Claim:
    """Return a claim with a finding per version; orders of ours are left out, since others did not have its inputs."""
    findings = [finding(preset) for preset in claim.get("presets", JUDGED)]
    own = replace(finding(OURS), verdict=NOT_TESTED, reason="ours") if ours else Finding(OURS)
    return Claim(about, reports, findings, own)


def theory(evidence: Evidence, claim: Mapping[str, Any]) -> Claim:
    """Check a measurement of the theorems: a statement about any logits, or one about trained models."""
    general = {
        "bound": ("Theorem 1, its bound: differences of weights stay below it, and it falls with n", _bound),
        "entropy": ("Theorem 2: entropy rises with the temperature", _entropy),
        "derivative": ("Proof of Theorem 2: dH/dt = sum of e² p (1 - p) / t³", _derivative),
    }
    trained = {
        "dispersion": ("Attention of trained models disperses as graphs grow", _dispersion),
        "temperature": ("The test-time temperature raises the accuracy on graphs of other sizes", _temperature),
    }
    record = evidence.theory or {"runs": []}
    if claim["check"] in general:
        about, check = general[claim["check"]]
        text, holds = check(record) if "dispersion" in record else (NOT_RUN, None)
        done = Finding("any", text, "lab.theory", REPRODUCED if holds else NOT_REPRODUCED, "")
        return Claim(about, "a proof", [Finding("any") if holds is None else done])

    about, look = trained[claim["check"]]

    def finding(preset: str) -> Finding:
        runs = [run for run in record["runs"] if run["preset"] == preset]
        if not runs:
            return Finding(preset, reason="measured with ours only" if record["runs"] else "no run")
        text, holds = look([cell for run in runs for cell in run["cells"]])
        seeds = len([run for run in runs if run["budget"] == FULL])
        about = f"lab.theory, {counted(len(runs), 'run')}"
        if seeds < SEEDS:
            return Finding(preset, text, about, reason=f"{seeds} of {SEEDS} full runs")
        return Finding(preset, text, about, REPRODUCED if holds else NOT_REPRODUCED, "")

    return _claim(claim, about, "an argument, no numbers", finding, ours=True)


Answer = tuple[str, bool]
"""A measurement in words, and whether the claim holds in it."""


def _bound(record: Mapping[str, Any]) -> Answer:
    rows, cells = record["dispersion"], [cell for run in record["runs"] for cell in run["cells"]]
    broken = sum(row["gap"] >= row["gap_bound"] for row in rows)
    falls = all(one["gap_bound"] > other["gap_bound"] for one, other in pairwise(rows))
    violated = sum(sum(cell["broken"].values()) for cell in cells)
    sizes = f"{rows[0]['nodes']:,} to {rows[-1]['nodes']:,} nodes"
    text = f"random logits, {sizes}: {broken} of {counted(len(rows), 'size')} violate it; trained: {violated:.0f} rows"
    return text, falls and not broken and not violated


def _entropy(record: Mapping[str, Any]) -> Answer:
    rises = [row["rises"] for row in record["temperature"]]
    return f"rises everywhere for {sum(rises)} of {counted(len(rises), 'set')} of logits", all(rises)


def _derivative(record: Mapping[str, Any]) -> Answer:
    ratios = [ratio for row in record["temperature"] for ratio in row["published_ratio"]]
    text = f"{min(ratios):.3g} to {max(ratios):.3g} times the exact derivative Var(e) / t³"
    return text, all(abs(ratio - 1) <= CLOSE for ratio in ratios)


def _dispersion(cells: Sequence[Mapping[str, Any]]) -> Answer:
    small, large = min(cell["nodes"] for cell in cells), max(cell["nodes"] for cell in cells)
    first, last = (
        statistics.fmean(cell["largest"]["none"] for cell in cells if cell["nodes"] == n) for n in (small, large)
    )
    return f"largest weight over all bases {first:.3f} at {small} nodes, {last:.3f} at {large}", last < first / 2


def _temperature(cells: Sequence[Mapping[str, Any]]) -> Answer:
    gain = 100 * statistics.fmean(cell["accuracy"]["exact"] - cell["accuracy"]["none"] for cell in cells)
    return f"{gain:+.2f} points of accuracy over all bases and sizes", gain > 0


def speed(evidence: Evidence, claim: Mapping[str, Any]) -> Claim:
    """Check a measurement of speed; the committed one is of our GOODFormer."""
    about, reports = "Time per graph grows at most with the square of its nodes", "O(n²) in the nodes"
    exponent = None if evidence.speed is None else evidence.speed["figures"].get("node_exponent")
    if exponent is None:
        return Claim(about, reports, [Finding("paper")])
    text = f"nodes^{exponent:.2f} from 20 to 500 nodes"
    ours = Finding(OURS, text, "benchmarks.speed", reason="ours")
    return Claim(about, reports, [Finding("paper", reason="measured with ours only")], ours)


def groups(evidence: Evidence) -> list[Group]:
    """Return all claims with their findings."""
    return [
        Group(title=one["title"], place=one["place"], says=one["says"], claims=list(_claims(evidence, one["claims"])))
        for one in read_list("claims.yaml")
    ]


def _claims(evidence: Evidence, entries: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    """Yield the claims that the entries of the file stand for."""
    for claim in entries:
        kind = claim["kind"]
        if kind in ("theory", "speed"):
            yield {"theory": theory, "speed": speed}[kind](evidence, claim)
        for data in claim.get("data", ()):
            if kind == "number":
                yield number(evidence, claim, data)
            elif kind == "ratio":
                yield ratio(evidence, claim, data)
            elif kind == "range":
                yield from wide_range(evidence, claim, data)
            elif "each" in claim:
                yield from (order(evidence, claim, data, [row]) for row in claim["each"])
            else:
                above = BASELINES if claim["above"] == "baselines" else claim["above"]
                yield order(evidence, claim, data, above)
