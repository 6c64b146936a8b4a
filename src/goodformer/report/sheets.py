"""Tables of cells with best ones marked, for a terminal, in Markdown, in LaTeX; and a comparison's report as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from goodformer.data.readers.values import counted
from goodformer.report.tables import HEADINGS, PERCENT, markdown_table, written

Report = Mapping[str, Any]

ABSENT, NOT_RUN, FAILED = "-", "not run", "failed"
RULES = {
    "ood_val": "on shifted validation graphs (ood_val)",
    "id_val": "on validation graphs like those of training (id_val)",
    "last": "as the last (last)",
}
CLOCKS = {"processor_seconds_per_epoch": "processor seconds", "seconds_per_epoch": "seconds"}
CHANCE = {
    **dict.fromkeys(("good-motif", "sp-motif", "good-twitter"), 100 / 3),
    **dict.fromkeys(("good-hiv", "good-sst2", "drugood"), 50.0),
}
"""Accuracy or ROC-AUC of guessing, in %."""
REPEATED = ("paper", "as_published")
"""Presets whose rows repeat the paper's figure of their method, which is marked in the method's own row alone."""
METRICS = {"accuracy": "Accuracy", "rocauc": "ROC-AUC"}


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table: a word or a mean, its deviation, a remark, its place among its column.

    A cell that is not ``whole``, of fewer seeds than the table has, has no place.
    """

    text: str
    deviation: str = ""
    place: int = 0
    value: float | None = None
    remark: str = ""
    whole: bool = True

    def plain(self) -> str:
        """For a terminal."""
        return " ".join(part for part in (self.text, self.deviation and f"±{self.deviation}", self.remark) if part)

    def markdown(self) -> str:
        """In Markdown, the best one bold."""
        return f"**{self.text}**{self.plain()[len(self.text) :]}" if self.place == 1 else self.plain()

    def latex(self) -> str:
        """In LaTeX, the best one bold and the second underlined."""
        mean = {1: rf"\textbf{{{self.text}}}", 2: rf"\underline{{{self.text}}}"}.get(self.place, _escaped(self.text))
        deviation = rf"{{\scriptsize$\pm${self.deviation}}}" if self.deviation else ""
        return f"{mean}{deviation}{self.remark and f' {_escaped(self.remark)}'}"


