"""The one table type: cells, ranks, renderers, insertion into a page."""

from pathlib import Path

import pytest

from goodformer.errors import InputError
from goodformer.report.table import ABSENT, Cell, Table, insert, ranked, shown


@pytest.fixture
def table() -> Table:
    columns = [
        ("", [Cell("ERM"), Cell("A_B")]),
        ("OOD test", ranked([Cell.mean(60.0, 10.0), Cell.mean(85.123, 5.0, remark="(2 of 3 seeds)")])),
        ("seeds", [Cell.of(3), Cell.of(12)]),
    ]
    return Table.of_columns(columns, "A title", "50 % ± 1.", ["one", "two"])


def test_text(table: Table) -> None:
    assert table.text().splitlines() == [
        "A title",
        "",
        "     OOD test                    seeds",
        "---  --------------------------  -----",
        "ERM  60.00 ±10.00                    3",
        "A_B  85.12 ±5.00 (2 of 3 seeds)     12",
        "",
        "50 % ± 1.",
    ]


def test_markdown(table: Table) -> None:
    assert table.markdown().splitlines() == [
        "### A title",
        "",
        "|  | OOD test | seeds |",
        "| --- | --- | --- |",
        "| ERM | 60.00 ±10.00 | 3 |",
        "| A_B | **85.12** ±5.00 (2 of 3 seeds) | 12 |",
        "",
        "50 % ± 1.",
    ]


def test_latex(table: Table) -> None:
    text = table.latex()
    assert r"\caption{A title. 50 \% $\pm$ 1.}" in text
    assert r"ERM & \underline{60.00}{\scriptsize$\pm$10.00} & 3 \\" in text
    assert r"A\_B & \textbf{85.12}{\scriptsize$\pm$5.00} (2 of 3 seeds) & 12 \\" in text
    assert text.count(r"\midrule") == 2  # under the headings and between two groups


def test_plain_values(table: Table) -> None:
    assert table.to_dict() == {
        "title": "A title",
        "columns": ["", "OOD test", "seeds"],
        "rows": [["ERM", 60.0, 3], ["A_B", 85.123, 12]],
        "note": "50 % ± 1.",
    }


def wide(width: int | None) -> list[str]:
    """A table of a name and nine columns, as lines."""
    rows = [[name, *(f"{k}0.25 ±1.00" for k in range(9))] for name in ("GOODFormer", "ERM")]
    table = Table.of(["row", *(f"column {k}" for k in range(9))], rows, "title", "note")
    return [line for line in table.text(width).splitlines() if line]


def test_a_table_that_is_too_wide_is_printed_in_parts_that_name_their_rows() -> None:
    lines = wide(60)
    assert max(map(len, lines)) <= 60
    assert (lines[0], lines[-1]) == ("title", "note")
    heads = [line.split("column")[1:] for line in lines if line.startswith("row")]
    assert [int(head) for part in heads for head in part] == list(range(9))
    ours = [line.split()[1::2] for line in lines if line.startswith("GOODFormer")]
    assert [one for part in ours for one in part] == [f"{k}0.25" for k in range(9)]
    assert wide(200) == wide(None)


def test_a_single_column_that_is_too_wide_is_wrapped() -> None:
    lines = Table.of(["key", "value"], [["a", "word " * 40], ["b", 1]]).text(50).splitlines()
    assert max(map(len, lines)) <= 50
    assert " ".join(lines).count("word") == 40


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ABSENT),
        (float("nan"), ABSENT),
        (1.0, "1.000"),
        (0.12345, "0.123"),
        (1642.3, "1,642"),
        (-15000.0, "-15,000"),
        (0.0, "0.000"),
        (5e-4, "0.0005"),
        (1.25e-5, "0.0000125"),
        (12, "12"),
        (True, "True"),
        ("x", "x"),
    ],
)
def test_plain_values_are_shown_without_exponents(value: object, text: str) -> None:
    assert Cell.of(value).plain() == text
    assert "e" not in shown(123456.7)


def ranks(*cells: Cell, chance: float | None = None) -> list[int]:
    return [cell.rank for cell in ranked(cells, chance)]


def test_the_best_and_the_second_best_are_marked() -> None:
    assert ranks(Cell.mean(1.0), Cell.mean(3.0), Cell.mean(2.0), Cell("-")) == [0, 1, 2, 0]
    assert ranks(Cell.mean(3.001), Cell.mean(3.0), Cell.mean(1.0)) == [1, 1, 2]  # equal as they are shown
    assert ranks(Cell.mean(3.0)) == [0]  # nothing to compare with
    assert ranks(Cell.mean(52.0, 3.0), Cell.mean(51.0, 0.5), Cell.mean(49.0), chance=50) == [0, 2, 0]


def test_nothing_is_best_beside_rows_that_had_another_chance() -> None:
    few, many = "2,000 graphs", "18,000 graphs"
    assert ranks(Cell.mean(9.0, given=many), Cell.mean(3.0, given=few), Cell.mean(2.0, given=few)) == [0, 0, 0]
    assert ranks(Cell.mean(9.0, given=many), Cell.mean(3.0, given=many), Cell("-")) == [1, 2, 0]


@pytest.mark.parametrize("missing", ["not run", "failed", "2 of 6 runs"])
def test_nothing_is_best_beside_a_row_without_a_number(missing: str) -> None:
    assert ranks(Cell.mean(9.0), Cell.mean(3.0), Cell("-"), Cell(missing)) == [0, 0, 0, 0]


def test_insertion_changes_only_the_text_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n")
    assert insert(page, "x", "new")
    assert not insert(page, "x", "new")
    assert page.read_text() == "before\n<!-- x: begin -->\nnew\n<!-- x: end -->\nafter\n"
    with pytest.raises(InputError, match="y: begin"):
        insert(page, "y", "new")
    with pytest.raises(InputError, match="none"):
        insert(tmp_path / "none.md", "x", "new")
