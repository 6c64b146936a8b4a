"""Pictures of graphs: the invariant subgraph a method found beside the true one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from goodformer import files
from goodformer.draw.palette import FOUND, FRAME, INK, PAPER, TRUE
from goodformer.explain.subgraph import subgraph_size, symmetric_scores, top_subgraph, true_edges
from goodformer.registry import InputError

Array = NDArray[Any]

REST = "#c9ced6"
SCALE = LinearSegmentedColormap.from_list("score", [FRAME, "#f6c7a6", "#f0955f"])
"""From the lowest score to the highest among the edges that were not chosen."""

CROWDED = 120
"""Nodes from which on the slower, prettier layout is left."""

SPREAD = 8
"""Steps from end to end that a graph is drawn with; a longer one is curled up."""


@dataclass(frozen=True)
class Sketch:
    """One graph with each edge once, ready to be drawn twice at the same positions.

    Attributes:
        pairs: Ends of each undirected edge, (M, 2).
        scores: Mean score of the two directions, (M,).
        truth: Whether the edge is truly invariant, (M,); None where nobody knows.
        chosen: Whether the edge is among the k best, (M,).
        positions: Where each node goes, (N, 2).
    """

    pairs: Array
    scores: Array
    truth: Array | None
    chosen: Array
    positions: Array

    @property
    def hits(self) -> int:
        """Chosen edges that are truly invariant."""
        return 0 if self.truth is None else int((self.chosen & self.truth).sum())


def draw_subgraphs(
    graphs: Sequence[Data],
    scores: Sequence[Tensor],
    path: str | os.PathLike[str],
    titles: Sequence[str],
    k: int | None = None,
    caption: str = "found invariant subgraph",
) -> Path:
    """Draw each graph with the subgraph its scores choose, beside the true subgraph where the graph carries it.

    Args:
        graphs: Graphs with ``edge_index`` and, where known, ``edge_truth`` (E,).
        scores: For each graph a score of each directed edge (E,), larger = more invariant.
        path: Picture file; the suffix says the format (png, pdf, svg).
        titles: A line above each graph.
        k: Undirected edges to choose; by default as many as are true, or a third where nobody knows.
        caption: What the chosen edges are.

    Returns:
        The file written.
    """
    if not len(graphs) == len(scores) == len(titles) or not graphs:
        raise InputError(
            f"draw_subgraphs got {len(graphs)} graphs, {len(scores)} scores and {len(titles)} titles; "
            "give at least one graph and as many of each."
        )
    sketches = [sketch(graph, score, k) for graph, score in zip(graphs, scores, strict=True)]
    figure = _figure(sketches, [_title(title, one) for title, one in zip(titles, sketches, strict=True)], caption)
    return save(figure, Path(path))


def sketch(graph: Data, scores: Tensor, k: int | None = None) -> Sketch:
    """The graph with each edge once, its ``k`` best edges chosen, and a place for every node."""
    index, scores = graph.edge_index.cpu(), scores.detach().float().cpu()
    edges, mean = symmetric_scores(index, scores)
    truth = true_edges(graph)
    wanted = subgraph_size(graph, k)
    chosen = torch.zeros(len(mean), dtype=torch.bool)
    if wanted:
        chosen[top_subgraph(index, scores, wanted).places] = True
    pairs, known = edges.T.numpy(), None if truth is None else truth.numpy()
    return Sketch(pairs, mean.numpy(), known, chosen.numpy(), _positions(pairs, int(graph.num_nodes or 0)))


def _positions(pairs: Array, nodes: int) -> Array:
    """A place for every node, the same for the same graph; of a few tries the one whose edges cross least."""
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(pairs.tolist())
    if not (1 < nodes <= CROWDED and nx.is_connected(graph)):
        return _across(_points(nx.spring_layout(graph, seed=0), nodes))
    distances = _distances(graph)
    layouts = (nx.kamada_kawai_layout(graph, dist=distances, pos=start) for start in _starts(graph))
    return _across(min((_points(layout, nodes) for layout in layouts), key=lambda points: _crossings(points, pairs)))


def _starts(graph: nx.Graph) -> Iterator[Any]:
    """Where the springs may begin: a circle, a drawing without crossings, a few random ones for a small graph."""
    yield None
    if nx.is_planar(graph):
        yield nx.planar_layout(graph)
    if len(graph) <= CROWDED // 2:
        yield from (nx.random_layout(graph, seed=seed) for seed in range(3))


def _points(places: dict[int, Array], nodes: int) -> Array:
    """Places by node number, (N, 2)."""
    return np.array([places[node] for node in range(nodes)])


def _crossings(points: Array, pairs: Array) -> int:
    """How many pairs of edges without a common end cross."""
    first, second = np.triu_indices(len(pairs), 1)
    apart = ~(pairs[first][:, :, None] == pairs[second][:, None]).any((1, 2))
    a, b = points[pairs[first[apart]]].swapaxes(0, 1)
    c, d = points[pairs[second[apart]]].swapaxes(0, 1)
    return int(((_side(a, b, c) != _side(a, b, d)) & (_side(c, d, a) != _side(c, d, b))).sum())


def _side(a: Array, b: Array, c: Array) -> Array:
    """On which side of the line through a and b point c lies."""
    side: Array = (b - a)[:, 0] * (c - a)[:, 1] > (b - a)[:, 1] * (c - a)[:, 0]
    return side


def _distances(graph: nx.Graph) -> dict[int, dict[int, float]]:
    """Steps between nodes, long ways shortened so that a long graph curls up instead of shrinking its motif."""
    steps = dict(nx.all_pairs_shortest_path_length(graph))
    longest = max(max(row.values()) for row in steps.values())
    power = math.log(SPREAD) / math.log(max(longest, SPREAD))
    return {node: {other: step**power for other, step in row.items()} for node, row in steps.items()}


def _across(points: Array) -> Array:
    """Centred and turned so that the longest extent lies across, where a panel has most room."""
    centred: Array = points - points.mean(axis=0)
    if len(points) < 2:
        return centred
    turned: Array = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    return turned


def _title(title: str, one: Sketch) -> str:
    """The caller's line and, where truth is known, how much of it was found."""
    if one.truth is None:
        return title
    return f"{title}  ·  {one.hits} of {int(one.truth.sum())} edges found"


