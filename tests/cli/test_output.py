"""What commands print."""

from __future__ import annotations

import json

import pytest

from goodformer.cli import output


def test_tables_are_aligned_and_free_of_exponents(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["name", "loss", "rows"], [["a", 1642.345, 12345], ["longer", 0.5, 7], ["none", None, 0]], "T", "N")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        *("T", ""),
        "name     loss   rows",
        "------  -----  -----",
        "a       1,642  12345",
        "longer  0.500      7",
        "none        -      0",
        *("", "N", ""),
    ]


def test_json_has_null_for_numbers_it_cannot_represent(capsys: pytest.CaptureFixture[str]) -> None:
    output.document({"a": float("nan"), "b": [float("inf"), 1.5], "c": (True, None)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": [True, None]}


def test_counting_prints_nothing_if_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with output.counting("graphs") as count:
        count(3)
    assert capsys.readouterr() == ("", "")
