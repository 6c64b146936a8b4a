"""A small picture of a split: the distribution of domains in each part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from goodformer.data.splits.split import Split
from goodformer.draw import palette
from goodformer.draw.canvas import draw, shortened
from goodformer.errors import InputError
from goodformer.spec import SPLIT_NAMES

FEW = 20
"""Largest number of domains that are shown one by one with their names."""
BARS = 40
LONGEST_NAME = 24
MOST_LETTERS = 50
"""Letters of names that fit on a line; longer names are rotated."""


def draw_split(split: Split, path: str | Path) -> Path:
    """Draw one row per part: the share of its rows in each domain.

    The horizontal axis is the domain: its value if domains are numbers, otherwise its position in the order of the
    split.

    Args:
        split: The split.
        path: Picture file; the suffix decides the format (png, pdf, svg).
    """
    return draw(lambda: split_figure(split), path, dpi=150)


def split_figure(split: Split) -> Figure:
    """Return the figure of a split; see `draw_split`."""
    shown = [name for name in SPLIT_NAMES if len(split.rows(name))]
    if not shown:
        raise InputError("nothing to draw: the split leaves out every row; choose another split.")
    values, names, numeric = _axis(split)
    low, high = values.min(), values.max()
    if names or bool((values == np.floor(values)).all()):
        step = 1 if names else max(1, -(-(high - low + 1) // BARS))  # every bar covers equally many whole numbers
        edges = np.arange(low - 0.5, high + 0.5 + step, step)
    else:
        edges = np.linspace(low, high, BARS + 1)

    figure = Figure(figsize=(6.4, 0.7 * len(shown) + 1.0), layout="constrained")
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for name, axis in zip(shown, axes, strict=True):
        own = values[split.rows(name).numpy()]
        heights = np.histogram(own, edges)[0] / len(own)
        axis.bar(edges[:-1], heights, np.diff(edges) * 0.92, align="edge", color=palette.SPLITS[name])
        axis.set_ylabel(f"{SPLIT_NAMES[name]}\n{len(own):,}", rotation=0, ha="right", va="center", fontsize=8)
        axis.set_yticks([])
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right", "left"]].set_visible(False)
    if names:
        short = [shortened(name, LONGEST_NAME) for name in names]
        turned = sum(map(len, short)) > MOST_LETTERS
        axes[-1].set_xticks(range(len(short)), short, rotation=40 if turned else 0, ha="right" if turned else "center")
    axes[-1].set_xlabel(split.by if names or numeric else f"domains of {split.by}, in order", fontsize=9)
    figure.suptitle(f"share of each part's rows by {split.by}", fontsize=10)
    return figure


def _axis(split: Split) -> tuple[npt.NDArray[np.float64], list[str], bool]:
    """Return each row's position on the axis (R,), the names of few domains, and whether positions are values."""
    number = split.domain.numpy()
    domains = int(number.max(initial=0)) + 1
    if domains <= FEW:
        return number.astype(np.float64), list(split.names) or [str(one) for one in range(domains)], False
    try:
        return np.array([float(name) for name in split.names])[number], [], True
    except (ValueError, IndexError):
        return number.astype(np.float64), [], False