@dataclass(frozen=True)
class Column:
    """A heading and what stands under it for each row of a report; the best of a ``figure`` are marked.

    Those that are ``quoted``, from the paper, are marked once and not for every preset.
    """

    head: str
    cell: Callable[[Report], Cell]
    figure: str = ""
    quoted: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table: headings over rows of cells, between a title and a note.

    Args:
        title: What it shows.
        heads: Heading of each column.
        rows: The cells of each row.
        groups: The part of the table each row belongs to.
        note: What the figures are.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    groups: Sequence[str]
    note: str

    def grid(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of plain text."""
        return list(self.heads), [[cell.plain() for cell in row] for row in self.rows]

    def markdown(self) -> str:
        """The table in Markdown between its title and its note."""
        body = markdown_table(self.heads, [[cell.markdown() for cell in row] for row in self.rows])
        return f"### {self.title}\n\n{body}\n\n{self.note}"

    def latex(self) -> str:
        """The table in LaTeX (package booktabs), a rule between groups of rows."""
        lines = [rf"        {' & '.join(cell.latex() for cell in row)} \\" for row in self.rows]
        groups = [
            "\n".join(line for line, _ in pairs)
            for _, pairs in groupby(zip(lines, self.groups, strict=True), key=lambda pair: pair[1])
        ]
        return "\n".join(
            [
                r"\begin{table}",
                r"    \centering",
                rf"    \caption{{{_escaped(self.title)}. {_escaped(self.note)}}}",
                rf"    \begin{{tabular}}{{l{'c' * (len(self.heads) - 1)}}} \toprule",
                rf"        {' & '.join(_escaped(head) for head in self.heads)} \\ \midrule",
                "\n        \\midrule\n".join(groups),
                r"        \bottomrule",
                r"    \end{tabular}",
                r"\end{table}",
            ]
        )


def sheet(report: Report) -> Sheet:
    """A comparison's report as a table: the columns that have something to say."""
    columns = list(_columns(report))
    shown = [_shown(column, report) for column in columns]
    groups = [str(row["group"]) for row in report["rows"]]
    rows = [list(row) for row in zip(*shown, strict=True)]
    return Sheet(title(report), [column.head for column in columns], rows, groups, note(report))


def _shown(column: Column, report: Report) -> list[Cell]:
    """The cells of a column, the best ones marked."""
    cells = [column.cell(row) for row in report["rows"]]
    if not column.figure:
        return cells
    marked = ranked(cells, chance(report["dataset"]["name"], column.figure))
    return unrepeated(marked, [row["preset"] for row in report["rows"]]) if column.quoted else marked


def grid(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of plain text."""
    return sheet(report).grid()


def markdown(report: Report) -> str:
    """The table in Markdown between its title and its note."""
    return sheet(report).markdown()


def latex(report: Report) -> str:
    """The table in LaTeX (package booktabs), a rule between groups of rows."""
    return sheet(report).latex()


def title(report: Report) -> str:
    """The benchmark, its size and the budget."""
    data = report["dataset"]
    words = [str(data[key]) for key in ("name", "domain", "shift") if data.get(key) is not None]
    words += [f"bias {data['bias']}"] if "bias" in data else []
    words += ["equal sizes"] if data.get("larger") is False else []
    size = f"{report['train_graphs']} training graphs, " if report["train_graphs"] else ""
    return f"{' / '.join(words)}, {size}budget {report['budget']}{_epochs(report)}"


def note(report: Report) -> str:
    """What the figures are and how they were chosen."""
    rule, metric = report["selection"], METRICS.get(str(report["metric"]), "Test score")
    parts = [f"{metric} in %, {over(len(report['seeds']))}; epoch chosen {RULES.get(str(rule), f'by {rule}')}."]
    if any(row["paper"]["ood_test"] for row in report["rows"]):
        parts.append("Paper: its own figures, with all graphs and epochs.")
    if any(row["cost"] for row in report["rows"]):
        parts.append(f"Time: {CLOCKS[report['clock']]} a training epoch, ERM = 1.")
    return " ".join(parts)


def _epochs(report: Report) -> str:
    """The epochs of all rows, where they have the same."""
    epochs = {row["epochs"] for row in report["rows"]}
    return f", {counted(epochs.pop(), 'epoch')}" if len(epochs) == 1 else ""


def over(seeds: int) -> str:
    """What figures over some seeds are."""
    return "one seed, no standard deviation" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"


# ------------------------------------------------------------------------------------------ cells


def _columns(report: Report) -> Iterator[Column]:
    rows = report["rows"]
    yield Column("", lambda row: Cell(row["title"]))
    if len({row["epochs"] for row in rows}) > 1:
        yield Column("epochs", lambda row: Cell(str(row["epochs"])))
    wanted = len(report["seeds"])
    yield _figure_column("ood_test", wanted)
    yield from _paper_column(rows, "ood_test")
    yield _figure_column("id_test", wanted)
    for figure in ("precision_at_10", "edge_auc"):
        paper = list(_paper_column(rows, figure))
        if paper or any(row[figure] for row in rows):
            yield from (_figure_column(figure, wanted), *paper)
    yield Column("time", _cost)
    yield Column("seeds", lambda row: Cell(_counted(row, wanted)))
    if any(row["failed"] for row in rows):
        yield Column("failed", lambda row: Cell(" ".join(f"Seed {k}: {v}" for k, v in row["failed"].items())))


def _figure_column(figure: str, wanted: int) -> Column:
    def cell(row: Report) -> Cell:
        whole = len(row["seeds"]) == wanted
        return replace(number(row[figure], figure), whole=whole) if row["seeds"] else Cell(_missing(row))

    return Column(HEADINGS[figure], cell, "" if figure == "id_test" else figure)


def _paper_column(rows: Sequence[Report], figure: str) -> Iterator[Column]:
    """The paper's figures where it has any."""
    if any(row["paper"].get(figure) for row in rows):
        yield Column("paper", lambda row: number(row["paper"][figure], figure), figure, quoted=True)


def number(found: Mapping[str, Any] | None, figure: str) -> Cell:
    """Mean and deviation of a figure."""
    if found is None:
        return Cell(ABSENT)
    digits = 2 if figure in PERCENT else 3
    deviation = "" if found["std"] is None else written(found["std"], digits)
    return Cell(written(found["mean"], digits), deviation, value=found["mean"])


def _cost(row: Report) -> Cell:
    if not row["seeds"]:
        return Cell(_missing(row))
    return Cell(ABSENT if row["cost"] is None else written(row["cost"], 2))


def _missing(row: Report) -> str:
    return FAILED if row["failed"] else NOT_RUN


def _counted(row: Report, wanted: int) -> str:
    done = len(row["seeds"])
    return str(done) if done == wanted else f"{done} of {wanted}"


def ranked(cells: Sequence[Cell], chance: float | None = None) -> list[Cell]:
    """The cells with the best and the second best marked; equal ones share a place.

    Only whole ones are marked, where there are two to compare, and none that chance may have made.

    Args:
        cells: A column.
        chance: What guessing reaches; a cell has to be above it by more than its deviation.
    """
    known = [cell for cell in cells if cell.value is not None and cell.whole]
    best = sorted({float(cell.text) for cell in known}, reverse=True)[:2] if len(known) > 1 else []
    return [
        replace(cell, place=best.index(float(cell.text)) + 1)
        if cell in known and float(cell.text) in best and _above(cell, chance)
        else cell
        for cell in cells
    ]


def unrepeated(cells: Sequence[Cell], presets: Sequence[str]) -> list[Cell]:
    """The cells of a quoted column, none marked that only repeats the figure of its method."""
    return [replace(cell, place=0) if preset in REPEATED else cell for cell, preset in zip(cells, presets, strict=True)]


def _above(cell: Cell, chance: float | None) -> bool:
    return chance is None or float(cell.text) - float(cell.deviation or 0) > chance


def chance(dataset: str, figure: str) -> float | None:
    """What guessing reaches, where that is known."""
    return 0.5 if figure == "edge_auc" else None if figure == "precision_at_10" else CHANCE.get(dataset)


def _escaped(text: str) -> str:
    """Text with LaTeX's special signs made harmless."""
    for sign in "&%_#$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("±", r"$\pm$")
