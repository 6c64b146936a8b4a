"""The picture of a data set: sample graphs above, the shift and the class balance below.

Letters: B graphs, D domains, C classes or targets.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import imread
from matplotlib.patches import Patch

from goodformer.data.benchmark import Benchmark
from goodformer.data.cards import COUNTED, FEW, all_domains, class_values, domain_name, domains_of, shares_by_domain
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.draw import palette
from goodformer.draw.canvas import draw, shortened
from goodformer.draw.molecules import depict
from goodformer.draw.palette import FRAME, GREY, INK, TRUE
from goodformer.draw.subgraphs import sketch
from goodformer.spec import SPLIT_NAMES

if TYPE_CHECKING:
    from torch_geometric.data import Data

Floats = npt.NDArray[np.float64]

SAMPLES = {"train": 3, "val": 2, "test": 2}
"""Sample graphs of each split that is drawn; id_val and id_test are distributed like train."""
SPLIT_PATCHES = [Patch(color=palette.SPLITS[split], label=SPLIT_NAMES[split]) for split in SAMPLES]
CLASSES = matplotlib.colormaps["viridis"]
SIZED = ("size", "length")
"""Domains that are shown as the number of nodes."""
BINS = 90
"""Largest number of bins; most sizes then have a bin of their own, so that neighbouring splits do not mix."""
LARGEST = 3
"""Number of the largest domains of each split that are drawn if there are many."""
STYLE: dict[str, Any] = {"medianprops": {"color": INK}, "flierprops": {"markersize": 3.5, "markeredgewidth": 0.7}}
LETTERS = 20
"""Letters of a domain's name."""
TITLE, TEXT, SMALL = 10.5, 8.5, 7.5


def draw_card(bench: Benchmark, path: str | os.PathLike[str]) -> Path:
    """Draw sample graphs of a benchmark, what shifts between its splits, and its class balance.

    Args:
        bench: The benchmark.
        path: Picture file; the suffix decides the format (png, pdf, svg).
    """
    return draw(lambda: card_figure(bench), path, dpi=100)


def card_figure(bench: Benchmark) -> Figure:
    """Return the figure of a benchmark: samples above three panels."""
    figure = Figure(figsize=(12.0, 6.4), facecolor="white", layout="constrained")
    total = sum(map(len, bench.splits.values()))
    figure.suptitle(f"{bench.name}: domain {bench.domain}, shift {bench.shift}, {total:,} graphs", fontsize=12.5)
    halves = figure.subfigures(2, 1, height_ratios=[1, 1.5], hspace=0.04, squeeze=False)
    _draw_samples(halves[0, 0], bench)
    left, middle, right = halves[1, 0].subplots(1, 3, width_ratios=[1.25, 0.85, 1])
    if bench.domain in SIZED:
        _draw_sizes(left, bench)
    else:
        _draw_domains(left, bench)
    if bench.task.measured:
        _draw_values(middle, bench)
        _draw_domain_means(right, bench)
    else:
        _draw_balance(middle, bench)
        _draw_balance_by_domain(right, bench)
    return figure


# Samples --------------------------------------------------------------------------------------------------------------


def _draw_samples(top: SubFigure, bench: Benchmark) -> None:
    """Draw graphs of the training, OOD validation and OOD test split side by side."""
    blocks = top.subfigures(1, len(SAMPLES), width_ratios=list(SAMPLES.values()), wspace=0.02, squeeze=False)
    for block, (split, count) in zip(blocks.flat, SAMPLES.items(), strict=True):
        graphs, colour = bench.splits[split], palette.SPLIT_LETTERS[split]
        block.suptitle(f"{SPLIT_NAMES[split]}: {len(graphs):,} graphs", fontsize=TITLE, color=colour, weight="bold")
        for axes, number in zip(block.subplots(1, count), chosen(graphs, count), strict=False):
            _draw_graph(axes, graphs[number], bench)
            nodes = int(graphs.sizes[number])
            own = "" if bench.domain in SIZED else f"{_short_name(bench, int(domains_of(graphs)[number]))}\n"
            caption = f"{own}{_label(bench, graphs, number)}, {nodes} nodes"
            axes.set_xlabel(caption, fontsize=SMALL, color=INK)


