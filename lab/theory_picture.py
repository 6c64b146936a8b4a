"""The pictures of docs/theory.md, drawn from the record that `lab.theory` writes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from goodformer import files
from goodformer.data.benchmarks.motif import MOTIF_NODES
from goodformer.draw.palette import BLUE, FRAME, GREEN, GREY, INK, VERMILION
from lab.theory_page import Record, over_runs, sizes
from lab.trained import BASES, SETTINGS

PLAIN, SOLVED, BOUND = VERMILION, BLUE, GREY
COLOURS = dict(zip(SETTINGS, (PLAIN, SOLVED), strict=True))
NAMES = dict(zip(SETTINGS, ("t = 1", "solved t"), strict=True))
VECTORS = (BLUE, VERMILION, GREEN)
DPI = 110
TITLE, TEXT = 10.5, 9.0


def draw(record: Record, folder: Path) -> list[Path]:
    """Draw every picture that a record has data for into a folder, as ``theory-*.png``."""
    drawn = {"dispersion": dispersion, "temperature": temperature}
    if record["runs"]:
        drawn |= {"attention": attention, "solved": solved, "accuracy": accuracy}
    files.make_folder(folder)
    paths = []
    for name, make in drawn.items():
        path = folder / f"theory-{name}.png"
        files.write(path, partial(FigureCanvasAgg(make(record)).print_figure, dpi=DPI, format="png"))
        paths.append(path)
    return paths


def dispersion(record: Record) -> Figure:
    """Plot random bounded logits: the gap of Theorem 1 and the entropy, each with its bound."""
    figure, (left, right) = _panels(2)
    rows = record["dispersion"]
    n = [row["nodes"] for row in rows]
    left.loglog(n, [row["gap_bound"] for row in rows], "--", color=BOUND, label="bound of Theorem 1")
    left.loglog(n, [row["gap_worst"] for row in rows], "-", color=PLAIN, label="worst logits")
    left.loglog(n, [row["gap"] for row in rows], "o", color=SOLVED, markersize=5, label="random logits, widest gap")
    _label(left, "Weight inside less weight outside", "nodes n", "difference of attention weights")
    right.semilogx(n, [math.log(count) for count in n], ":", color=INK, label="log n, uniform attention")
    right.semilogx(n, [row["entropy"] for row in rows], "o", color=SOLVED, markersize=5, label="random logits, lowest")
    right.semilogx(n, [max(0, row["entropy_bound"]) for row in rows], "--", color=BOUND, label="bound log n - (M - m)")
    right.set_ylim(0, 10)
    _label(right, "Entropy of a row", "nodes n", "entropy (nats)")
    return figure


def temperature(record: Record) -> Figure:
    """Plot entropy over temperature and its derivative: the formula as lines, finite differences as dots."""
    figure, (left, right) = _panels(2)
    for row, colour in zip(record["temperature"], VECTORS, strict=True):
        left.semilogx(row["t"], row["entropy"], color=colour, label=row["name"])
        right.loglog(row["t"], row["slope"], color=colour)
        right.loglog(row["t"][::3], row["difference"][::3], "o", color=colour, markersize=4)
    right.plot([], [], color=INK, label="Var_p(e) / t³")
    right.plot([], [], "o", color=INK, markersize=4, label="finite differences")
    right.set_ylim(1e-4, 20)
    _label(left, "Entropy rises with temperature", "temperature t", "entropy (nats)")
    _label(right, "Its derivative", "temperature t", "dH/dt")
    _marks((left, right), (0.2, 0.5, 1, 2, 5, 10))
    return figure


def attention(record: Record) -> Figure:
    """Plot trained attention at t = 1 on growing paths and trees against the bounds of its logits."""
    figure, (left, right) = _panels(2)
    n = sizes(record)
    _line(left, record, "largest_bound", "none", color=BOUND, linestyle="--", label="bound exp(max - min) / n")
    _line(left, record, "largest", "none", color=PLAIN, marker="o", label="largest weight")
    left.plot(n, [1 / count for count in n], ":", color=INK, label="1 / n, uniform attention")
    left.set_yscale("log")
    _label(left, "Largest weight of a row", "nodes n", "attention weight")
    right.plot(n, [math.log(count) for count in n], ":", color=INK, label="log n, uniform attention")
    _line(right, record, "entropy", "none", color=PLAIN, marker="o", label="entropy")
    _line(right, record, "entropy_bound", "none", color=BOUND, linestyle="--", label="bound log n - (max - min)")
    right.set_ylim(bottom=0)
    _label(right, "Entropy of a row", "nodes n", "entropy (nats)")
    _marks((left, right), n)
    return figure


def solved(record: Record) -> Figure:
    """Plot the solved temperature on growing paths and trees: t, entropy, and attention kept in the motif."""
    figure, (first, second, third) = _panels(3)
    n = sizes(record)
    _line(first, record, "temperature", None, color=SOLVED, marker="o")
    _label(first, "Solved temperature", "nodes n", "t", legend=False)
    second.plot(n, [math.log(count) for count in n], ":", color=INK, label="uniform attention")
    _both(second, record, "entropy")
    _label(second, "Entropy of attention", "nodes n", "entropy (nats)", legend=False)
    third.plot(n, [MOTIF_NODES / count for count in n], ":", color=INK)
    _both(third, record, "kept")
    _label(third, "Attention a motif node keeps in the motif", "nodes n", "share", legend=False)
    for axes in (first, second, third):
        axes.set_ylim(bottom=0)
    third.set_ylim(top=1)
    _legend_above(figure, second)
    _marks((first, second, third), n)
    return figure


def accuracy(record: Record) -> Figure:
    """Plot accuracy with and without the solved temperature and Precision@10, one panel per base."""
    figure, panels = _panels(len(BASES), width=11, height=2.9, sharey=True)
    for axes, base in zip(panels, BASES, strict=True):
        axes.axhline(1 / 3, linestyle=":", color=INK, label="accuracy of guessing")
        _both(axes, record, "accuracy", (base,))
        _line(
            axes, record, "precision_at_10", "exact", (base,), color=BOUND, linestyle="--", label="Precision@10, both"
        )
        axes.set_ylim(0, 1.03)
        _label(axes, f"{base} bases", "nodes n", "share" if base == next(iter(BASES)) else "", legend=False)
    _legend_above(figure, panels[0])
    _marks(panels, sizes(record)[::2])
    return figure


def _both(axes: Axes, record: Record, key: str, bases: Sequence[str] | None = None) -> None:
    """Plot one quantity without and with the solved temperature."""
    word = f"{key}, " if key == "accuracy" else ""
    for setting in SETTINGS:
        _line(axes, record, key, setting, bases, color=COLOURS[setting], marker="o", label=f"{word}{NAMES[setting]}")


def _line(
    axes: Axes, record: Record, key: str, setting: str | None, bases: Sequence[str] | None = None, **style: Any
) -> None:
    """Plot one quantity over size: the mean over runs as a thick line, each run as a thin one."""
    chosen: dict[str, Any] = {} if bases is None else {"bases": bases}
    n = sizes(record)
    found = [over_runs(record, nodes, key, setting, **chosen) for nodes in n]
    if not all(found):  # a method that does not score edges has no precision
        return
    for single in zip(*found, strict=True) if len(found[0]) > 1 else ():
        axes.plot(n, single, color=style["color"], alpha=0.35, linewidth=0.8, linestyle=style.get("linestyle", "-"))
    axes.plot(n, [statistics.fmean(values) for values in found], markersize=4, **style)


def _panels(count: int, width: float = 0.0, height: float = 3.4, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels side by side."""
    figure = Figure(figsize=(width or (8.6 if count == 2 else 11), height), facecolor="white", layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=sharey))


def _label(axes: Axes, title: str, across: str, up: str, legend: bool = True) -> None:
    """Set title, axis labels and a light grid; hide the right and upper spines."""
    axes.set_title(title, fontsize=TITLE, color=INK)
    axes.set_xlabel(across, fontsize=TEXT)
    axes.set_ylabel(up, fontsize=TEXT)
    axes.tick_params(labelsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FRAME, linewidth=0.6)
    axes.set_axisbelow(True)
    if legend:
        axes.legend(frameon=False, fontsize=TEXT)


def _legend_above(figure: Figure, axes: Axes) -> None:
    """Place one legend above all panels, with the lines of one of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=TEXT)


def _marks(panels: Iterable[Axes], values: Sequence[float]) -> None:
    """Make the x axis logarithmic with ticks at the given values."""
    for axes in panels:
        axes.set_xscale("log")
        axes.set_xticks(list(values))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
