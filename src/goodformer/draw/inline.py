"""Drawings inside an HTML page: small SVG whose colours are variables of the page, so that they follow its theme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from goodformer.batch import Graph
from goodformer.draw.subgraphs import sketch
from goodformer.explain.subgraph import ScoredEdges, score_edges

Points = Sequence[tuple[float, float]]

LEVELS = 4
"""Shades of the chosen edges, and of the others."""
MOST_NODES = 200
"""Largest graph that is drawn; larger ones are unreadable and slow to lay out."""


def whole(width: int, height: int, content: str, label: str) -> str:
    """Return an SVG drawing; ``label``, which must be free of markup, says what a screen reader reads."""
    head = f'<svg class="drawing" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    return f"{head}{content}</svg>"


def highlights(edges: ScoredEdges, points: Points, width: float) -> str:
    """Return bands behind the edges, stronger for higher scores; the chosen edges are stronger than all others.

    Edges of one shade are one path, so that bands do not darken where they meet.
    """
    found: dict[tuple[bool, int], list[str]] = {}
    for chosen in (False, True):
        places = (edges.chosen == chosen).nonzero().flatten().tolist()
        values = edges.scores[places]
        low, span = (float(values.min()), float(values.max() - values.min())) if len(places) else (0.0, 0.0)
        for place, value in zip(places, values.tolist(), strict=True):
            level = min(int((value - low) / span * LEVELS), LEVELS - 1) if span > 0 else (LEVELS - 1) * chosen
            found.setdefault((chosen, level), []).append(_lines(points, [edges.ends[:, place].tolist()]))
    bands = []
    for (chosen, level), lines in sorted(found.items()):
        opacity = 0.45 + 0.4 * level / (LEVELS - 1) if chosen else 0.18 * level / (LEVELS - 1)
        if opacity:
            bands.append(
                f'<path d="{"".join(lines)}" fill="none" stroke="var(--chosen)" stroke-width="{width:g}" '
                f'stroke-linecap="round" opacity="{opacity:.2f}"/>'
            )
    return "".join(bands)


def graph_svg(graph: Graph, scores: Tensor | None = None, width: int = 260, height: int = 190) -> str:
    """Draw a graph with its best-scored edges; true edges, where known, are thick.

    Args:
        graph: A graph with ``edge_index``.
        scores: One score per directed edge (E,); no highlights by default.
        width: Units across.
        height: Units down.
    """
    nodes = int(graph.num_nodes or 0)
    if nodes > MOST_NODES:
        note = (
            f'<text x="{width / 2:g}" y="{height / 2:g}" text-anchor="middle" fill="currentColor">{nodes} nodes</text>'
        )
        return whole(width, height, note, f"a graph of {nodes} nodes, too large to draw")
    edges = graph.edge_index.new_zeros(graph.edge_index.shape[1]).float() if scores is None else scores
    plan = sketch(graph, edges, 0 if scores is None else None)
    points = _placed(plan.positions, width, height)
    radius = float(np.clip(28 / max(nodes, 1) ** 0.5, 1.6, 6))
    parts = [
        f'<path d="{_lines(points, plan.pairs)}" stroke="currentColor" opacity=".45" stroke-width="{radius / 3:.1f}"/>'
    ]
    if scores is not None:
        scored = score_edges(graph.edge_index, scores.float(), None, graph.get("edge_truth"))
        parts.insert(0, highlights(scored, points, 2.2 * radius))
    if plan.truth is not None and plan.truth.any():
        true = _lines(points, plan.pairs[plan.truth])
        parts.append(f'<path d="{true}" stroke="currentColor" stroke-width="{radius / 1.2:.1f}"/>')
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in points)
    parts.append(f'<path d="{dots}" stroke="currentColor" stroke-width="{2 * radius:.1f}" stroke-linecap="round"/>')
    return whole(width, height, "".join(parts), f"a graph of {nodes} nodes and {len(plan.pairs)} edges")


def _lines(points: Points, pairs: Iterable[Sequence[int]]) -> str:
    """Return the path of lines between pairs of points."""
    ends = ((*points[a], *points[b]) for a, b in pairs)
    return "".join(f"M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" for a, b, c, d in ends)


def _placed(positions: NDArray[np.float64], width: int, height: int, margin: int = 12) -> list[tuple[float, float]]:
    """Return positions (N, 2) scaled into a drawing."""
    if not len(positions):
        return []
    low, span = positions.min(0), np.maximum(positions.max(0) - positions.min(0), 1e-9)
    scale = min((width - 2 * margin) / span[0], (height - 2 * margin) / span[1])
    scale = scale if len(positions) > 1 else 1.0
    middle = np.array([width, height]) / 2
    placed: list[tuple[float, float]] = [(float(x), float(y)) for x, y in (positions - low - span / 2) * scale + middle]
    return placed
