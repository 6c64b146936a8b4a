"""Charts as SVG whose colours are variables of the page; the value of every mark is its tooltip."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 10, 40
"""Margins, which hold the numbers and names of the axes."""
BINS = 24
COLOURS = tuple(f"s{number}" for number in range(1, 9))
"""Variables of series that are compared; see ``static/style.css``."""


@dataclass(frozen=True)
class Series:
    """Points of one colour.

    Attributes:
        name: What they are, for the legend.
        colour: Name of a variable of the page.
        x: Values across; a histogram counts these.
        y: Values up.
        low: Lower ends of intervals, if there are any.
        high: Upper ends of intervals.
        labels: Tooltip of each point; its numbers by default.
    """

    name: str
    colour: str
    x: Sequence[float]
    y: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    labels: Sequence[str] = ()


def histogram(series: Sequence[Series], across: str, whole: bool = False) -> Markup:
    """Draw the share of values in each bin, one outline per series.

    Args:
        series: The values.
        across: Name of the values.
        whole: Whether values are whole numbers; each bin then holds equally many of them.
    """
    values = np.concatenate([np.asarray(one.x, dtype=float) for one in series] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    if not len(values):
        return empty("no values")
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = int(np.clip(2 * math.sqrt(min(len(one.x) for one in series)), 6, BINS))
    if whole:
        step = math.ceil((high - low + 1) / bins)
        edges = np.arange(math.floor(low), math.ceil(high) + step + 1, step) - 0.5
        edges = edges[: np.searchsorted(edges, high) + 1]
    else:
        edges = np.linspace(low, high, bins + 1)
    heights = {}
    for one in series:
        counted, _ = np.histogram(np.asarray(one.x, dtype=float), edges)
        heights[one.name] = counted / max(counted.sum(), 1)
    plot = Plot((float(edges[0]), float(edges[-1])), (0.0, 1.05 * max(float(one.max()) for one in heights.values())))
    for one in series:
        corners = [(edges[0], 0.0)]
        for left, right, height in zip(edges, edges[1:], heights[one.name], strict=False):
            corners += [(left, height), (right, height)]
        path = "L".join(plot.at(x, y) for x, y in (*corners, (edges[-1], 0.0)))
        plot.add(
            f'<path d="M{path}" fill="var(--{one.colour})" fill-opacity=".22" stroke="var(--{one.colour})" '
            'stroke-width="1.6"/>'
        )
    for place, (left, right) in enumerate(pairwise(edges)):  # one tooltip per bin
        told = "; ".join(f"{name}: {height[place]:.0%}" for name, height in heights.items())
        between = f"{(left + right) / 2:g}" if whole and right - left == 1 else f"{left:.3g} to {right:.3g}"
        x, width = plot.x(left), plot.x(right) - plot.x(left)
        plot.add(
            f'<rect x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}" fill="transparent">'
            f"{_tip(f'{between}: {told}')}</rect>"
        )
    return plot.finish(across, "share", percent=True, whole=whole)


def lines(
    series: Sequence[Series],
    across: str,
    up: str,
    *,
    span: tuple[float, float] | None = None,
    percent: bool = False,
    diagonal: bool = False,
    mark: float | None = None,
    points: bool = True,
    whole: bool = False,
) -> Markup:
    """Draw lines through points, with intervals as bands.

    Args:
        series: The lines; breaks at values that are not finite.
        across: Name of the horizontal axis.
        up: Name of the vertical axis.
        span: Range of both axes; by default that of the values.
        percent: Whether values are shares.
        diagonal: Whether to draw the line on which both are equal.
        mark: A value across that is marked by a vertical line.
        points: Whether to draw the points, too.
        whole: Whether values across are whole numbers.
    """
    xs, ys = _values(one.x for one in series), _values((*one.y, *one.low, *one.high) for one in series)
    if not xs or not ys:
        return empty("no values")
    plot = Plot(span or _range(xs, 0), span or _range(ys, 0.06))
    if diagonal:
        (a, b), (c, d) = plot.across, plot.up
        low, high = max(a, c), min(b, d)
        plot.add(f'<path class="axis" d="M{plot.at(low, low)}L{plot.at(high, high)}" stroke-dasharray="4 4"/>')
    if mark is not None:
        x = plot.x(mark)
        plot.add(f'<path class="axis" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke-dasharray="2 3"/>')
    for one in series:
        known = [place for place, y in enumerate(one.y) if math.isfinite(y)]
        if one.low:
            up_side = [plot.at(one.x[place], one.high[place]) for place in known]
            down_side = [plot.at(one.x[place], one.low[place]) for place in reversed(known)]
            band = "L".join([*up_side, *down_side])
            plot.add(f'<path d="M{band}Z" fill="var(--{one.colour})" fill-opacity=".14"/>')
        path = "L".join(plot.at(one.x[place], one.y[place]) for place in known)
        plot.add(f'<path d="M{path}" fill="none" stroke="var(--{one.colour})" stroke-width="1.8"/>')
        for place in known if points else ():
            plot.dot(one, place, percent)
    return plot.finish(across, up, percent, whole)


def scatter(
    series: Sequence[Series],
    across: str,
    up: str,
    *,
    diagonal: bool = False,
    percent: bool = False,
    names: bool = False,
) -> Markup:
    """Draw points, with intervals as vertical lines; ``names`` writes the label of each point beside it."""
    xs, ys = _values(one.x for one in series), _values((*one.y, *one.low, *one.high) for one in series)
    if not xs or not ys:
        return empty("no values")
    both = _range([*xs, *ys], 0.05)
    plot = Plot(both if diagonal else _range(xs, 0.06), both if diagonal else _range(ys, 0.06))
    if diagonal:
        low, high = both
        plot.add(f'<path class="axis" d="M{plot.at(low, low)}L{plot.at(high, high)}" stroke-dasharray="4 4"/>')
    for one in series:
        for place in range(len(one.x)):
            if one.low and math.isfinite(one.low[place]):
                x = plot.x(one.x[place])
                down, top = plot.y(one.low[place]), plot.y(one.high[place])
                plot.add(f'<path d="M{x:.1f} {down:.1f}V{top:.1f}" stroke="var(--{one.colour})" opacity=".5"/>')
            plot.dot(one, place, percent, 4)
            if names and one.labels:
                x, y = plot.x(one.x[place]), plot.y(one.y[place])
                left = x > WIDTH * 0.7
                anchor, shift = ("end", -7) if left else ("start", 7)
                plot.add(
                    f'<text class="name" x="{x + shift:.1f}" y="{y - 5:.1f}" text-anchor="{anchor}">'
                    f"{escape(one.labels[place])}</text>"
                )
    return plot.finish(across, up, percent)


def bars(rows: Sequence[tuple[str, float, str]], across: str, *, span: tuple[float, float] | None = None) -> Markup:
    """Draw one horizontal bar per row, given as name, value and colour; the value is written at its end."""
    rows = [row for row in rows if math.isfinite(row[1])]
    if not rows:
        return empty("no values")
    low, high = span or (min(0.0, *(row[1] for row in rows)), max(0.0, *(row[1] for row in rows)) or 1.0)
    name, step, right = 150, 22, 46
    height = step * len(rows) + 26
    scale = (WIDTH - name - right) / ((high - low) or 1)
    zero = name + (max(low, 0) - low) * scale
    parts = []
    for place, (label, value, colour) in enumerate(rows):
        end, y = name + (value - low) * scale, place * step + 4
        x, width = min(zero, end), abs(end - zero)
        parts.append(
            f'<text class="name" x="{name - 6}" y="{y + 13}" text-anchor="end">{escape(_cut(label, 24))}</text>'
            f'<rect x="{x:.1f}" y="{y + 2}" width="{max(width, 1):.1f}" height="{step - 8}" rx="2" '
            f'fill="var(--{colour})">{_tip(f"{label}: {value:.4g}")}</rect>'
            f'<text x="{max(end, zero) + 5:.1f}" y="{y + 13}">{value:.3g}</text>'
        )
    parts.append(f'<text x="{name}" y="{height - 6}">{escape(across)}</text>')
    return Markup(_svg(WIDTH, height, "".join(parts), across))


class Plot:
    """The area of a chart: scales, axes and the marks added so far.

    Args:
        across: Range of values from left to right.
        up: Range of values from bottom to top.
    """

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.across, self.up = across, up
        self._marks: list[str] = []

    def x(self, value: float) -> float:
        """Return the place of a value across."""
        low, high = self.across
        return LEFT + (float(value) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the place of a value up."""
        low, high = self.up
        return HEIGHT - BOTTOM - (float(value) - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def at(self, x: float, y: float) -> str:
        """Return the place of a point, as a path writes it."""
        return f"{self.x(x):.1f} {self.y(y):.1f}"

    def add(self, mark: str) -> None:
        """Add an element."""
        self._marks.append(mark)

    def dot(self, one: Series, place: int, percent: bool, radius: float = 2.6) -> None:
        """Add a point with its tooltip."""
        x, y = one.x[place], one.y[place]
        if not (math.isfinite(x) and math.isfinite(y)):
            return
        value = f"{y:.1%}" if percent else f"{y:.4g}"
        told = one.labels[place] if one.labels else f"{one.name}: {x:.4g}, {value}"
        self.add(
            f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:g}" fill="var(--{one.colour})" '
            f'fill-opacity=".8">{_tip(told)}</circle>'
        )

    def finish(self, across: str, up: str, percent: bool = False, whole: bool = False) -> Markup:
        """Return the chart with its axes; ``whole`` writes only whole numbers under the horizontal one."""
        parts = []
        for value in ticks(*self.up):
            y, text = self.y(value), f"{value:.0%}" if percent else f"{value:g}"
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for value in ticks(*self.across, least=1 if whole else 0):
            x = self.x(value)
            parts.append(f'<path class="axis" d="M{x:.1f} {HEIGHT - BOTTOM}v4"/>')
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
        parts.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(across)}</text>')
        turned = f'transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)"'
        parts.append(f'<text {turned} text-anchor="middle">{escape(up)}</text>')
        label = f"{up} over {across}"
        return Markup(_svg(WIDTH, HEIGHT, "".join((*parts, *self._marks)), label))


def empty(reason: str) -> Markup:
    """Return what stands in place of a chart without values."""
    return Markup('<p class="quiet">{}</p>').format(reason)


def ticks(low: float, high: float, most: int = 6, least: float = 0) -> list[float]:
    """Return round numbers between two values, about ``most`` of them and at least ``least`` apart."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = max(next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= most), least)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _svg(width: int, height: int, content: str, label: str) -> str:
    name = escape(label)
    return f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{name}">{content}</svg>'


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _values(parts: Iterable[Iterable[float]]) -> list[float]:
    return [float(value) for part in parts for value in part if math.isfinite(value)]


def _range(values: Sequence[float], margin: float) -> tuple[float, float]:
    """Return the range of values, widened by a share of it."""
    low, high = min(values), max(values)
    wider = (high - low) * margin or (0.5 if low == high else 0.0)
    return low - wider, high + wider
