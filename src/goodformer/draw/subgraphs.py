"""Pictures of graphs: the invariant subgraph that a method found, next to the true one."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from torch import Tensor

from goodformer.batch import Graph
from goodformer.draw.canvas import draw
from goodformer.draw.palette import FOUND, FRAME, INK, PAPER, TRUE
from goodformer.errors import InputError
from goodformer.explain.subgraph import Size, score_edges

Array = NDArray[Any]

REST = "#c9ced6"
SCALE = LinearSegmentedColormap.from_list("score", [FRAME, "#f6c7a6", "#f0955f"])
"""From the lowest to the highest score among the edges that were not chosen."""

CROWDED = 120
"""Number of nodes above which the slower, clearer layout is not used."""

SPREAD = 8
"""Steps from end to end that a drawing shows; longer graphs are curled up."""


@dataclass(frozen=True)
class Sketch:
    """One graph with each undirected edge once, and a position for each node.

    Attributes:
        pairs: Ends of each undirected edge, (M, 2).
        scores: Mean score of the two directions, (M,).
        truth: Whether the edge is truly invariant, (M,); None if unknown.
        chosen: Whether the edge is among the best, (M,).
        positions: Position of each node, (N, 2).
    """

    pairs: Array
    scores: Array
    truth: Array | None
    chosen: Array
    positions: Array

    @property
    def hits(self) -> int:
        """Number of chosen edges that are truly invariant."""
        return 0 if self.truth is None else int((self.chosen & self.truth).sum())


def draw_subgraphs(
    graphs: Sequence[Graph],
    scores: Sequence[Tensor],
    path: str | os.PathLike[str],
    titles: Sequence[str],
    k: Size = None,
    caption: str | Sequence[str] = "found invariant subgraph",
    marked: Sequence[bool] | None = None,
) -> Path:
    """Draw each graph with its best-scored subgraph, next to the true subgraph if it is known.

    Args:
        graphs: Graphs with ``edge_index`` and, if known, ``edge_truth`` (E,).
        scores: For each graph, a score of each directed edge (E,); larger = more invariant.
        path: Picture file; the suffix decides the format (png, pdf, svg).
        titles: One line above each graph.
        k: Number or share of undirected edges to choose; default: the number of true edges if known, otherwise as
            the scores suggest.
        caption: What the chosen edges are; one text for all graphs, or one for each.
        marked: Whether each graph has chosen edges; one without is drawn in grey. By default all have.

    Returns:
        The path of the picture.
    """
    if not len(graphs) == len(scores) == len(titles) or not graphs:
        raise InputError(
            f"draw_subgraphs got {len(graphs)} graphs, {len(scores)} scores and {len(titles)} titles; "
            "pass at least one graph, and one score tensor and one title per graph."
        )

    def figure() -> Figure:
        shown = [True] * len(graphs) if marked is None else marked
        sketches = [sketch(*one) for one in zip(graphs, scores, [k] * len(graphs), shown, strict=True)]
        return subgraph_figure(sketches, titles, caption)

    return draw(figure, path)


def sketch(graph: Graph, scores: Tensor, k: Size = None, marked: bool = True) -> Sketch:
    """Return the graph with each edge once, its best edges chosen, and a position for every node."""
    edges = score_edges(graph.edge_index, scores, k, graph.get("edge_truth"))
    pairs, truth = edges.ends.T.numpy(), None if edges.truth is None else edges.truth.numpy()
    positions = _positions(pairs, int(graph.num_nodes or 0))
    if not marked:
        return Sketch(pairs, np.zeros(len(pairs)), truth, np.zeros(len(pairs), dtype=bool), positions)
    return Sketch(pairs, edges.scores.numpy(), truth, edges.chosen.numpy(), positions)


def _positions(pairs: Array, nodes: int) -> Array:
    """Return a position for every node, always the same for the same graph; the layout with the fewest crossings."""
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(pairs.tolist())
    if not (1 < nodes <= CROWDED and nx.is_connected(graph)):
        layouts = [nx.spring_layout(graph, seed=0)]
    else:
        steps = dict(nx.all_pairs_shortest_path_length(graph))
        longest = max(max(row.values()) for row in steps.values())
        # Long distances are shortened, so that a long graph curls up instead of shrinking its motif.
        power = math.log(SPREAD) / math.log(max(longest, SPREAD))
        distances = {node: {other: step**power for other, step in row.items()} for node, row in steps.items()}
        starts = [None, *([nx.planar_layout(graph)] if nx.is_planar(graph) else [])]
        if nodes <= CROWDED // 2:
            starts += [nx.random_layout(graph, seed=seed) for seed in range(3)]
        layouts = [nx.kamada_kawai_layout(graph, dist=distances, pos=start) for start in starts]
    points = [np.array([layout[node] for node in range(nodes)]) for layout in layouts]
    best = points[0] if len(points) == 1 else min(points, key=lambda one: _crossings(one, pairs))
    centred: Array = best - best.mean(axis=0)
    # The longest extent lies across, where a panel has most room.
    return centred if nodes < 2 else centred @ np.linalg.svd(centred, full_matrices=False)[2].T


def _crossings(points: Array, pairs: Array) -> int:
    """Count the pairs of edges that cross without sharing an end."""
    first, second = np.triu_indices(len(pairs), 1)
    apart = ~(pairs[first][:, :, None] == pairs[second][:, None]).any((1, 2))
    a, b = points[pairs[first[apart]]].swapaxes(0, 1)
    c, d = points[pairs[second[apart]]].swapaxes(0, 1)

    def side(a: Array, b: Array, c: Array) -> Any:
        """On which side of the line through a and b point c lies."""
        return (b - a)[:, 0] * (c - a)[:, 1] > (b - a)[:, 1] * (c - a)[:, 0]

    return int(((side(a, b, c) != side(a, b, d)) & (side(c, d, a) != side(c, d, b))).sum())


def subgraph_figure(sketches: Sequence[Sketch], titles: Sequence[str], caption: str | Sequence[str]) -> Figure:
    """Return a grid with one block per graph above a legend; with known truth a block has two panels."""
    known = any(one.truth is not None for one in sketches)
    columns = min(len(sketches), 2 if known else 3)
    rows = -(-len(sketches) // columns)
    width, height = (5.6 if known else 3.6) * columns, 2.65 * rows
    side_by_side = (2 if known else 1) * columns  # legend entries that fit the width
    foot_height = 0.4 + 0.2 * -(-(4 if known else 3) // side_by_side)
    figure = Figure(figsize=(width, height + foot_height), facecolor=PAPER, layout="constrained")
    halves = figure.subfigures(2, 1, height_ratios=[height, foot_height], squeeze=False)
    blocks = halves[0, 0].subfigures(rows, columns, wspace=0.02, hspace=0.03, squeeze=False)
    captions = [caption] * len(sketches) if isinstance(caption, str) else caption
    for block, one, title, words in zip(blocks.flat, sketches, titles, captions, strict=False):
        found = "" if one.truth is None else f"  ·  {one.hits} of {int(one.truth.sum())} edges found"
        block.suptitle(f"{title}{found}", fontsize=10.5, color=INK)
        axes = block.subplots(1, 2 if known else 1, squeeze=False)[0]
        _draw_found(axes[0], one, words)
        if known:
            _draw_true(axes[1], one)
    entries = [
        Line2D([], [], color=FOUND, linewidth=3, label="chosen: the best edges"),
        Line2D([], [], color=SCALE(1.0), linewidth=1.7, label="not chosen, higher score"),
        Line2D([], [], color=SCALE(0.0), linewidth=1.7, label="not chosen, lower score"),
        *([Line2D([], [], color=TRUE, linewidth=3, label="true motif")] if known else []),
    ]
    ncols = min(side_by_side, len(entries))
    halves[1, 0].legend(handles=entries, loc="center", ncols=ncols, frameon=False, fontsize=9)
    return figure


def _draw_found(axes: Axes, one: Sketch, caption: str) -> None:
    """Draw the chosen edges in red and the rest by score."""
    others = one.scores[~one.chosen]
    low, high = (others.min(), others.max()) if len(others) else (0.0, 1.0)
    draw_edges(axes, one, one.chosen, FOUND, SCALE((one.scores - low) / max(high - low, 1e-9)))
    axes.set_xlabel(caption, fontsize=8.5, color=FOUND)


def _draw_true(axes: Axes, one: Sketch) -> None:
    """Draw the true edges in black and the rest in grey."""
    truth = one.truth if one.truth is not None else np.zeros(len(one.pairs), dtype=bool)
    draw_edges(axes, one, truth, TRUE, np.full(len(one.pairs), REST))
    axes.set_xlabel("true invariant subgraph" if one.truth is not None else "truth unknown", fontsize=8.5, color=TRUE)


def draw_edges(axes: Axes, one: Sketch, strong: Array, colour: str, shades: Array) -> None:
    """Draw all edges and nodes; the strong edges, and the nodes they touch, have one colour and lie on top."""
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
    axes.set(xticks=[], yticks=[])
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.8)
