"""A picture of a search for settings: the score of every trial, and how much each setting matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from goodformer.draw import palette
from goodformer.draw.canvas import draw

Trial = tuple[int, float | None, bool]
"""Number, score (None if unknown) and whether the trial was pruned."""


def draw_search(
    trials: Sequence[Trial], importances: Mapping[str, float], path: str | Path, judge: str, lower: bool = False
) -> Path:
    """Draw the scores of all trials with the best so far, and beside them the importance of each setting.

    Args:
        trials: The trials in their order.
        importances: Importance of each setting; the right half is left out if there are none.
        path: Picture file; the suffix decides the format (png, pdf, svg).
        judge: What the score is, for the axis.
        lower: Whether lower scores are better.
    """
    return draw(lambda: search_figure(trials, importances, judge, lower), path, dpi=150)


def search_figure(trials: Sequence[Trial], importances: Mapping[str, float], judge: str, lower: bool = False) -> Figure:
    """Return the figure; see `draw_search`."""
    figure = Figure(figsize=(8.4 if importances else 4.6, 3.2), layout="constrained")
    axes = figure.subplots(1, 2 if importances else 1, squeeze=False)[0]
    whole = [(number, score) for number, score, pruned in trials if score is not None and not pruned]
    pruned = [(number, score) for number, score, stopped in trials if score is not None and stopped]
    if pruned:
        axes[0].scatter(*zip(*pruned, strict=True), marker="x", s=18, color=palette.GREY, label="pruned")
    if whole:
        numbers, scores = zip(*whole, strict=True)
        axes[0].scatter(numbers, scores, s=18, color=palette.BLUE, label="finished")
        best = list(accumulate(scores, min if lower else max))
        axes[0].step(numbers, best, where="post", color=palette.VERMILION, label="best so far")
    axes[0].set_xlabel("trial", fontsize=9)
    axes[0].set_ylabel(judge, fontsize=9)
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].legend(fontsize=8, frameon=False)
    if importances:
        names = sorted(importances, key=lambda name: importances[name])
        axes[1].barh(names, [importances[name] for name in names], color=palette.BLUE)
        axes[1].set_xlabel("importance", fontsize=9)
    for axis in axes:
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    return figure