def _label(bench: Benchmark, graphs: GraphSet, number: int) -> str:
    """Return the first label of a graph in words."""
    if bench.task.measured:
        value = float(graphs.graph["y"][number, 0])
        return "value unknown" if np.isnan(value) else f"value {value:.3g}"
    label = int(_first_label(graphs)[number])
    return f"{'class' if bench.task.kind == 'multiclass' else 'label'} {'unknown' if label < 0 else label}"


def chosen(graphs: GraphSet, count: int) -> list[int]:
    """Choose graphs that represent a set: one class after the other, evenly over domains and sizes."""
    kinds, domains, sizes = _first_label(graphs), domains_of(graphs), graphs.sizes.numpy()
    found, numbers = np.unique(kinds), []
    for slot in range(min(count, len(graphs))):
        members = np.flatnonzero(kinds == found[slot % len(found)])  # (b,)
        order = members[np.lexsort((sizes[members], domains[members]))]
        numbers.append(int(order[int((slot + 0.5) / count * len(order))]))
    return numbers


def _first_label(graphs: GraphSet) -> npt.NDArray[np.int64]:
    """Return each graph's class, or its first target with -1 if missing (B,)."""
    y = graphs.graph["y"].numpy()
    return (y if y.ndim == 1 else np.nan_to_num(y[:, 0], nan=-1)).astype(np.int64)


def _short_name(bench: Benchmark, domain: int, letters: int = LETTERS) -> str:
    """Return the name of a domain, cut to a length that fits."""
    name = domain_name(bench, domain)
    return shortened(name if bench.domain_names else f"{bench.domain} {name}", letters)


def _draw_graph(axes: Axes, graph: Data, bench: Benchmark) -> None:
    """Draw a structural formula for a molecule, otherwise nodes and edges with the true edges emphasised."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.8)
    if bench.features == FEATURES:
        axes.imshow(imread(io.BytesIO(depict(graph, 320, 340)), format="png"))
        return
    plan = sketch(graph, torch.zeros(graph.edge_index.shape[1]), k=0)
    strong = np.zeros(len(plan.pairs), dtype=bool) if plan.truth is None else plan.truth
    lines, size = plan.positions[plan.pairs], float(np.clip(700 / max(len(plan.positions), 1), 3, 30))
    for rows, colour, width in ((~strong, "#a9b0ba", 1.0), (strong, TRUE, 2.2)):
        axes.add_collection(LineCollection(list(lines[rows]), colors=colour, linewidths=width, zorder=1))
    touched = np.isin(np.arange(len(plan.positions)), plan.pairs[strong])
    across, up = plan.positions.T
    axes.scatter(across, up, s=size, c=np.where(touched, TRUE, "#8a929e"), linewidths=0, zorder=2)
    axes.margins(0.1)
    axes.set_aspect("equal", adjustable="datalim")


# What shifts ----------------------------------------------------------------------------------------------------------


def _draw_sizes(axes: Axes, bench: Benchmark) -> None:
    """Draw the number of nodes of the graphs of each split; the last bin holds rare large graphs."""
    sizes = {split: bench.splits[split].sizes.numpy() for split in SAMPLES if len(bench.splits[split])}
    low, high = min(map(np.min, sizes.values())), max(map(np.max, sizes.values()))
    cut = max(np.quantile(values, 0.995) for values in sizes.values())
    last = int(cut) if high > 1.3 * cut else int(high)
    step = max(1, -(-(last - int(low) + 1) // BINS))
    bins = np.arange(low, last + step + 1, step) - 0.5
    for split, values in sizes.items():
        percent, colour = np.full(len(values), 100 / len(values)), palette.SPLITS[split]
        style: dict[str, Any] = {"bins": bins, "weights": percent, "color": colour}
        axes.hist(np.minimum(values, last), histtype="stepfilled", alpha=0.35, **style)
        axes.hist(np.minimum(values, last), histtype="step", linewidth=1.4, **style)
    beyond = f" (last bin: {last} to {high})" if last < high else ""
    axes.set_xlabel(f"number of nodes{beyond}", fontsize=TEXT)
    axes.set_ylabel("% of the split's graphs", fontsize=TEXT)
    _finish(axes, f"domain: {bench.domain}")
    _legend(axes, SPLIT_PATCHES)


def _draw_domains(axes: Axes, bench: Benchmark) -> None:
    """Draw the share of each split's graphs in each domain, or in the largest domains if there are many."""
    domains, under = all_domains(bench).tolist(), ""
    shares: dict[str, dict[int, float]] = {}
    for split in SAMPLES:
        found, counts = np.unique(domains_of(bench.splits[split]), return_counts=True)
        largest = np.argsort(-counts, kind="stable")
        shares[split] = {int(found[at]): 100 * counts[at] / counts.sum() for at in largest}
    if len(domains) > FEW:
        numbers = ", ".join(f"{len(own):,} in {SPLIT_NAMES[split]}" for split, own in shares.items())
        under = f"the largest of {len(domains):,} domains: {numbers}"
        domains = list(dict.fromkeys(domain for own in shares.values() for domain in list(own)[:LARGEST]))
    for place, domain in enumerate(domains):
        there = [split for split in SAMPLES if domain in shares[split]]
        height = 0.78 / max(len(there), 1.6)
        for number, split in enumerate(there):
            middle = place + height * (number - (len(there) - 1) / 2)
            axes.barh(middle, shares[split][domain], height=0.92 * height, color=palette.SPLITS[split])
    axes.set_yticks(range(len(domains)), [_short_name(bench, domain) for domain in domains], fontsize=TEXT)
    axes.invert_yaxis()
    axes.set_xlabel("% of the split's graphs", fontsize=TEXT)
    _finish(axes, f"domain: {bench.domain}", under)
    _legend(axes, SPLIT_PATCHES)


