"""One small picture of a split: how the domains of each part are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from goodformer import files
from goodformer.data.splits.split import Split
from goodformer.draw import palette
from goodformer.registry import InputError
from goodformer.spec import SPLITS

FEW = 20
"""Up to so many domains are shown one by one under their names."""
BARS = 40
SUFFIXES = (".png", ".svg", ".pdf")
LONGEST_NAME = 24
MOST_LETTERS = 50
"""Letters of names that fit on a line; with more of them names are turned."""


def draw_split(split: Split, path: str | Path) -> Path:
    """Write a picture with a row a part: which share of its rows lies in which domain.

    The horizontal axis is the domain: its value where domains are numbers, its place in the order of the split
    otherwise.

    Args:
        split: The split.
        path: Where the picture goes; PNG, SVG or PDF by its suffix.
    """
    place = Path(path)
    if place.suffix.lower() not in SUFFIXES:
        raise InputError(f"cannot draw {path}: its suffix is none of {', '.join(SUFFIXES)}; choose one of them.")
    shown = [name for name in SPLITS if len(split.rows(name))]
    if not shown:
        raise InputError("there is nothing to draw: the split leaves out every row; split otherwise.")
    figure = Figure(figsize=(6.4, 0.7 * len(shown) + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    values, few = _axis(split)
    edges = _edges(values, few)
    for name, axis in zip(shown, axes, strict=True):
        _draw_part(axis, name, values[split.rows(name).numpy()], edges)
    _label(axes[-1], split, few)
    figure.suptitle(f"share of each part's rows by {split.by}", fontsize=10)
    return _saved(figure, place)


def _axis(split: Split) -> tuple[npt.NDArray[np.float64], Sequence[str] | None]:
    """Where each row lies on the axis (R,), and the names of the domains where they are few."""
    number = split.domain.numpy().astype(np.float64)
    domains = int(number.max(initial=0)) + 1
    if domains <= FEW:
        return number, split.names or [str(one) for one in range(domains)]
    try:
        return np.array([float(name) for name in split.names])[split.domain.numpy()], None
    except (ValueError, IndexError):
        return number, None


def _edges(values: npt.NDArray[np.float64], few: Sequence[str] | None) -> npt.NDArray[np.float64]:
    """Where bars begin and end."""
    low, high = values.min(), values.max()
    if few is not None or bool((values == np.floor(values)).all()):  # bars of whole numbers hold equally many of them
        step = 1 if few is not None else max(1, -(-(high - low + 1) // BARS))
        return np.arange(low - 0.5, high + 0.5 + step, step)
    return np.linspace(low, high, BARS + 1)


def _draw_part(axis: Any, name: str, values: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> None:
    """The bars of one part."""
    heights, _ = np.histogram(values, edges)
    axis.bar(edges[:-1], heights / len(values), np.diff(edges) * 0.92, align="edge", color=palette.SPLITS[name])
    axis.set_ylabel(f"{name}\n{len(values):,}", rotation=0, ha="right", va="center", fontsize=8)
    axis.set_yticks([])
    axis.tick_params(labelsize=8)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def _label(axis: Any, split: Split, few: Sequence[str] | None) -> None:
    """What the horizontal axis shows."""
    if few is not None:
        names = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in few]
        turned = sum(map(len, names)) > MOST_LETTERS
        axis.set_xticks(range(len(names)), names, rotation=40 if turned else 0, ha="right" if turned else "center")
    axis.set_xlabel(split.by if few is not None or _numeric(split) else f"domains of {split.by}, in order", fontsize=9)


def _numeric(split: Split) -> bool:
    """Whether the axis shows values rather than places in an order."""
    return bool(split.names) and all(name.lstrip("-").replace(".", "", 1).isdigit() for name in split.names)


def _saved(figure: Any, path: Path) -> Path:
    """Write the picture in one step."""
    files.write(path, lambda part: figure.savefig(part, dpi=150, format=path.suffix.lower().lstrip(".")))
    return path
