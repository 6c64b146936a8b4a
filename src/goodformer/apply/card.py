"""The model card that `fit` writes beside a model: the facts of ``report.json`` for a reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from goodformer.config.history import at_once
from goodformer.config.presets import member_table
from goodformer.data.readers.values import counted
from goodformer.engine.selection import describe_selection
from goodformer.fitted import describe_refit
from goodformer.spec import METRIC_NAMES, split_names

CARD = "card.md"
USES = {
    "train": "training",
    "id_val": "calibration, domain score",
    "id_test": "testing only",
    "test": "testing only",
}
"""What each split is used for; see `validation_use` for OOD validation."""
SURE = {
    False: "Calibration was learnt from ID validation ({}). Under a shift, probabilities are usually overconfident.",
    True: "Intervals were learnt from ID validation ({}). Under a shift, they usually hold fewer values than they say.",
}
"""What a model's uncertainty is worth, by whether it predicts measured values; with a place for a number of rows."""
LIMITS = (
    "Rows that `predict` marks as `outside` are unlike the training rows; do not trust their answers.",
    "Edge scores show what the model uses, not what causes the label.",
)


def validation_use(report: Mapping[str, Any]) -> str:
    """Return what OOD validation was used for, which depends on the model."""
    if members := report.get("members"):
        if all(at_once(one["method"]) for one in members):
            return "used, cross-fitted, to combine members"
        return "used to choose epochs and, cross-fitted, to combine members"
    return "used to choose the epoch" if report["epochs"] > 1 else "not used for fitting"


def card(report: Mapping[str, Any]) -> str:
    """Return the model card as Markdown.

    Args:
        report: The content of ``report.json``.
    """
    sure = SURE[not any(report["classes"].values())]
    parts = {
        "Data": _data(report),
        "Metrics": _metrics(report),
        "Calibration": _calibration(report),
        "Limits": _bullets([sure.format(counted(report["counts"]["id_val"], "row")), *LIMITS, *report["notes"]]),
        "Settings and versions": _settings(report),
    }
    targets = "; ".join(
        f"{target} ({' or '.join(map(str, of))})" if of else target for target, of in report["classes"].items()
    )
    title = f"# Model card: {', '.join(report['targets'])}"
    lead = f"{report['method']} on {report['model']}, fitted to {_files(report)}. It predicts {targets}."
    body = [f"## {name}\n\n{text}" for name, text in parts.items() if text]
    return "\n\n".join([title, lead, *body]) + "\n"


def _files(report: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in [one[1] for one in report["files"]] or [report["file"]])


def _data(report: Mapping[str, Any]) -> str:
    """Return how many rows were read, what was left out, and how they were split."""
    used = sum(report["counts"].values())
    facts = [
        f"{counted(report['rows'], 'row')}, {report['unreadable']} of them unreadable; {used} are used.",
        f"Split by {report['split']}: {report['distance'].get('sentence') or 'test rows resemble training rows.'}",
    ]
    if report["standardise"] != "none":
        facts.append(f"Molecules are standardised ({report['standardise']}) before they are read.")
    if report["conflicts"]:
        facts.append(f"{counted(report['conflicts'], 'molecule')} occur with different labels.")
    return _bullets(facts)


def _metrics(report: Mapping[str, Any]) -> str:
    """Return the metric of the model and of the baselines on each split, and how the epoch was chosen."""
    metric, baselines = report["metric"], (report["baseline"] or {"rows": {}})["rows"]
    names = split_names(report["split"], report["given"])
    columns = {report["method"]: report["splits"], **{name: one["splits"] for name, one in baselines.items()}}
    uses = {**USES, "val": validation_use(report)}
    rows = [
        [name, report["counts"][split], *(_number(of[split].get(metric)) for of in columns.values()), uses[split]]
        for split, name in names.items()
    ]
    rule = describe_selection(report["selection"], report["splits"], metric, names)
    chosen = f"Epoch {report['selected_epoch']} of {report['epochs']} was chosen: {rule}. "
    chosen = chosen if report["epochs"] > 1 else ""
    parts = []
    if members := report.get("members"):
        chosen, (member_heads, member_rows) = "", member_table(members, names)
        shown = [[_number(cell) if isinstance(cell, float | None) else cell for cell in row] for row in member_rows]
        parts = [f"Members, combined on {names['val']}:", _table(member_heads, shown)]
    heads = ["split", "rows", *(f"{METRIC_NAMES[metric]}, {name}" for name in columns), "use"]
    others = f"Baselines on the same rows: {', '.join(baselines)}." if baselines else "No baseline was fitted."
    if again := describe_refit(report):
        before = "Metrics and calibration are those of a model that knows the training rows alone."
        others = f"{others} {before} Afterwards {again}."
    return "\n\n".join([_table(heads, rows), *parts, f"{chosen}{others}"])


def _calibration(report: Mapping[str, Any]) -> str:
    """Return the calibration error on the test splits, before and after calibration."""
    measured, names = report.get("calibration") or {}, split_names(report["split"], report["given"])
    rows = [
        [names[split], *(_number(one[when][name]) for name in ("ece", "brier") for when in ("before", "after"))]
        for split, one in measured.items()
    ]
    heads = ["split", *(f"{name} {when}" for name in ("ECE", "Brier score") for when in ("before", "after"))]
    note = "ECE: expected calibration error, 0 is best. Calibration is fitted to ID validation."
    return f"{_table(heads, rows)}\n\n{note}" if rows else ""


def _settings(report: Mapping[str, Any]) -> str:
    """Return seed, run and versions; ``config.json`` of the run holds every setting."""
    versions = ", ".join(f"{name} {of}" for name, of in (report.get("versions") or {}).items() if of)
    facts = [f"Seed {report['seed']}, run `{report['run']}`, which holds all settings in `config.json`.", versions]
    return _bullets(fact for fact in facts if fact)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line[:1].upper()}{line[1:]}" for line in lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
