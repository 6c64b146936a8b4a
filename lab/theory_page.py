"""The tables of docs/theory.md, computed from the record that `lab.theory` writes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goodformer.report.records import mean_of
from goodformer.report.table import Cell, Table, insert
from lab.theorems import COMPARED
from lab.trained import BASES, SETTINGS

Record = Mapping[str, Any]

THIN = ("path", "tree")
"""The bases whose tables have all columns."""
EMPTY = "No trained run was measured; `python -m lab.theory --run RUN` measures one."
SOLVED = (
    ("entropy", "entropy", 1),
    ("kept in the motif", "kept", 1),
    ("accuracy %", "accuracy", 100),
    ("Precision@10", "precision_at_10", 1),
)
"""Title, key and scale of the quantities shown without and with the solved temperature."""
BY_BASE: tuple[tuple[str, str, str | None, float], ...] = (
    ("accuracy %, t = 1", "accuracy", "none", 100),
    ("accuracy %, solved t", "accuracy", "exact", 100),
    ("solved t", "temperature", None, 1),
)
"""Title, key, setting and scale of the quantities shown per base."""


def write(record: Record, page: Path) -> bool:
    """Put the tables of a record between the markers of a page; return whether the page changed."""
    changed = [insert(page, f"theory-{name}", body) for name, body in blocks(record).items()]
    return any(changed)


def blocks(record: Record) -> dict[str, str]:
    """Return the tables by the names of their markers."""
    trained = bool(record["runs"])
    return {
        "random": random_table(record),
        "slope": slope_table(record),
        "attention": f"{attention_table(record)}\n\n{premises(record)}" if trained else EMPTY,
        "solved": f"{solved_table(record)}\n\n{base_table(record)}\n\n{summary(record)}" if trained else EMPTY,
        "origin": origin(record),
    }


def spread(values: Iterable[float | None], scale: float) -> str:
    """Return mean and standard deviation over runs."""
    mean, std, _ = mean_of(None if value is None else scale * value for value in values)
    return Cell.mean(mean, std, 2 if scale == 100 else 3).plain()


def random_table(record: Record) -> str:
    """Return the table of random logits against Theorem 1's bound and the two simple ones."""
    head = ["n", "gap", "worst case", "bound", "largest weight", "bound", "lowest entropy", "bound"]
    keys = ("gap", "gap_worst", "gap_bound", "largest", "largest_bound", "entropy", "entropy_bound")
    rows = [[str(row["nodes"]), *(f"{row[key]:.3g}" for key in keys)] for row in record["dispersion"]]
    return Table.of(head, rows).markdown()


def slope_table(record: Record) -> str:
    """Return the table of differences between the formula for dH/dt and other ways to compute it."""
    head = ["logits", "H rises", "error vs autograd", "error vs central differences"]
    head += [f"paper / exact, t = {t:g}" for t in COMPARED]
    rows = [
        [
            row["name"],
            "everywhere" if row["rises"] else "not everywhere",
            *(f"{row[key]:.1e}" for key in ("error_autograd", "error_difference")),
            *(f"{ratio:.3g}" for ratio in row["published_ratio"]),
        ]
        for row in record["temperature"]
    ]
    return Table.of(head, rows).markdown()


def attention_table(record: Record) -> str:
    """Return the table of trained attention at t = 1 against the bounds, over paths and trees."""
    head = ["n", "logit range of a row", "largest weight", "bound", "entropy", "bound", "log n"]
    keys = (("spread", None), *((name, "none") for name in ("largest", "largest_bound", "entropy", "entropy_bound")))
    rows = [
        [str(n), *(spread(over_runs(record, n, *key), 1) for key in keys), f"{math.log(n):.3f}"] for n in sizes(record)
    ]
    return Table.of(head, rows).markdown()


