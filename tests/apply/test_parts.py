"""Predictions in parts: the rows of one file, in order, after any stop."""

from __future__ import annotations

import csv
import json
import resource
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goodformer.apply.parts import predict_parts
from goodformer.apply.predict import predict_file
from goodformer.cli import run as command
from goodformer.errors import CannotWrite, InputError
from goodformer.fitted import FittedModel
from tests.apply.molecules import FITTED

TABLE = FITTED / "new.csv"


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return FittedModel.open(FITTED)


def rows_of(folder: Path) -> list[dict[str, str]]:
    parts = sorted(folder.glob("part-*.csv"))
    return [row for path in parts for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]


def backwards(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """An executor that finishes the last item first."""
    return map(function, reversed(list(items)))


def test_parts_are_the_rows_of_one_file(tmp_path: Path, model: FittedModel) -> None:
    whole = predict_file(model, TABLE, tmp_path / "whole.csv", 0.9)
    report = predict_parts(model, TABLE, tmp_path / "parts", 0.9, size=5, each=backwards)
    assert {name: report[name] for name in whole if name not in ("out", "rows_per_second")} == {
        name: value for name, value in whole.items() if name not in ("out", "rows_per_second")
    }
    assert report["parts"] == 3
    rows = rows_of(tmp_path / "parts")
    assert [row.pop("row") for row in rows] == [str(number) for number in range(1, 14)]
    assert rows == list(csv.DictReader((tmp_path / "whole.csv").read_text(encoding="utf-8").splitlines()))


def test_a_stopped_prediction_continues(tmp_path: Path, model: FittedModel) -> None:
    asked: list[int] = []

    def stopping(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            asked.append(item[0])
            if len(asked) == 3:
                raise KeyboardInterrupt
            yield function(item)

    whole, out = tmp_path / "whole", tmp_path / "out"
    predict_parts(model, TABLE, whole, size=4)
    with pytest.raises(KeyboardInterrupt):
        predict_parts(model, TABLE, out, size=4, each=stopping)
    with (out / "parts.jsonl").open("a") as file:
        file.write('{"part": 2, "ro')  # a line that was cut
    report = predict_parts(model, TABLE, out, size=4, each=stopping)
    assert asked == [0, 1, 2, 2, 3]
    assert (report["continued"], report["rows"], report["unreadable"]) == (8, 13, 2)
    assert rows_of(out) == rows_of(whole)
    again = predict_parts(model, TABLE, out, size=4, each=stopping)
    assert (len(asked), again["continued"], again["problems"]) == (5, 13, report["problems"])
    with pytest.raises(InputError, match="another model, table or option"):
        predict_parts(model, TABLE, out, 0.9, size=4)


def test_columns_have_one_type_in_all_parts(tmp_path: Path, model: FittedModel) -> None:
    """A column that is empty in one part is a number there, too; a column called row stays as it is."""
    columns = {"smiles": ["CC", "CCO", "CCN"], "row": [7, 8, 9], "mass": [1.5, None, None], "n": [None, None, 3]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    predict_parts(model, tmp_path / "in.parquet", tmp_path / "out", size=1)
    tables = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("part-*.parquet"))]
    assert len({str(table.schema) for table in tables}) == 1
    joined = pa.concat_tables(tables)
    assert joined["goodformer_row"].to_pylist() == [1, 2, 3]
    assert {name: joined[name].to_pylist() for name in columns} == columns


def test_the_column_of_smiles_may_be_in_upper_case(tmp_path: Path, model: FittedModel) -> None:
    (tmp_path / "in.csv").write_text("Name,SMILES\na,CC\nb,CCO\n")
    predict_parts(model, tmp_path / "in.csv", tmp_path / "out", size=1)
    found = rows_of(tmp_path / "out")
    assert [row["SMILES"] for row in found] == ["CC", "CCO"]
    (tmp_path / "whole.csv").write_text("Name,smiles\na,CC\nb,CCO\n")
    predict_parts(model, tmp_path / "whole.csv", tmp_path / "whole", size=2)
    given = {"SMILES", "smiles", "goodformer_row"}
    plain = [{name: value for name, value in row.items() if name not in given} for row in rows_of(tmp_path / "whole")]
    assert plain == [{name: value for name, value in row.items() if name not in given} for row in found]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", str(FITTED), str(TABLE), "-o"]
    assert command([*words, str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == 1
    assert len(rows_of(tmp_path / "out")) == 13
    for more in (["answers.csv", "--executor", "ray"], ["out", "--executor", "rey"], ["out", "--address", "auto"]):
        assert command([*words, *more]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_files_that_have_no_parts_are_refused(tmp_path: Path, model: FittedModel) -> None:
    (tmp_path / "graphs.jsonl").write_text('{"edges": [[0, 1]]}\n')
    (tmp_path / "empty.csv").write_text("smiles\n")
    for name, fact in (("graphs.jsonl", "in parts"), ("none.csv", "not found"), ("empty.csv", "no rows")):
        with pytest.raises(InputError, match=fact):
            predict_parts(model, tmp_path / name, tmp_path / "out")


def test_a_second_process_and_damaged_notes(tmp_path: Path) -> None:
    """Another process is refused while one predicts; a damaged line costs one part, which is predicted again."""
    model, table, out = FittedModel.open(FITTED), FITTED / "new.csv", tmp_path / "out"
    refused: list[str] = []

    def intrude(rows: int) -> None:
        with pytest.raises(InputError, match="another process") as caught:
            predict_parts(model, table, out, size=4)
        refused.append(str(caught.value))

    first = predict_parts(model, table, out, size=4, watch=intrude)
    assert len(refused) == first["parts"] == 4
    lines = (out / "parts.jsonl").read_text().splitlines()
    (out / "parts.jsonl").write_text("\n".join([lines[0].replace('"rows": 4', '"rows": 5'), *lines[1:]]) + "\n")
    again = predict_parts(model, table, out, size=4)
    assert (again["rows"], again["outside"], again["continued"]) == (13, first["outside"], 9)
    assert [json.loads(line)["rows"] for line in (out / "parts.jsonl").read_text().splitlines()] == [4, 4, 1, 4]


def test_a_full_disk_is_one_sentence_and_the_parts_go_on(tmp_path: Path) -> None:
    """The real error of the system: files may not grow beyond a size."""
    model, table, out = FittedModel.open(FITTED), FITTED / "new.csv", tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (40, 150, 600):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            with pytest.raises(CannotWrite):
                predict_parts(model, table, out, size=2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    predict_parts(model, table, out, size=2)
    predict_parts(model, table, tmp_path / "whole", size=2)
    left, whole = (
        {path.name: path.read_bytes() for path in folder.glob("part-*")} for folder in (out, tmp_path / "whole")
    )
    assert left == whole