# Measured values ------------------------------------------------------------------------------------------------------


def _draw_values(axes: Axes, bench: Benchmark) -> None:
    """Draw the distribution of the first target in each of the five splits."""
    values = {split: class_values(bench.splits[split], bench.task)[:, 0] for split in SPLIT_NAMES}
    _draw_value_boxes(axes, {split: column for split, column in values.items() if len(column)}, "graphs")
    _finish(axes, "values by split")


def _draw_domain_means(axes: Axes, bench: Benchmark) -> None:
    """Draw the distribution of the mean value of domains in the splits."""
    means = {split: shares_by_domain(bench.splits[split], bench.task)[2][:, 0] for split in SAMPLES}
    _draw_value_boxes(axes, means, "domains")
    _finish(axes, "mean value of each domain")


def _draw_value_boxes(axes: Axes, values: dict[str, Floats], what: str) -> None:
    """Draw one box per split over values without the missing ones."""
    known = {split: column[~np.isnan(column)] for split, column in values.items()}
    boxes = axes.boxplot(list(known.values()), orientation="horizontal", widths=0.6, patch_artist=True, **STYLE)
    for box, split in zip(boxes["boxes"], known, strict=True):
        box.set(facecolor=palette.SPLITS[split], alpha=0.55)
    names = [f"{SPLIT_NAMES[split]}\n{len(column):,} {what}" for split, column in known.items()]
    axes.set_yticks(np.arange(len(names)) + 1, names, fontsize=TEXT)
    axes.invert_yaxis()


# Classes --------------------------------------------------------------------------------------------------------------


def _draw_balance(axes: Axes, bench: Benchmark) -> None:
    """Draw the class balance of each of the five splits."""
    multiclass = bench.task.kind == "multiclass"
    splits = [split for split in SPLIT_NAMES if len(bench.splits[split])]
    shares = [np.nanmean(class_values(bench.splits[split], bench.task), 0) for split in splits]
    _draw_bars(axes, bench, [SPLIT_NAMES[split] for split in splits], np.stack(shares), splits)
    _finish(axes, "classes by split" if multiclass else "share of label 1 by split")
    if multiclass:
        colours = _class_colours(bench.task.outputs)[:FEW]
        _legend(axes, [Patch(color=colour, label=f"class {number}") for number, colour in enumerate(colours)])


