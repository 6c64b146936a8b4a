from __future__ import annotations

import io

from goodformer.cli import output


def shown(width: int, parted: bool) -> list[str]:
    """A table of a name and nine figures, as lines."""
    text = io.StringIO()
    rows = [[name, *(f"{k}0.25 ±1.00" for k in range(9))] for name in ("GOODFormer", "ERM")]
    output.table(["row", *(f"column {k}" for k in range(9))], rows, "title", "note", text, width, parted)
    return [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]


def test_a_table_too_wide_is_parted_and_every_part_names_its_rows() -> None:
    lines = shown(60, parted=True)
    assert max(map(len, lines)) <= 60
    assert (lines[0], lines[-1]) == ("title", "note")
    heads = [line.split("column")[1:] for line in lines if line.lstrip().startswith("row")]
    assert [[int(head) for head in part] for part in heads] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    ours = [line.split()[1::2] for line in lines if line.lstrip().startswith("GOODFormer")]
    assert [one for part in ours for one in part] == [f"{k}0.25" for k in range(9)]


def test_a_table_that_fits_stays_whole() -> None:
    assert shown(200, parted=True) == shown(200, parted=False)