def premises(record: Record) -> str:
    """Say how far Theorem 1's premises hold for the trained models."""
    every = [cell for run in record["runs"] for cell in run["cells"]]
    thin = [cell for cell in every if cell["base"] in THIN]
    low, high = min(cell["low"] for cell in every), max(cell["high"] for cell in every)
    broken = sum(sum(cell["broken"].values()) for cell in every)
    inside, outside = (statistics.fmean(cell[name] for cell in thin) for name in ("inside", "outside"))
    return (
        f"Over all five bases the logits lie between {low:.1f} and {high:.1f}. Rows that violate a bound, at t = 1 or "
        f"at the solved t: {broken:.0f}. On paths and trees, {inside:.0%} of the pairs within the motif have E > 0 and "
        f"{outside:.0%} of the pairs from motif to base have E < 0."
    )


def solved_table(record: Record) -> str:
    """Return the table of what the solved temperature changes, over paths and trees."""
    head = ["n", "solved t", *(f"{name}, {word}" for name, _, _ in SOLVED for word in ("t = 1", "solved t"))]
    rows = [
        [
            str(n),
            spread(over_runs(record, n, "temperature"), 1),
            *(spread(over_runs(record, n, key, one), scale) for _, key, scale in SOLVED for one in SETTINGS),
        ]
        for n in sizes(record)
    ]
    return Table.of(head, rows).markdown()


def base_table(record: Record) -> str:
    """Return the table of accuracy and solved temperature for every base and size."""
    rows = [
        [base, name, *(spread(over_runs(record, n, key, setting, (base,)), scale) for n in sizes(record))]
        for base in BASES
        for name, key, setting, scale in BY_BASE
    ]
    return Table.of(["base", "quantity", *(f"n = {n}" for n in sizes(record))], rows).markdown()


def summary(record: Record) -> str:
    """List the change from the smallest size to the largest, one line per kind of base."""
    small, large = sizes(record)[0], sizes(record)[-1]

    def moved(key: str, setting: str, bases: Sequence[str]) -> str:
        ends = (statistics.fmean(over_runs(record, n, key, setting, bases)) for n in (small, large))
        return " to ".join(f"{100 * end:.1f} %" for end in ends)

    lines = [f"From n = {small} to n = {large}:", ""]
    for bases in (THIN, *((base,) for base in BASES if base not in THIN)):
        plain, exact = (moved("accuracy", setting, bases) for setting in SETTINGS)
        lines.append(f"- accuracy on {' and '.join(bases)} bases: {plain} at t = 1, {exact} with the solved t;")
    pairs = zip(*(over_runs(record, large, "accuracy", setting) for setting in SETTINGS), strict=True)
    gains = ", ".join(f"{100 * (exact - plain):+.1f}" for plain, exact in pairs)
    lines.append(f"- accuracy points gained by the solved t on path and tree bases at n = {large}, per run: {gains};")
    plain, exact = (moved("kept", setting, THIN) for setting in SETTINGS)
    lines.append(
        f"- attention that a motif node keeps in the motif, path and tree bases: {plain} at t = 1, {exact} with the "
        "solved t."
    )
    return "\n".join(lines)


def origin(record: Record) -> str:
    """Name the commit and the runs that were measured."""
    line = f"Measured at commit `{record['commit']}`"
    if not record["runs"]:
        return f"{line}, random logits only."
    of = record["runs"][0]
    names = ", ".join(f"`{run['id']}` (seed {run['seed']})" for run in record["runs"])
    return (
        f"{line}; runs of GOODFormer on GOOD-Motif / {of['domain']} / {of['shift']}, preset `{of['preset']}`, "
        f"{of['graphs']} graphs in all splits: {names}. {of['cells'][0]['graphs']} graphs per base and size. Mean "
        f"entropy during training: {spread([run['target'] for run in record['runs']], 1)}."
    )


def sizes(record: Record) -> list[int]:
    """Return the numbers of nodes measured, ascending."""
    return sorted({cell["nodes"] for run in record["runs"] for cell in run["cells"]})


def over_runs(
    record: Record, nodes: int, key: str, setting: str | None = None, bases: Sequence[str] = THIN
) -> list[float]:
    """Return one value per run at one size, the mean over the bases; runs without a value are left out."""
    means = []
    for run in record["runs"]:
        cells = [cell[key] for cell in run["cells"] if cell["nodes"] == nodes and cell["base"] in bases]
        known = [value for cell in cells if (value := cell[setting] if setting else cell) is not None]
        means += [statistics.fmean(known)] if known else []
    return means
