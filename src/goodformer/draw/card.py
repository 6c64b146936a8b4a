"""The picture of a data set: a row of sample graphs over what shifts and how classes are balanced.

Letters: B graphs, D domains, C classes or targets.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import imread
from matplotlib.patches import Patch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from goodformer import files
from goodformer.data.benchmark import FEW, Benchmark
from goodformer.data.cards import (
    COUNTED,
    all_domains,
    class_values,
    domain_name,
    domains_of,
    shares_by_domain,
)
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.draw import palette
from goodformer.draw.molecules import depict
from goodformer.draw.palette import FRAME, GREY, INK, TRUE
from goodformer.draw.subgraphs import sketch
from goodformer.registry import InputError
from goodformer.spec import SPLIT_NAMES, SPLITS

SHOWN = {split: SPLIT_NAMES[split] for split in ("train", "val", "test")}
"""The splits of which graphs and domains are drawn, and what they are called; id_val and id_test are like train."""
SAMPLES = {"train": 3, "val": 2, "test": 2}
CLASSES = matplotlib.colormaps["viridis"]
SIZED = ("size", "length")
"""Domains that are best seen as the number of nodes."""
BINS = 90
"""Bins of sizes, so many that most sizes have one of their own and neighbouring splits are not mixed."""
LARGEST = 3
"""Of many domains, how many of the largest of each split are drawn."""
STYLE: dict[str, Any] = {"medianprops": {"color": INK}, "flierprops": {"markersize": 3.5, "markeredgewidth": 0.7}}
NAME = 20
"""Letters of a domain's name."""
WIDTH, HEIGHT, DPI = 12.0, 6.4, 100
TITLE, TEXT, SMALL = 10.5, 8.5, 7.5


def check_format(path: Path) -> None:
    """Refuse a file name that says no format pictures are written in."""
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise InputError(f"a picture cannot be written as {path.name!r}; end it in .png, .pdf or .svg.")


def draw_card(bench: Benchmark, path: str | os.PathLike[str]) -> Path:
    """Draw sample graphs of a benchmark, what shifts between its splits, and the balance of its classes.

    Args:
        bench: The benchmark.
        path: Picture file; the suffix says the format (png, pdf, svg).
    """
    target = Path(path)
    check_format(target)
    canvas, form = FigureCanvasAgg(_figure(bench)), target.suffix.lstrip(".")
    files.make_folder(target.parent)
    files.write(target, lambda part: canvas.print_figure(part, dpi=DPI, format=form))
    return target


def _figure(bench: Benchmark) -> Figure:
    """Samples above, three panels below."""
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white", layout="constrained")
    total = sum(map(len, bench.splits.values()))
    figure.suptitle(f"{bench.name}: domain {bench.domain}, shift {bench.shift}, {total:,} graphs", fontsize=12.5)
    halves = figure.subfigures(2, 1, height_ratios=[1, 1.5], hspace=0.04, squeeze=False)
    _samples(halves[0, 0], bench)
    left, middle, right = halves[1, 0].subplots(1, 3, width_ratios=[1.25, 0.85, 1])
    _draw_domains(left, bench)
    _draw_balance(middle, bench)
    _draw_balance_by_domain(right, bench)
    return figure


# Samples --------------------------------------------------------------------------------------------------------------


def _samples(top: SubFigure, bench: Benchmark) -> None:
    """Graphs of the three kinds of splits side by side."""
    blocks = top.subfigures(1, len(SHOWN), width_ratios=list(SAMPLES.values()), wspace=0.02, squeeze=False)
    for block, (split, title) in zip(blocks.flat, SHOWN.items(), strict=True):
        graphs = bench.splits[split]
        block.suptitle(
            f"{title}: {len(graphs):,} graphs", fontsize=TITLE, color=palette.SPLIT_LETTERS[split], weight="bold"
        )
        for axes, number in zip(block.subplots(1, SAMPLES[split]), chosen(graphs, SAMPLES[split]), strict=False):
            graph = graphs[number]
            _draw_graph(axes, graph, bench)
            axes.set_xlabel(_caption(bench, graph), fontsize=SMALL, color=INK)


def chosen(graphs: GraphSet, count: int) -> list[int]:
    """Graphs that stand for a set: one class after the other, going evenly through its domains and their sizes."""
    kinds = _class_of(graphs)
    found, numbers = kinds.unique().tolist(), []
    for slot in range(min(count, len(graphs))):
        members = (kinds == found[slot % len(found)]).nonzero().flatten()  # (b,)
        sizes, domains = graphs.sizes[members], domains_of(graphs)[members]
        order = members[np.lexsort((sizes.numpy(), domains.numpy()))]
        numbers.append(int(order[int((slot + 0.5) / count * len(order))]))
    return numbers


def _class_of(graphs: GraphSet) -> Tensor:
    """One number a graph: its class, or the value of its first target, -1 where missing (B,)."""
    y = graphs.graph["y"]
    return (y if y.dim() == 1 else y[:, 0].nan_to_num(nan=-1)).long()


