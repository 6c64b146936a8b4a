"""Predictions of many rows: stopped and continued, in constant memory, whatever the size of blocks."""

from __future__ import annotations

import csv
import json
import tracemalloc
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from goodformer.apply import predict
from goodformer.apply.part import PartFile
from goodformer.apply.predict import predict_file
from goodformer.data.readers.rows import rough_count
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.uncertainty.calibration import Scaling
from tests.apply.molecules import FITTED

ROWS = 60


def table(path: Path, rows: int = ROWS) -> Path:
    """Molecules, some of which cannot be read."""
    smiles = ["C1C" if place % 9 == 4 else "C" * (1 + place % 12) + "O" for place in range(rows)]
    path.write_text("id,smiles\n" + "".join(f'"{place},x",{one}\n' for place, one in enumerate(smiles)))
    return path


class Stopped(BaseException):
    """What stops a prediction, as an interrupt does."""


def stop_after(rows: int) -> Any:
    """A watch that stops the prediction."""

    def watch(done: int) -> None:
        if done >= rows:
            raise Stopped

    return watch


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return FittedModel.open(FITTED)


@pytest.mark.parametrize("temperature", [None, 2.0])
def test_rows_of_another_uncertainty_are_not_continued(
    model: FittedModel, tmp_path: Path, temperature: float | None
) -> None:
    """Its weights are the same, but rows before it have other columns, or other values in them."""
    data, out, earlier = table(tmp_path / "new.csv"), tmp_path / "out.csv", copy(model)
    assert model.uncertainty is not None
    earlier.uncertainty = replace(model.uncertainty, scaling=Scaling(temperature)) if temperature else None
    with pytest.raises(Stopped):
        predict_file(earlier, data, out, size=8, watch=stop_after(24))
    assert predict_file(model, data, out, size=8)["continued"] == 0
    predict_file(model, data, tmp_path / "whole.csv", size=8)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_a_stopped_prediction_continues(model: FittedModel, tmp_path: Path, suffix: str) -> None:
    data, out, whole = table(tmp_path / "new.csv"), tmp_path / f"out.{suffix}", tmp_path / f"whole.{suffix}"
    expected = predict_file(model, data, whole, size=8)
    with pytest.raises(Stopped):
        predict_file(model, data, out, size=8, watch=stop_after(24))
    assert not out.exists()
    with (tmp_path / f"out.{suffix}.part").open("ab") as part:
        part.write(b"half a row")  # written after the last saved state
    seen: list[int] = []
    report = predict_file(model, data, out, size=8, watch=seen.append)
    assert seen == [24, 32, 40, 48, 56, 60]
    assert report["continued"] == 24
    assert expected["continued"] == 0
    for name in ("rows", "unreadable", "problems", "outside"):
        assert report[name] == expected[name]
    assert report["unreadable"] == 7
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["new.csv", out.name, whole.name])


def test_all_rows_may_be_there_already(model: FittedModel, tmp_path: Path) -> None:
    data, out = table(tmp_path / "new.csv"), tmp_path / "out.csv"
    with pytest.raises(Stopped):
        predict_file(model, data, out, size=8, watch=stop_after(ROWS))
    assert predict_file(model, data, out, size=8)["continued"] == ROWS
    assert len(out.read_text().splitlines()) == ROWS + 1


@pytest.mark.parametrize("change", ["input", "level", "block", "damaged"])
def test_another_command_starts_again(model: FittedModel, tmp_path: Path, change: str) -> None:
    data, out = table(tmp_path / "new.csv"), tmp_path / "out.csv"
    with pytest.raises(Stopped):
        predict_file(model, data, out, size=8, watch=stop_after(24))
    options: dict[str, Any] = {"size": 8}
    if change == "input":
        table(data, ROWS + 1)
    elif change == "damaged":
        (tmp_path / "out.csv.part.json").write_text('{"rows": 24')
    else:
        options |= {"level": {"level": 0.9}, "block": {"size": 16}}[change]
    report = predict_file(model, data, out, **options)
    assert report["continued"] == 0
    assert report["rows"] == ROWS + (change == "input")
    with out.open() as file:
        assert [row["id"] for row in csv.DictReader(file)] == [f"{n},x" for n in range(report["rows"])]


def test_rows_that_are_there_are_not_read_again(
    model: FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = table(tmp_path / "new.csv"), tmp_path / "out.csv"
    with pytest.raises(Stopped):
        predict_file(model, data, out, size=8, watch=stop_after(24))
    read: list[int] = []
    blocks = predict.read_blocks

    def watched(*given: Any) -> Any:
        for block in blocks(*given):
            read.append(block.first)
            yield block

    monkeypatch.setattr(predict, "read_blocks", watched)
    predict_file(model, data, out, size=8)
    assert read == [24, 32, 40, 48, 56]


def test_a_wrong_input_leaves_nothing_behind(model: FittedModel, tmp_path: Path) -> None:
    data = table(tmp_path / "new.csv")
    with data.open("a") as file:
        file.write("too,many,fields,here\n")
    with pytest.raises(InputError, match="has 4 fields"):
        predict_file(model, data, tmp_path / "out.csv", size=8)
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_a_column_has_one_type_whatever_its_first_rows_are(tmp_path: Path) -> None:
    with PartFile(tmp_path / "out.parquet", {}) as part:
        part.write({"dose": [1] * 5000, "n": [1] * 5000}, {})
        part.write({"dose": [2.5], "n": [2]}, {})
    table = pq.read_table(tmp_path / "out.parquet")
    assert list(map(str, table.schema.types)) == ["double", "int64"]
    assert table["dose"].to_pylist()[-2:] == [1.0, 2.5]


def test_two_predictions_do_not_write_one_file(tmp_path: Path) -> None:
    with PartFile(tmp_path / "out.csv", {}), pytest.raises(InputError, match="another process is writing"):
        PartFile(tmp_path / "out.csv", {}).__enter__()


def test_the_size_of_blocks_changes_no_byte(model: FittedModel, tmp_path: Path) -> None:
    data = table(tmp_path / "new.csv")
    texts = []
    for size in (1, 7, 1024):
        predict_file(model, data, tmp_path / "out.csv", size=size)
        texts.append((tmp_path / "out.csv").read_text())
    assert texts[0] == texts[1] == texts[2]


def test_memory_does_not_grow_with_the_rows(model: FittedModel, tmp_path: Path) -> None:
    """Ten times the rows, most of them unreadable: about the same memory."""
    peaks = []
    for rows in (2_000, 20_000):
        path = tmp_path / "new.smi"
        path.write_text("".join(f"{'CCO' if place % 50 == 0 else 'C1C'} name {place}\n" for place in range(rows)))
        assert rough_count(path) == rows
        tracemalloc.start()
        report = predict_file(model, path, tmp_path / "out.csv", size=500)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (report["rows"], report["unreadable"]) == (rows, rows - rows // 50)
    assert peaks[1] < 1.5 * peaks[0]


def test_the_state_is_plain_json(model: FittedModel, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        predict_file(model, table(tmp_path / "new.csv"), tmp_path / "out.parquet", size=8, watch=stop_after(16))
    state = json.loads((tmp_path / "out.parquet.part.json").read_text())
    assert (state["rows"], state["notes"]["unreadable"]) == (16, 2)
