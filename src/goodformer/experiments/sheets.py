"""A comparison's report as a table: for a terminal, in Markdown, in LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from goodformer.experiments.tables import FIGURES, PERCENT, markdown_table, written

Report = Mapping[str, Any]

ABSENT, NOT_RUN, FAILED = "-", "not run", "failed"
RULES = {
    "ood_val": "on shifted validation graphs (ood_val)",
    "id_val": "on validation graphs like those of training (id_val)",
    "last": "as the last (last)",
}
CLOCKS = {"processor_seconds_per_epoch": "processor seconds", "seconds_per_epoch": "seconds"}
METRICS = {"accuracy": "Accuracy", "rocauc": "ROC-AUC"}


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table: a word or a mean, its deviation, and its place among its column."""

    text: str
    deviation: str = ""
    place: int = 0
    value: float | None = None

    def plain(self) -> str:
        """For a terminal."""
        return f"{self.text} ±{self.deviation}" if self.deviation else self.text

    def markdown(self) -> str:
        """In Markdown, the best one bold."""
        return f"**{self.text}**{self.plain()[len(self.text) :]}" if self.place == 1 else self.plain()

    def latex(self) -> str:
        """In LaTeX, the best one bold and the second underlined."""
        mean = {1: rf"\textbf{{{self.text}}}", 2: rf"\underline{{{self.text}}}"}.get(self.place, _escaped(self.text))
        return rf"{mean}{{\scriptsize$\pm${self.deviation}}}" if self.deviation else mean


@dataclass(frozen=True)
class Column:
    """A heading and what stands under it for each row of a report."""

    head: str
    cell: Callable[[Report], Cell]
    ranked: bool = False


def grid(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of plain text."""
    columns, rows = _table(report)
    return [column.head for column in columns], [[cell.plain() for cell in row] for row in rows]


def markdown(report: Report) -> str:
    """The table in Markdown between its title and its note."""
    columns, rows = _table(report)
    body = markdown_table([column.head for column in columns], [[cell.markdown() for cell in row] for row in rows])
    return f"### {title(report)}\n\n{body}\n\n{note(report)}"


def latex(report: Report) -> str:
    """The table in LaTeX (package booktabs), a rule between groups of rows."""
    columns, rows = _table(report)
    lines = [rf"        {' & '.join(cell.latex() for cell in row)} \\" for row in rows]
    groups = [
        "\n".join(line for line, _ in pairs)
        for _, pairs in groupby(zip(lines, report["rows"], strict=True), key=lambda pair: str(pair[1]["group"]))
    ]
    return "\n".join(
        [
            r"\begin{table}",
            r"    \centering",
            rf"    \caption{{{_escaped(title(report))}. {_escaped(note(report))}}}",
            rf"    \begin{{tabular}}{{l{'c' * (len(columns) - 1)}}} \toprule",
            rf"        {' & '.join(_escaped(column.head) for column in columns)} \\ \midrule",
            "\n        \\midrule\n".join(groups),
            r"        \bottomrule",
            r"    \end{tabular}",
            r"\end{table}",
        ]
    )


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
    seeds, rule = _count(len(report["seeds"]), "seed"), report["selection"]
    metric = METRICS.get(str(report["metric"]), "Test score")
    parts = [
        f"{metric} in %, mean ± standard deviation over {seeds}; epoch chosen {RULES.get(str(rule), f'by {rule}')}."
    ]
    if any(row["paper"]["ood_test"] for row in report["rows"]):
        parts.append("Paper: its own figures, with all graphs and epochs.")
    if any(row["cost"] for row in report["rows"]):
        parts.append(f"Time: {CLOCKS[report['clock']]} a training epoch, ERM = 1.")
    return " ".join(parts)


def _epochs(report: Report) -> str:
    """The epochs of all rows, where they have the same."""
    epochs = {row["epochs"] for row in report["rows"]}
    return f", {_count(epochs.pop(), 'epoch')}" if len(epochs) == 1 else ""


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


# ------------------------------------------------------------------------------------------ cells


def _table(report: Report) -> tuple[list[Column], list[list[Cell]]]:
    """The columns that have something to say, and the cells under them, row by row."""
    columns = list(_columns(report))
    cells = [[column.cell(row) for row in report["rows"]] for column in columns]
    ranked = [_ranked(one) if column.ranked else one for column, one in zip(columns, cells, strict=True)]
    return columns, [list(row) for row in zip(*ranked, strict=True)]


def _columns(report: Report) -> Iterator[Column]:
    rows = report["rows"]
    yield Column("", lambda row: Cell(row["title"]))
    if len({row["epochs"] for row in rows}) > 1:
        yield Column("epochs", lambda row: Cell(str(row["epochs"])))
    yield _figure_column("ood_test")
    yield from _paper_column(rows, "ood_test")
    yield _figure_column("id_test")
    for figure in ("precision_at_10", "edge_auc"):
        paper = list(_paper_column(rows, figure))
        if paper or any(row[figure] for row in rows):
            yield from (_figure_column(figure), *paper)
    yield Column("time", _cost)
    yield Column("seeds", lambda row: Cell(_counted(row, len(report["seeds"]))))
    if any(row["failed"] for row in rows):
        yield Column("failed", lambda row: Cell(" ".join(f"Seed {k}: {v}" for k, v in row["failed"].items())))


def _figure_column(figure: str) -> Column:
    def cell(row: Report) -> Cell:
        return _number(row[figure], figure) if row["seeds"] else Cell(_missing(row))

    return Column(FIGURES[figure], cell, ranked=figure != "id_test")


def _paper_column(rows: Sequence[Report], figure: str) -> Iterator[Column]:
    """The paper's figures where it has any."""
    if any(row["paper"].get(figure) for row in rows):
        yield Column("paper", lambda row: _number(row["paper"][figure], figure), ranked=True)


def _number(found: Mapping[str, Any] | None, figure: str) -> Cell:
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


def _ranked(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the best and the second best marked; equal ones share a place."""
    shown = sorted({float(cell.text) for cell in cells if cell.value is not None}, reverse=True)[:2]
    return [
        replace(cell, place=shown.index(float(cell.text)) + 1)
        if cell.value is not None and float(cell.text) in shown
        else cell
        for cell in cells
    ]


def _escaped(text: str) -> str:
    """Text with LaTeX's special signs made harmless."""
    for sign in "&%_#$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("±", r"$\pm$")