def _figure(sketches: Sequence[Sketch], titles: Sequence[str], caption: str) -> Figure:
    """A grid of blocks, one a graph, over a legend."""
    known = any(one.truth is not None for one in sketches)
    columns = min(len(sketches), 2 if known else 3)
    rows = -(-len(sketches) // columns)
    width, height = (5.6 if known else 3.6) * columns, 2.65 * rows
    side_by_side = (2 if known else 1) * columns  # legend entries that fit the width
    foot_height = 0.4 + 0.2 * -(-(4 if known else 3) // side_by_side)
    figure = Figure(figsize=(width, height + foot_height), facecolor=PAPER, layout="constrained")
    halves = figure.subfigures(2, 1, height_ratios=[height, foot_height], squeeze=False)
    body, foot = halves[0, 0], halves[1, 0]
    blocks = body.subfigures(rows, columns, wspace=0.02, hspace=0.03, squeeze=False)
    for block, one, title in zip(blocks.flat, sketches, titles, strict=False):
        _block(block, one, title, caption, pair=known)
    _legend(foot, known, side_by_side)
    return figure


def _block(block: SubFigure, one: Sketch, title: str, caption: str, pair: bool) -> None:
    """One graph: the chosen subgraph on the left and, in a picture that knows truth, the true one on the right."""
    block.suptitle(title, fontsize=10.5, color=INK)
    axes = block.subplots(1, 2 if pair else 1, squeeze=False)
    _draw_found(axes[0, 0], one, caption)
    if pair:
        _draw_true(axes[0, 1], one)


def _draw_found(axes: Axes, one: Sketch, caption: str) -> None:
    """The chosen edges in red, the rest by their score."""
    others = one.scores[~one.chosen]
    low, high = (others.min(), others.max()) if len(others) else (0.0, 1.0)
    shades = SCALE((one.scores - low) / max(high - low, 1e-9))
    draw_edges(axes, one, one.chosen, FOUND, shades)
    axes.set_xlabel(caption, fontsize=8.5, color=FOUND)


def _draw_true(axes: Axes, one: Sketch) -> None:
    """The true edges in black, the rest in grey."""
    truth = one.truth if one.truth is not None else np.zeros(len(one.pairs), dtype=bool)
    draw_edges(axes, one, truth, TRUE, np.full(len(one.pairs), REST))
    axes.set_xlabel("true invariant subgraph" if one.truth is not None else "truth unknown", fontsize=8.5, color=TRUE)


def draw_edges(axes: Axes, one: Sketch, strong: Array, colour: str, shades: Array) -> None:
    """All edges, the strong ones on top in one colour, and the nodes they touch."""
    lines = one.positions[one.pairs]  # (M, 2, 2)
    size = float(np.clip(1200 / max(len(one.positions), 1), 7, 46))
    thick = 3.0 * (size / 46) ** 0.4
    axes.add_collection(
        LineCollection(list(lines[~strong]), colors=list(shades[~strong]), linewidths=thick * 0.57, zorder=1)
    )
    axes.add_collection(LineCollection(list(lines[strong]), colors=colour, linewidths=thick, zorder=2))
    touched = np.isin(np.arange(len(one.positions)), one.pairs[strong])
    for rows, face in ((~touched, REST), (touched, colour)):
        across, up = one.positions[rows].T
        axes.scatter(across, up, s=size, c=face, edgecolors=PAPER, linewidths=0.9, zorder=3)
    _frame(axes)


def _frame(axes: Axes) -> None:
    """Equal scales, no ticks, a hair-line around the panel."""
    axes.set(xticks=[], yticks=[])
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.8)


def _legend(foot: SubFigure, known: bool, side_by_side: int) -> None:
    """What the colours mean."""
    entries = [
        Line2D([], [], color=FOUND, linewidth=3, label="chosen: the k best edges"),
        Line2D([], [], color=SCALE(1.0), linewidth=1.7, label="not chosen, higher score"),
        Line2D([], [], color=SCALE(0.0), linewidth=1.7, label="not chosen, lower score"),
    ]
    if known:
        entries.append(Line2D([], [], color=TRUE, linewidth=3, label="true motif"))
    foot.legend(handles=entries, loc="center", ncols=min(side_by_side, len(entries)), frameon=False, fontsize=9)


def save(figure: Figure, path: Path) -> Path:
    """Write the picture in one step, so that no reader sees half of it."""
    form = path.suffix.lstrip(".") or "png"
    canvas = FigureCanvasAgg(figure)
    if form not in canvas.get_supported_filetypes():
        raise InputError(f"a picture cannot be written as {form!r}; end {path.name} in .png, .pdf or .svg.")
    files.make_folder(path.parent)
    files.write(path, lambda part: canvas.print_figure(part, dpi=110, format=form))
    return path
