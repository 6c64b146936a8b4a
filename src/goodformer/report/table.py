"""The one table type of the project: rows of cells under headings, shown as text, Markdown, LaTeX or JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from goodformer import files
from goodformer.errors import InputError

ABSENT, NOT_RUN, FAILED = "-", "not run", "failed"
GAP = 2
"""Spaces between two columns of text."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Args:
        text: A word, or a number as it is shown.
        value: The number behind the text, if it is one.
        deviation: Standard deviation as it is shown.
        remark: Words after the number, e.g. ``(2 of 3 seeds)``.
        rank: 1 for the best cell of its column, 2 for the second best, 0 for all others.
        given: What the runs behind the number were given: graphs, epochs, seeds, inputs. See `ranked`.
    """

    text: str
    value: float | None = None
    deviation: str = ""
    remark: str = ""
    rank: int = 0
    given: Hashable = None

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return the cell of any plain value: ``-`` for None and NaN, three decimals or digits for other numbers."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return cls(ABSENT)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return cls(str(value))
        return cls(str(value) if isinstance(value, int) else shown(value), value)

    @classmethod
    def mean(
        cls, mean: float | None, std: float | None = None, digits: int = 2, remark: str = "", given: Hashable = None
    ) -> Self:
        """Return the cell of a mean and its standard deviation; ``-`` where there is no mean."""
        if mean is None:
            return cls(ABSENT)
        deviation = "" if std is None else f"{std:.{digits}f}"
        return cls(f"{mean:.{digits}f}", mean, deviation, remark, given=given)

    def plain(self) -> str:
        """Return the cell as text."""
        return " ".join(part for part in (self.text, self.deviation and f"±{self.deviation}", self.remark) if part)

    def markdown(self) -> str:
        """Return the cell in Markdown, the best of its column in bold."""
        return f"**{self.text}**{self.plain()[len(self.text) :]}" if self.rank == 1 else self.plain()

    def latex(self) -> str:
        """Return the cell in LaTeX, the best of its column in bold and the second best underlined."""
        text = {1: rf"\textbf{{{self.text}}}", 2: rf"\underline{{{self.text}}}"}.get(self.rank, escaped(self.text))
        deviation = rf"{{\scriptsize$\pm${self.deviation}}}" if self.deviation else ""
        return f"{text}{deviation}{self.remark and f' {escaped(self.remark)}'}"


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings.

    Args:
        heads: One heading per column.
        rows: The cells of each row.
        title: What the table shows.
        note: What the numbers are and how they were obtained.
        groups: The group of each row; LaTeX draws a rule between groups.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    note: str = ""
    groups: Sequence[str] = ()

    @classmethod
    def of(cls, heads: Sequence[str], rows: Iterable[Iterable[Any]], title: str = "", note: str = "") -> Self:
        """Return the table of plain values, see `Cell.of`."""
        return cls(heads, [[Cell.of(value) for value in row] for row in rows], title, note)

    @classmethod
    def of_columns(
        cls, columns: Sequence[tuple[str, Sequence[Cell]]], title: str = "", note: str = "", groups: Sequence[str] = ()
    ) -> Self:
        """Return the table of columns, each a heading and its cells."""
        rows = [list(row) for row in zip(*(cells for _, cells in columns), strict=True)]
        return cls([head for head, _ in columns], rows, title, note, groups)

    def column(self, head: str) -> list[Cell]:
        """Return the cells under a heading."""
        place = list(self.heads).index(head)
        return [row[place] for row in self.rows]

    def text(self, width: int | None = None) -> str:
        """Return the table as aligned text between its title and its note.

        A table wider than ``width`` is printed in parts that repeat the first column; a single column that is too
        wide is wrapped.
        """
        texts = [[cell.plain() for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.heads, *texts, strict=True)]
        parts = [[0]]
        for place in range(1, len(widths)):
            wide = sum(widths[one] + GAP for one in parts[-1]) + widths[place]
            if width is not None and wide > width and len(parts[-1]) > 1:
                parts.append([0])
            parts[-1].append(place)
        bodies = ["\n".join(self._part(part, texts, widths, width)) for part in parts]
        title, note = (textwrap.fill(text, width) if width else text for text in (self.title, self.note))
        return "\n\n".join(part for part in (title, *bodies, note) if part)

    def _part(
        self, places: Sequence[int], texts: Sequence[Sequence[str]], widths: Sequence[int], width: int | None
    ) -> list[str]:
        """Return the lines of some columns: the headings, a rule, the rows."""
        own = {place: widths[place] for place in places}
        if width is not None and sum(own.values()) + GAP * (len(own) - 1) > width:
            last = places[-1]
            own[last] = max(20, width - sum(own[place] + GAP for place in places[:-1]))
        cells = {place: [row[place] for row in self.rows] for place in places}
        right = {  # numbers alone are aligned to the right, numbers with deviations to the left
            place
            for place, column in cells.items()
            if any(cell.value is not None for cell in column) and not any(c.deviation or c.remark for c in column)
        }

        def lines(row: Sequence[str]) -> list[str]:
            folded = {k: textwrap.wrap(row[k], own[k]) if len(row[k]) > own[k] else [row[k]] for k in places}
            return [
                (" " * GAP)
                .join(
                    (f"{text:>{own[k]}}" if k in right else f"{text:<{own[k]}}")
                    for k in places
                    for text in [folded[k][level] if level < len(folded[k]) else ""]
                )
                .rstrip()
                for level in range(max(map(len, folded.values())))
            ]

        rule = (" " * GAP).join("-" * own[place] for place in places)
        return [*lines(self.heads), rule, *(line for row in texts for line in lines(row))]

    def markdown(self) -> str:
        """Return the table in Markdown, its title as a heading of level three."""
        head = [self.heads, ["---"] * len(self.heads)]
        lines = [f"| {' | '.join(row)} |" for row in (*head, *([cell.markdown() for cell in row] for row in self.rows))]
        title = f"### {self.title}" if self.title else ""
        return "\n\n".join(part for part in (title, "\n".join(lines), self.note) if part)

    def latex(self) -> str:
        """Return the table in LaTeX (package booktabs), with a rule between groups of rows."""
        lines = [rf"        {' & '.join(cell.latex() for cell in row)} \\" for row in self.rows]
        pairs = zip(lines, self.groups or [""] * len(lines), strict=True)
        groups = ["\n".join(line for line, _ in some) for _, some in groupby(pairs, key=lambda pair: pair[1])]
        return "\n".join(
            [
                r"\begin{table}",
                r"    \centering",
                rf"    \caption{{{escaped(self.title)}. {escaped(self.note)}}}",
                rf"    \begin{{tabular}}{{l{'c' * (len(self.heads) - 1)}}} \toprule",
                rf"        {' & '.join(map(escaped, self.heads))} \\ \midrule",
                "\n        \\midrule\n".join(groups),
                r"        \bottomrule",
                r"    \end{tabular}",
                r"\end{table}",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; a cell is its number if it has one, else its text."""
        rows = [[cell.text if cell.value is None else cell.value for cell in row] for row in self.rows]
        return {"title": self.title, "columns": list(self.heads), "rows": rows, "note": self.note}