def _draw_balance_by_domain(axes: Axes, bench: Benchmark) -> None:
    """Draw the class balance of each domain, or its distribution over many domains."""
    multiclass = bench.task.kind == "multiclass"
    tables = {split: shares_by_domain(bench.splits[split], bench.task) for split in SAMPLES}
    if len(all_domains(bench)) <= FEW:
        names = [
            f"{SPLIT_NAMES[split]} · {_short_name(bench, domain, 12)}"
            for split, (found, _, _) in tables.items()
            for domain in found.tolist()
        ]
        splits = [split for split, (found, _, _) in tables.items() for _ in found]
        _draw_bars(axes, bench, names, np.concatenate([shares for _, _, shares in tables.values()]), splits)
    else:
        _draw_boxes(axes, bench, tables)
    _finish(axes, "classes by domain" if multiclass else "share of label 1 by domain")


def _draw_bars(axes: Axes, bench: Benchmark, names: Sequence[str], shares: Floats, splits: Sequence[str]) -> None:
    """Draw one bar per row of shares (rows, C): its classes, or the mean share of ones and a dot for each target."""
    places, percent = np.arange(len(names)), 100 * shares
    if bench.task.kind == "multiclass":
        starts = percent.cumsum(1) - percent
        for number, colour in enumerate(_class_colours(bench.task.outputs)):
            axes.barh(places, percent[:, number], left=starts[:, number], height=0.72, color=colour)
        axes.set_xlim(0, 100)
    else:
        means = np.nanmean(percent, 1)
        bars = axes.barh(places, means, height=0.72, color=[palette.SPLITS[split] for split in splits])
        axes.bar_label(bars, [f"{mean:.3g}" for mean in means], padding=3, fontsize=SMALL, color=GREY)
        axes.set_xlim(0, max(1.0, min(115.0, 1.2 * float(np.nanmax(percent)))))
        for target in percent.T if percent.shape[1] > 1 else ():
            axes.scatter(target, places, s=6, color=INK, zorder=3)
    axes.set_yticks(places, names, fontsize=TEXT if len(names) <= 12 else 6.5)
    for tick, split in zip(axes.get_yticklabels(), splits, strict=True):
        tick.set_color(palette.SPLIT_LETTERS[split])
    axes.invert_yaxis()
    axes.set_xlabel("% of graphs", fontsize=TEXT)


def _draw_boxes(axes: Axes, bench: Benchmark, tables: dict[str, tuple[Any, Any, Floats]]) -> None:
    """Draw box plots over the large domains: for each split the share of each class, or of label 1."""
    values, names, colours = [], [], []
    for split, (_, counts, shares) in tables.items():
        for number, column in enumerate(100 * shares[counts >= COUNTED].T):
            kept = column[~np.isnan(column)]
            which = f" · class {number}" if bench.task.kind == "multiclass" else ""
            values.append(kept)
            names.append(f"{SPLIT_NAMES[split]}{which}\n{len(kept)} domains")
            colours.append(palette.SPLITS[split])
    boxes = axes.boxplot(values, orientation="horizontal", widths=0.6, patch_artist=True, **STYLE)
    for box, colour in zip(boxes["boxes"], colours, strict=True):
        box.set(facecolor=colour, alpha=0.55)
    axes.set_yticks(np.arange(len(names)) + 1, names, fontsize=TEXT if len(names) <= 6 else SMALL)
    axes.invert_yaxis()
    axes.set_xlabel(f"% per domain ({COUNTED} graphs or more)", fontsize=TEXT)


def _class_colours(count: int) -> list[Any]:
    """Return a colour for each class, from dark to light."""
    return [CLASSES(0.12 + 0.8 * number / max(count - 1, 1)) for number in range(count)]


def _finish(axes: Axes, title: str, under: str = "") -> None:
    """Set the title, an optional line under it, two spines and small tick labels."""
    axes.set_title(title, fontsize=TITLE, weight="bold", loc="left", pad=17 if under else 5)
    if under:
        axes.annotate(under, (0, 1), (0, 4), "axes fraction", textcoords="offset points", fontsize=SMALL, color=GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TEXT)
    axes.tick_params(axis="y", length=0)


def _legend(axes: Axes, handles: Sequence[Patch]) -> None:
    """Put a legend under the panel."""
    style: dict[str, Any] = {"frameon": False, "fontsize": TEXT, "handlelength": 1.0, "columnspacing": 1.2}
    columns = min(len(handles), 4)
    axes.legend(handles=list(handles), loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, **style)