def _caption(bench: Benchmark, graph: Data) -> str:
    """Domain, label and size of a graph."""
    label = int(_class_of(GraphSet.from_list([Data(x=graph.x, y=graph.y)]))[0])
    kind = "class" if bench.task.kind == "multiclass" else "label"
    domain = "" if bench.domain in SIZED else f"{_domain(bench, int(graph.domain))}\n"
    return f"{domain}{kind} {'unknown' if label < 0 else label}, {graph.num_nodes} nodes"


def _domain(bench: Benchmark, domain: int, letters: int = NAME) -> str:
    """What a domain is called, cut to a length that fits."""
    name = domain_name(bench, domain)
    name = name if bench.domain_names else f"{bench.domain} {name}"
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _draw_graph(axes: Axes, graph: Data, bench: Benchmark) -> None:
    """A structural formula where the graph is a molecule, else nodes and edges, true ones strong."""
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


def _draw_domains(axes: Axes, bench: Benchmark) -> None:
    """How the attribute that shifts is distributed in each split."""
    if bench.domain in SIZED:
        _draw_sizes(axes, bench)
    else:
        _draw_shares(axes, bench)
    many = bench.domain not in SIZED and len(all_domains(bench)) > FEW
    _tidy(axes, f"domain: {bench.domain}", _numbers(bench) if many else "")
    handles = [Patch(color=palette.SPLITS[split], label=title) for split, title in SHOWN.items()]
    _legend(axes, handles)