def ranked(cells: Sequence[Cell], chance: float | None = None, lowest: bool = False) -> list[Cell]:
    """Return the cells of a column with the best and the second best marked; equal cells share a rank.

    A column is marked only if all its numbers had the same chance, that is, if ``given`` is the same for all: the best
    of unequal rows shows what they were given, not which of them is better. For the same reason no cell is marked
    beside a row that was not run, is incomplete or failed: it could still be the best.

    Args:
        cells: A column.
        chance: The value that guessing reaches. A cell is marked only if it exceeds it by more than its deviation.
        lowest: Whether the lowest values are the best.
    """
    known = [cell for cell in cells if cell.value is not None]
    missing = any(cell.value is None and cell.text != ABSENT for cell in cells)
    if missing or len({cell.given for cell in known}) > 1:
        return list(cells)
    best = sorted({float(cell.text) for cell in known}, reverse=not lowest)[:2] if len(known) > 1 else []
    return [
        replace(cell, rank=best.index(float(cell.text)) + 1)
        if cell in known
        and float(cell.text) in best
        and (chance is None or float(cell.text) - float(cell.deviation or 0) > chance)
        else cell
        for cell in cells
    ]


def shown(value: float) -> str:
    """Return a number without an exponent: three decimals, more for small numbers, none from 1,000 on."""
    size = abs(value)
    if not math.isfinite(value) or 0 < size < 1e-9:
        return str(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3f}" if size >= 0.001 or not size else _small(value)


def _small(value: float) -> str:
    """Return a number below 0.001 with three significant digits."""
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}".rstrip("0")


def insert(page: Path, marker: str, body: str) -> bool:
    """Replace the text between ``<!-- marker: begin -->`` and ``<!-- marker: end -->``; return whether it changed."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    if not page.is_file():
        raise InputError(f"there is no page {page}; run this command in a checkout of the project.")
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"{page} must contain each of the lines {begin} and {end} exactly once; add them.")
    head, rest = text.split(begin)
    new = f"{head}{begin}\n{body}\n{end}{rest.split(end)[1]}"
    if new != text:
        files.write_text(page, new)
    return new != text


def escaped(text: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    for sign in "&%_#$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("±", r"$\pm$")
