"""Files as people have them: SMILES files, packed files, workbooks, old encodings, odd headings, broken lines."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem

from goodformer.data.readers.rows import Block, join, read_blocks, read_collection, reading_notes
from goodformer.data.splits.splitters import make_split
from goodformer.errors import InputError

SMILES = ["CCO", "c1ccccc1", "C1C", "CC(=O)O", "CN"]
CSV = "".join(f"{line}\n" for line in ["smiles,y", *(f"{one},{n}" for n, one in enumerate(SMILES))])
SMI = "".join(f"{one}\tmolecule {n}\n" for n, one in enumerate(SMILES))
JSONL = "".join(json.dumps({"smiles": one, "y": n}) + "\n" for n, one in enumerate(SMILES))


def sdf(smiles: list[str]) -> str:
    """Records with a property."""
    molecules = [Chem.MolFromSmiles(one) for one in smiles]
    return "".join(f"{Chem.MolToMolBlock(one)}> <y>\n{n}\n\n$$$$\n" for n, one in enumerate(molecules))


def write(path: Path, text: str | bytes) -> Path:
    """A file, packed if its name says so."""
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def content(blocks: list[Block]) -> tuple[Any, ...]:
    """Everything that blocks hold, however they are cut."""
    collection, columns = join(blocks)
    return columns, collection.rows.tolist(), [(one.row, one.text) for one in collection.rejected]


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", CSV), ("a.smi", SMI), ("a.jsonl", JSONL), ("a.sdf", sdf([*SMILES[:2], *SMILES[3:]]))]
)
def test_packed_files_hold_the_same(tmp_path: Path, name: str, text: str) -> None:
    plain, packed = write(tmp_path / name, text), write(tmp_path / f"{name}.gz", text)
    assert len(packed.read_bytes()) != len(plain.read_bytes())
    whole = content(list(read_blocks(plain)))
    assert content(list(read_blocks(packed, size=2))) == whole
    assert len(whole[1]) == 4
    assert reading_notes(packed) == []
    packed.write_bytes(packed.read_bytes()[:-10])
    with pytest.raises(InputError, match="not a complete gzip file"):
        list(read_blocks(packed))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (
            "CCO ethanol 96 %\nCN\n\n  C\tmethane\n",
            {"mol": ["CCO", "CN", "C"], "name": ["ethanol 96 %", None, "methane"]},
        ),
        ("SMILES Name\nCCO ethanol\n", {"mol": ["CCO"], "Name": ["ethanol"]}),
        ("#smiles\nCCO\n", {"mol": ["CCO"]}),
        (
            "smiles\tid\tactive\nCCO\ta b\t1\nCN\t\t0\n",
            {"mol": ["CCO", "CN"], "id": ["a b", None], "active": ["1", "0"]},
        ),
        ("id mol\n1 CCO\n", {"id": ["1"], "mol": ["CCO"]}),
        ("CCO\r\nCN\r\n", {"mol": ["CCO", "CN"], "name": [None, None]}),
    ],
)
def test_smiles_files(tmp_path: Path, text: str, columns: dict[str, list[str]]) -> None:
    collection, found = read_collection(write(tmp_path / "a.smi", text), "mol")
    assert found == columns
    assert collection.smiles == tuple(columns["mol"])


def test_windows_text_is_read_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "smiles,note\nCCO,10 µM € grün\n".encode("cp1252"))
    assert read_collection(path)[1]["note"] == ["10 µM € grün"]
    assert reading_notes(path) == ["a.csv is not UTF-8 and is read as Windows-1252 text."]
    assert reading_notes(write(tmp_path / "b.csv", "smiles,note\nCCO,10 µM\n")) == []


def test_unnamed_and_repeated_columns_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ",smiles,y,y,y_2, \n0,CCO,1,2,3,4\n")
    assert read_collection(path)[1] == {
        "column_1": ["0"],
        "smiles": ["CCO"],
        "y": ["1"],
        "y_3": ["2"],
        "y_2": ["3"],
        "column_6": ["4"],
    }
    assert reading_notes(path) == [
        "3 unnamed or repeated columns of a.csv renamed: '' to 'column_1', 'y' to 'y_3', ' ' to 'column_6'."
    ]


@pytest.mark.parametrize("row", ['{"smiles": "C', "[1]", '{"smiles": "C", "a": [1]}'])
def test_one_broken_line_is_one_bad_row(tmp_path: Path, row: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"smiles": "CCO", "y": 1}\n' + row + '\n{"smiles": "CN", "y": 0}\n')
    collection, columns = join(read_blocks(path, size=2))
    assert collection.rows.tolist() == [0, 2]
    assert columns["y"] == [1, None, 0]
    (bad,) = collection.rejected
    assert (bad.row, bad.text) == (1, row)
    assert bad.reason.startswith("line 2 ")
    graphs = write(tmp_path / "b.jsonl", '{"edges": [[0, 1]]}\n{"edges": 1\n{"edges": [[0, 1], [1, 2]]}\n')
    made = join(read_blocks(graphs, size=2))[0]
    assert made.rows.tolist() == [0, 2]
    assert "line 2 is not JSON" in made.rejected[0].reason


def test_records_have_scaffolds(tmp_path: Path) -> None:
    rings = [f"{'C' * length}{ring}" for ring in ("c1ccccc1", "C1CCCC1", "c1ccncc1") for length in range(1, 9)]
    collection, columns = read_collection(write(tmp_path / "a.sdf.gz", sdf(rings)))
    split = make_split("scaffold", collection, columns)
    assert sorted(split.names) == ["C1CCCC1", "c1ccccc1", "c1ccncc1"]


def test_a_workbook_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"needs openpyxl; install it with pip install 'goodformer\[excel\]', or save"):
        read_collection(write(tmp_path / "a.xlsx", b"PK"))


def test_workbooks(tmp_path: Path) -> None:
    from datetime import date, datetime

    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["smiles", "y", "when", None, "y", None],
        ["CCO", 1, date(2020, 5, 17), "a", 0.5],
        [],
        ["C1C", None, datetime(2021, 1, 2, 3, 4), None, True],
        ["CN", 0, None, "b", None],
    ):
        sheet.append(row)
    book.create_sheet("notes")
    path = tmp_path / "a.xlsx"
    book.save(path)
    collection, columns = join(read_blocks(path, size=2))
    assert columns == {
        "smiles": ["CCO", "C1C", "CN"],
        "y": [1, None, 0],
        "when": ["2020-05-17", "2021-01-02T03:04:00", None],
        "column_4": ["a", None, "b"],
        "y_2": [0.5, True, None],
    }
    assert collection.rows.tolist() == [0, 2]
    notes = reading_notes(path)
    assert notes[0] == "a.xlsx has 2 sheets; only the first, 'Sheet', is read."
    assert "2 unnamed or repeated columns" in notes[1]
    with pytest.raises(InputError, match=r"sheet 'Sheet'; only the first of 2 sheets is read\) has no column 'mol'"):
        read_collection(path, "mol")
    with pytest.raises(InputError, match="not an Excel workbook"):
        read_collection(write(tmp_path / "b.xlsx", b"PK\x03\x04"))