def _draw_sizes(axes: Axes, bench: Benchmark) -> None:
    """The number of nodes of the graphs of each split; rare large graphs are put into the last bin."""
    sizes = {split: bench.splits[split].sizes.numpy() for split in SHOWN if len(bench.splits[split])}
    low, high = min(map(np.min, sizes.values())), max(map(np.max, sizes.values()))
    cut = max(np.quantile(values, 0.995) for values in sizes.values())
    last = int(cut) if high > 1.3 * cut else int(high)
    step = max(1, -(-(last - int(low) + 1) // BINS))
    bins = np.arange(low, last + step + 1, step) - 0.5
    for split, values in sizes.items():
        style: dict[str, Any] = {
            "bins": bins,
            "weights": np.full(len(values), 100 / len(values)),
            "color": palette.SPLITS[split],
        }
        axes.hist(np.minimum(values, last), histtype="stepfilled", alpha=0.35, **style)
        axes.hist(np.minimum(values, last), histtype="step", linewidth=1.4, **style)
    beyond = f" (the last bin holds all from {last} to {high})" if last < high else ""
    axes.set_xlabel(f"number of nodes{beyond}", fontsize=TEXT)
    axes.set_ylabel("% of the split's graphs", fontsize=TEXT)


def _draw_shares(axes: Axes, bench: Benchmark) -> None:
    """The share of each split's graphs that the domains hold: all domains, or the largest of each split."""
    domains = _drawn_domains(bench)
    for place, domain in enumerate(domains):
        shares = {split: _share(bench, split, domain) for split in SHOWN}
        there = [split for split, share in shares.items() if share > 0]
        height = 0.78 / max(len(there), 1.6)
        for number, split in enumerate(there):
            middle = place + height * (number - (len(there) - 1) / 2)
            axes.barh(middle, shares[split], height=0.92 * height, color=palette.SPLITS[split])
    axes.set_yticks(range(len(domains)), [_domain(bench, domain) for domain in domains], fontsize=TEXT)
    axes.invert_yaxis()
    axes.set_xlabel("% of the split's graphs", fontsize=TEXT)


def _share(bench: Benchmark, split: str, domain: int) -> float:
    """The percentage of a split's graphs that are of a domain."""
    found = domains_of(bench.splits[split])
    return 100 * float((found == domain).double().mean()) if len(found) else 0.0


def _drawn_domains(bench: Benchmark) -> list[int]:
    """All domains where they are few, else the largest of each split."""
    if len(all_domains(bench)) <= FEW:
        return [int(domain) for domain in all_domains(bench)]
    largest: list[int] = []
    for split in SHOWN:
        found, counts = domains_of(bench.splits[split]).unique(return_counts=True)
        largest += [int(found[at]) for at in counts.argsort(descending=True, stable=True)[:LARGEST]]
    return list(dict.fromkeys(largest))


def _numbers(bench: Benchmark) -> str:
    """How many domains each split has."""
    found = [f"{len(domains_of(bench.splits[split]).unique()):,} in {split}" for split in SHOWN]
    return f"the largest of {len(all_domains(bench)):,} domains: {', '.join(found)}"


# Classes --------------------------------------------------------------------------------------------------------------


def _draw_balance(axes: Axes, bench: Benchmark) -> None:
    """The balance of classes in each of the five splits."""
    rows = [split for split in SPLITS if len(bench.splits[split])]
    shares = [class_values(bench.splits[split], bench.task).nanmean(0) for split in rows]
    _draw_rows(axes, bench, rows, torch.stack(shares), rows)
    _tidy(axes, "classes by split" if bench.task.kind == "multiclass" else "share of label 1 by split")
    if bench.task.kind == "multiclass":
        colours = _class_colours(bench.task.outputs)[:FEW]
        _legend(axes, [Patch(color=colour, label=f"class {number}") for number, colour in enumerate(colours)])


def _draw_balance_by_domain(axes: Axes, bench: Benchmark) -> None:
    """The balance of classes in each domain where they are few, else how it varies over them."""
    multiclass = bench.task.kind == "multiclass"
    if len(all_domains(bench)) <= FEW:
        _draw_few(axes, bench)
    else:
        _draw_many(axes, bench)
    _tidy(axes, "classes by domain" if multiclass else "share of label 1 by domain")


def _draw_few(axes: Axes, bench: Benchmark) -> None:
    """One bar a domain of a split."""
    names, parts, splits = [], [], []
    for split in SHOWN:
        found, _, shares = shares_by_domain(bench.splits[split], bench.task)
        names += [f"{split} · {_domain(bench, int(domain), 12)}" for domain in found]
        parts.append(shares)
        splits += [split] * len(found)
    _draw_rows(axes, bench, names, torch.cat(parts), splits)


def _draw_rows(axes: Axes, bench: Benchmark, names: Sequence[str], shares: Tensor, splits: Sequence[str]) -> None:
    """Bars whose parts are classes; of binary targets bars of the mean share of ones, and a dot for each target."""
    places, percent = np.arange(len(names)), 100 * shares.numpy()  # (rows,), (rows, C)
    if bench.task.kind == "multiclass":
        starts = percent.cumsum(1) - percent
        for number, colour in enumerate(_class_colours(bench.task.outputs)):
            axes.barh(places, percent[:, number], left=starts[:, number], height=0.72, color=colour)
        axes.set_xlim(0, 100)
    else:
        _draw_targets(axes, places, percent, [palette.SPLITS[split] for split in splits])
    axes.set_yticks(places, names, fontsize=TEXT if len(names) <= 12 else 6.5)
    for tick, split in zip(axes.get_yticklabels(), splits, strict=True):
        tick.set_color(palette.SPLIT_LETTERS[split])
    axes.invert_yaxis()
    axes.set_xlabel("% of graphs", fontsize=TEXT)


def _draw_targets(axes: Axes, places: NDArray[Any], percent: NDArray[Any], colours: Sequence[str]) -> None:
    """Bars of the mean share of ones with the figure beside it, and a dot for each target where there are several."""
    means = np.nanmean(percent, 1)
    bars = axes.barh(places, means, height=0.72, color=colours)
    axes.bar_label(bars, [f"{mean:.3g}" for mean in means], padding=3, fontsize=SMALL, color=GREY)
    axes.set_xlim(0, max(1.0, min(115.0, 1.2 * float(np.nanmax(percent)))))
    if percent.shape[1] > 1:
        for target in percent.T:
            axes.scatter(target, places, s=6, color=INK, zorder=3)


def _draw_many(axes: Axes, bench: Benchmark) -> None:
    """Boxes over the domains large enough: for each split the share of each class, or of label 1."""
    multiclass = bench.task.kind == "multiclass"
    values, names, colours = [], [], []
    for split in SHOWN:
        _, counts, shares = shares_by_domain(bench.splits[split], bench.task)
        large = 100 * shares[counts >= COUNTED]  # (d, C)
        for number in range(bench.task.outputs):
            kept = large[:, number][~large[:, number].isnan()]
            values.append(kept.numpy())
            names.append(f"{split}{f' · class {number}' if multiclass else ''}\n{len(kept)} domains")
            colours.append(palette.SPLITS[split])
    boxes = axes.boxplot(values, orientation="horizontal", widths=0.6, patch_artist=True, **STYLE)
    for box, colour in zip(boxes["boxes"], colours, strict=True):
        box.set(facecolor=colour, alpha=0.55)
    axes.set_yticks(np.arange(len(names)) + 1, names, fontsize=TEXT if len(names) <= 6 else SMALL)
    axes.invert_yaxis()
    axes.set_xlabel(f"% of a domain's graphs (domains of {COUNTED} or more)", fontsize=TEXT)


def _class_colours(count: int) -> list[Any]:
    """A colour for each class, from dark to light."""
    return [CLASSES(0.12 + 0.8 * number / max(count - 1, 1)) for number in range(count)]


def _tidy(axes: Axes, title: str, under: str = "") -> None:
    """A title at the left, perhaps with a line under it, no frame but two lines, small figures."""
    axes.set_title(title, fontsize=TITLE, weight="bold", loc="left", pad=17 if under else 5)
    if under:
        axes.annotate(under, (0, 1), (0, 4), "axes fraction", textcoords="offset points", fontsize=SMALL, color=GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TEXT)
    axes.tick_params(axis="y", length=0)


def _legend(axes: Axes, handles: Sequence[Patch]) -> None:
    """What the colours mean, under the panel."""
    axes.legend(
        handles=list(handles),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=min(len(handles), 4),
        frameon=False,
        fontsize=TEXT,
        handlelength=1.0,
        columnspacing=1.2,
    )
