"""The figures of the paper: accuracy over the weights of the loss, and found subgraphs beside the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from goodformer.data import load_benchmark
from goodformer.draw.palette import BLUE, FOUND, FRAME, GREY, INK, PAPER, TRUE, VERMILION
from goodformer.draw.subgraphs import REST, Sketch, draw_edges, sketch
from goodformer.engine.store import Run
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.report.artefacts import REFERENCE

COLOURS = {"goodformer": BLUE, "goodformer:paper": VERMILION}
NAMES = {"goodformer": "GOODFormer, default", "goodformer:paper": "GOODFormer, preset paper"}
STYLES = {"ciga": "--", "exphormer": ":"}
SIGNS = {"lambda": r"$\lambda$", "alpha_E": r"$\alpha_E$", "alpha_PSE": r"$\alpha_{PSE}$"}
TITLE, TEXT = 10.5, 9.0


# ------------------------------------------------------------------------------------------ sensitivity


def sensitivity(report: Mapping[str, Any]) -> Figure:
    """OOD test over the weights of the loss, a row of panels a benchmark; points that are not run are left out."""
    reference = next((block for block in report["blocks"] if block["title"] == REFERENCE), None)
    panels = [block for block in report["blocks"] if block is not reference]
    if not panels:
        raise InputError(f"the chosen rows have no points to draw; name some of {', '.join(NAMES)} by --methods.")
    if all(cell["mean"] is None for block in panels for row in block["rows"] for cell in row["cells"]):
        raise InputError(
            "there is no record of a point to draw; name records by --records, or train the points by "
            "goodformer reproduce figure-sensitivity --run."
        )
    rows = list(dict.fromkeys(block["title"].partition(": ")[0] for block in panels))
    figure = Figure(figsize=(10.2, 2.9 * len(rows) + 0.7), facecolor=PAPER, layout="constrained")
    axes = figure.subplots(len(rows), len(panels) // len(rows), sharey="row", squeeze=False)
    for place, block in zip(axes.flat, panels, strict=True):
        _panel(place, block, reference)
    for first in axes[:, 0]:
        first.set_ylabel("OOD test (%)", fontsize=TEXT)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=TEXT)
    figure.supxlabel(_caption(panels), fontsize=TEXT, color=GREY)
    return figure


def _panel(axes: Axes, block: Mapping[str, Any], reference: Mapping[str, Any] | None) -> None:
    """One weight on one benchmark: a line for each preset, and the rows that stand there for reference."""
    benchmark, _, weight = block["title"].partition(": ")
    values = [float(column["head"].partition(" = ")[2]) for column in block["columns"]]
    for row in block["rows"]:
        points = [(x, cell["mean"], cell["std"] or 0) for x, cell in zip(values, row["cells"], strict=True)
                  if cell["mean"] is not None]  # fmt: skip
        xs, means, deviations = zip(*points, strict=True) if points else ((), (), ())
        style: dict[str, Any] = {"color": COLOURS[row["row"]], "label": NAMES[row["row"]], "marker": "o"}
        axes.errorbar(xs, means, deviations, markersize=4, capsize=2, **style)
    if reference is not None:
        _reference(axes, benchmark, reference)
    axes.set_xscale("log")
    axes.set_xlim(values[0] / 2, values[-1] * 2)
    axes.set_xticks(values, [f"{value:g}" for value in values], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_title(f"{benchmark}: {SIGNS[weight]}", fontsize=TITLE, color=INK)
    axes.tick_params(labelsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FRAME, linewidth=0.6)
    axes.set_axisbelow(True)


def _reference(axes: Axes, benchmark: str, reference: Mapping[str, Any]) -> None:
    """A level line for each row that has a figure on the benchmark."""
    place = [column["head"] for column in reference["columns"]].index(benchmark)
    for row in reference["rows"]:
        level = row["cells"][place]["mean"]
        if level is not None:
            axes.axhline(level, color=GREY, linestyle=STYLES[row["row"]], linewidth=1.2, label=row["title"])


def _caption(panels: Sequence[Mapping[str, Any]]) -> str:
    """The budget, and how many points are not there."""
    cells = [cell for block in panels for row in block["rows"] for cell in row["cells"]]
    absent = sum(cell["mean"] is None for cell in cells)
    column = panels[0]["columns"][0]
    size = f"{column['train_graphs']:,} training graphs, {column['epochs']} epochs"
    return f"{size}; {absent} of {len(cells)} points not run" if absent else size


# ------------------------------------------------------------------------------------------ subgraphs


def subgraphs(runs: Mapping[str, Run], count: int = 3) -> Figure:
    """The subgraphs that runs find in the same OOD test graphs, one column a run, and the true ones.

    Args:
        runs: Finished runs on one data set by what they are called.
        count: Graphs to draw, one of each class as long as there are classes.
    """
    if not runs:
        raise InputError("no run to draw is finished; train them by goodformer reproduce figure-subgraphs --run.")
    graphs = _examples(next(iter(runs.values())), count)
    scores = {name: _scores(run, graphs) for name, run in runs.items()}
    figure = Figure(figsize=(2.5 * (len(runs) + 1), 2.5 * len(graphs)), facecolor=PAPER, layout="constrained")
    axes = figure.subplots(len(graphs), len(runs) + 1, squeeze=False)
    for place, graph in enumerate(graphs):
        found = [sketch(graph, own[place]) for own in scores.values()]
        for panel, one in zip(axes[place], found, strict=False):
            _draw(panel, one, one.chosen, FOUND, f"{one.hits} of {_truth(one).sum()} edges")
        _draw(axes[place, -1], found[0], _truth(found[0]), TRUE, "")
    for panel, title in zip(axes[0], [*runs, "truth"], strict=True):
        panel.set_title(title, fontsize=TITLE, color=INK)
    return figure


def _draw(axes: Axes, one: Sketch, strong: NDArray[Any], colour: str, caption: str) -> None:
    """Some edges in a colour, the rest in grey, and a line below."""
    draw_edges(axes, one, strong, colour, np.full(len(one.pairs), REST))
    axes.set_xlabel(caption, fontsize=8.5, color=GREY)


def _truth(one: Sketch) -> NDArray[Any]:
    return np.zeros(len(one.pairs), dtype=bool) if one.truth is None else one.truth


def _examples(run: Run, count: int) -> list[Data]:
    """Test graphs of a run's data, the first of each class before the second ones, not the largest."""
    test = load_benchmark(**run.config.dataset).splits["test"]
    small = torch.nonzero(test.sizes <= test.sizes.float().median()).flatten()
    y = test.graph["y"][small].flatten().long()  # (G,)
    rank = one_hot(y).cumsum(0).gather(1, y[:, None]).flatten()  # (G,), its number within its class, from 1
    chosen = small[(rank * (y.max() + 1) + y).argsort(stable=True)[:count]]
    return [test[place] for place in chosen.tolist()]


def _scores(run: Run, graphs: Sequence[Data]) -> list[Tensor]:
    scores = FittedModel.of_run(run, "best").predict(list(graphs)).edge_scores
    if scores is None:
        raise InputError(f"{run.folder.name} does not score edges; choose methods that do.")
    return scores
