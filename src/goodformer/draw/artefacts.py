"""The figures of the paper: accuracy over the loss weights, and found subgraphs beside the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import one_hot

from goodformer.data.graphs import GraphSet
from goodformer.draw.palette import FOUND, FRAME, GREY, INK, PAPER, TRUE, VERMILION
from goodformer.draw.subgraphs import REST, draw_edges, sketch
from goodformer.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

COLOURS = {"goodformer:paper": VERMILION}
NAMES = {"goodformer:paper": "GOODFormer (paper)"}
STYLES = {"ciga": "-.", "exphormer": ":"}
SIGNS = {"lambda": r"$\lambda$", "alpha_E": r"$\alpha_E$", "alpha_PSE": r"$\alpha_{PSE}$"}
TITLE, TEXT = 10.5, 9.0


def sensitivity(
    panels: Sequence[Mapping[str, Any]], reference: Mapping[str, Any] | None = None, remark: str = ""
) -> Figure:
    """Draw OOD test over the loss weights, one row of panels per benchmark; points without a run are left out.

    Args:
        panels: Tables of a report with titles ``BENCHMARK: WEIGHT`` and columns ``WEIGHT = VALUE``.
        reference: Table whose rows are drawn as horizontal lines, one column per benchmark.
        remark: A sentence below the panels.
    """
    cells = [cell for panel in panels for row in panel["rows"] for cell in row["cells"]]
    absent = sum(cell["mean"] is None for cell in cells)
    if not cells:
        raise InputError(f"the chosen rows have no points to draw; choose from {', '.join(NAMES)} with --methods.")
    if absent == len(cells):
        raise InputError(
            "no record of a point to draw was found; name records with --records, or train the points with "
            "goodformer reproduce figure-sensitivity --run."
        )
    rows = list(dict.fromkeys(panel["title"].partition(": ")[0] for panel in panels))
    figure = Figure(figsize=(10.2, 2.9 * len(rows) + 0.7), facecolor=PAPER, layout="constrained")
    grid = figure.subplots(len(rows), len(panels) // len(rows), sharey=True, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=True):
        benchmark, _, weight = panel["title"].partition(": ")
        values = [float(column["head"].partition(" = ")[2]) for column in panel["columns"]]
        for row in panel["rows"]:
            points = [
                (x, cell["mean"], cell["std"] or 0)
                for x, cell in zip(values, row["cells"], strict=True)
                if cell["mean"] is not None
            ]
            xs, means, deviations = zip(*points, strict=True) if points else ((), (), ())
            style: dict[str, Any] = {"color": COLOURS[row["row"]], "label": NAMES[row["row"]], "marker": "o"}
            axes.errorbar(xs, means, deviations, markersize=4, capsize=2, **style)
        for row in reference["rows"] if reference else ():
            place = [column["head"] for column in reference["columns"]].index(benchmark) if reference else 0
            level = row["cells"][place]["mean"]
            if level is not None:
                axes.axhline(level, color=GREY, linestyle=STYLES[row["row"]], linewidth=1.2, label=row["title"])
        if (guessing := panel["columns"][0].get("chance")) is not None:
            axes.axhline(guessing, color=INK, linestyle="--", linewidth=1.0, label="chance", zorder=1)
        axes.set_xscale("log")
        axes.set_xlim(values[0] / 2, values[-1] * 2)
        axes.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_title(f"{benchmark}: {SIGNS[weight]}", fontsize=TITLE, color=INK)
        axes.tick_params(labelsize=TEXT)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=FRAME, linewidth=0.6)
        axes.set_axisbelow(True)
    for first in grid[:, 0]:
        first.set_ylabel("OOD test (%)", fontsize=TEXT)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=TEXT)
    column = panels[0]["columns"][0]
    tested = f" and {column['test_graphs']:,} OOD test" if column.get("test_graphs") else ""
    caption = f"{column['train_graphs']:,} training{tested} graphs, {column['epochs']} epochs"
    caption += f"; {absent} of {len(cells)} points not run" if absent else ""
    caption += f"\n{remark}" if remark else ""
    figure.supxlabel(caption, fontsize=TEXT, color=GREY)
    return figure


def examples(test: GraphSet, count: int = 3) -> list[Data]:
    """Return graphs to draw, the first of each class before the second ones, none larger than the median."""
    small = torch.nonzero(test.sizes <= test.sizes.float().median()).flatten()
    y = test.graph["y"][small].flatten().long()  # (G,)
    rank = one_hot(y).cumsum(0).gather(1, y[:, None]).flatten()  # (G,), its number within its class, from 1
    chosen = small[(rank * (y.max() + 1) + y).argsort(stable=True)[:count]]
    return [test[place] for place in chosen.tolist()]


def subgraphs(graphs: Sequence[Data], scores: Mapping[str, Sequence[Tensor]]) -> Figure:
    """Draw the subgraphs that several methods find in the same graphs, one column per method, and the true ones.

    Args:
        graphs: Graphs with ``edge_index`` and ``edge_truth`` (E,).
        scores: For each method, by its title, a score of each directed edge (E,) of each graph.
    """
    figure = Figure(figsize=(2.5 * (len(scores) + 1), 2.5 * len(graphs)), facecolor=PAPER, layout="constrained")
    grid = figure.subplots(len(graphs), len(scores) + 1, squeeze=False)
    for place, graph in enumerate(graphs):
        found = [sketch(graph, own[place]) for own in scores.values()]
        truth = found[0].truth if found[0].truth is not None else np.zeros(len(found[0].pairs), dtype=bool)
        rest = np.full(len(truth), REST)
        for axes, one in zip(grid[place], found, strict=False):
            draw_edges(axes, one, one.chosen, FOUND, rest)
            axes.set_xlabel(f"{one.hits} of {truth.sum()} edges", fontsize=8.5, color=GREY)
        draw_edges(grid[place, -1], found[0], truth, TRUE, rest)
    for axes, title in zip(grid[0], [*scores, "truth"], strict=True):
        axes.set_title(title, fontsize=TITLE, color=INK)
    return figure
