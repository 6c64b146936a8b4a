"""Files of rows, read and written block by block."""

import csv
import json
import os
import re
import tracemalloc
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from torch_geometric.io import read_tu_data
from torch_geometric.utils import to_networkx

from goodformer.data.molecule import FEATURES, featurise
from goodformer.data.readers.rows import (
    Block,
    RowWriter,
    join,
    read_blocks,
    read_collection,
    reading_notes,
    value_kinds,
)
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.splitters import make_split
from goodformer.errors import InputError
from goodformer.spec import Features, FeatureSpec

SMILES = ["CCO", "c1ccccc1", "C", "CC(=O)O", "CN"]
FOLDER = os.environ.get("GOODFORMER_DATA", "")
BBBP = Path(FOLDER) / "bbbp" / "BBBP.csv"


def written(path: Path, text: str | bytes) -> Path:
    """A file with the text."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def columns(path: Path, **options: Any) -> dict[str, list[Any]]:
    """All columns of a file."""
    return join(read_blocks(path, **options))[1]


# Text -----------------------------------------------------------------------------------------------------------------


def test_text_is_kept_exactly(tmp_path: Path) -> None:
    text = '\ufeffsmiles,note\r\nCCO," two\nlines, and ""quotes"" "\r\n\r\nC, spaced \r\nCN,\r\n'
    path = written(tmp_path / "a.csv", text)
    assert columns(path) == {"smiles": ["CCO", "C", "CN"], "note": [' two\nlines, and "quotes" ', " spaced ", None]}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_empty_line_is_a_row_of_a_single_column(tmp_path: Path, end: str) -> None:
    path = written(tmp_path / "a.csv", end.join(["smiles", "", "CCO", "", '""', "CN", ""]))
    collection, read = join(read_blocks(path, size=2))
    assert read == {"smiles": [None, "CCO", None, None, "CN"]}
    assert collection.rows.tolist() == [1, 4]
    assert [one.row for one in collection.rejected] == [0, 2, 3]
    unended = written(tmp_path / "b.csv", end.join(["smiles", "CCO"]))
    assert columns(unended) == {"smiles": ["CCO"]}


def test_tabs_separate_in_tsv(tmp_path: Path) -> None:
    path = written(tmp_path / "a.TSV", "smiles\tnote\nCCO\ta, b\n")
    assert columns(path) == {"smiles": ["CCO"], "note": ["a, b"]}


SHEET = 'id\tsmiles\tnote\r\n1\tCCO\tgrün, "2"\U0001f9ea\r\n2\tC1CC\t\r\n3\t\tβ\r\n\r\n4\tCN\tд\r\n'
"""As a spreadsheet program saves it, with a row that is no molecule, one without any, and a line without anything."""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv"])
def test_tables_of_spreadsheet_programs_are_read_alike(tmp_path: Path, encoding: str, name: str) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    path = written(tmp_path / name, (mark + SHEET).encode(encoding))
    collection, read = join(read_blocks(path, size=3))
    assert read == {
        "id": ["1", "2", "3", "4"],
        "smiles": ["CCO", "C1CC", None, "CN"],
        "note": ['grün, "2"\U0001f9ea', None, "β", "д"],
    }
    assert collection.rows.tolist() == [0, 3]
    assert [(one.row, one.text) for one in collection.rejected] == [(1, "C1CC"), (2, "")]
    assert bool(reading_notes(path)) == (name == "a.csv")


def test_blocks_follow_each_other(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "\n".join(["id,smiles", *(f"{n},{s}" for n, s in enumerate(SMILES))]) + "\n")
    blocks = list(read_blocks(path, size=2))
    assert [(block.first, len(block), block.collection.rows.tolist()) for block in blocks] == [
        (0, 2, [0, 1]),
        (2, 2, [2, 3]),
        (4, 1, [4]),
    ]
    assert [block.columns["id"] for block in blocks] == [["0", "1"], ["2", "3"], ["4"]]
    assert all(block.collection.features == FEATURES for block in blocks)
    whole, read = join(blocks)
    assert read["smiles"] == list(whole.smiles or ()) == SMILES
    assert torch.equal(whole.graphs.node["x"], featurise(SMILES).graphs.node["x"])
    assert whole.rows.tolist() == [0, 1, 2, 3, 4]


def test_rows_that_are_no_molecules_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles,y\nCCO,1\n,0\nC1CC,1\nCN,0\nnot a molecule,0\n")
    collection, read = join(read_blocks(path, size=2))
    assert collection.count == len(read["y"]) == 5
    assert collection.rows.tolist() == [0, 3]
    assert [(one.row, one.text) for one in collection.rejected] == [(1, ""), (2, "C1CC"), (4, "not a molecule")]
    assert all(one.reason for one in collection.rejected)


def test_a_block_may_hold_no_molecule_at_all(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles\nx\nx\nCCO\n")
    first, second = read_blocks(path, size=2)
    assert (len(first.collection), len(second.collection)) == (0, 1)
    assert join([first, second])[0].rows.tolist() == [2]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", ",,\nC,1,1\n", "no column names"),
        ("a.csv", 'smiles,y\n"C\nC",1\nC,1,2\n', r"row 2 \(line 4\) has 3 fields .* 2"),
        ("a.csv", "smiles,y\nC\n", "row 1 .line 2. has 1 fields"),
        ("a.csv", 'smiles,y\nC,"1\nC,2\n', "line 3 "),
        ("a.csv", 'smiles,y\nC,"1"2\n', "line 2 "),
        ("a.csv", b"smiles\n\x81\n", "UTF-8"),
        ("a.csv", b"smiles\n\xff\0\n", "UTF-8"),
        ("a.csv.gz", b"smiles\n", "gzip"),
        ("a.smi", "\n", "is empty"),
        ("a.parquet.gz", "x", "packed twice"),
        ("a.csv", "SMILE,y\nC,1\n", "no column 'smiles'; did you mean 'SMILE'. its columns are: SMILE, y"),
        ("a.csv", "smiles|y|z\nC|1|2\n", r"no column 'smiles': .* separated by '\|'; save it with commas"),
        ("a.csv", "smiles\n", "no row"),
        ("a.tsv", "name,y\nC,1\n", "no column 'smiles'; its columns are: name, y"),
        ("a.csv", "smiles,y\nC,1\n".encode("utf-16")[:-1], "UTF-16"),
        ("a.csv", "smiles,y\nC\n".encode("utf-16"), r"row 1 \(line 2\) has 1 fields"),
        ("a.XLS", b"\xd0\xcf", "is a spreadsheet"),
        ("a.doc", "x", r"format \(.doc\); give .csv, .tsv, .txt, .smi, .parquet, .xlsx, .xlsm, .sdf, .jsonl or a TU"),
        ("a", "x", "no suffix"),
        ("a.pt", "x", "pickle.* pass the list of graphs to .*collect"),
        ("a.parquet", "x", "Parquet"),
        ("a.jsonl", '{"edges": 1}\n[1]\n', "no valid graph .line 1 has edges that are not pairs"),
        ("a.jsonl", "", "no row"),
        ("a.sdf", "", "no row"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    path = written(tmp_path / name, text)
    with pytest.raises(InputError, match=message) as caught:
        read_collection(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv"):
        read_blocks(tmp_path / "none.csv")


def test_molecules_are_refused_by_a_model_of_other_graphs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "smiles\nC\n")
    with pytest.raises(InputError, match="trained on other graphs"):
        list(read_blocks(path, features=FeatureSpec()))
    assert len(list(read_blocks(path, features=FEATURES))) == 1


@pytest.mark.parametrize(("encoding", "rows"), [("utf-8", 50_000), ("utf-16", 25_000)])
def test_a_long_file_takes_no_more_memory_than_a_block(tmp_path: Path, encoding: str, rows: int) -> None:
    wide = "x" * 700
    with (tmp_path / "long.csv").open("w", encoding=encoding) as file:
        file.write("id,smiles,note\n")
        file.writelines(f"{row},C,{wide}\n" for row in range(rows))
    assert (tmp_path / "long.csv").stat().st_size > 30 * 2**20
    next(read_blocks(tmp_path / "long.csv"))  # what is imported does not count
    tracemalloc.start()
    count = sum(len(block) for block in read_blocks(tmp_path / "long.csv"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == rows
    assert peak < 8 * 2**20


@pytest.mark.skipif(not BBBP.is_file(), reason="GOODFORMER_DATA holds no bbbp/BBBP.csv")
def test_real_rows_that_rdkit_rejects() -> None:
    collection, read = read_collection(BBBP)
    assert collection.count == len(read["p_np"]) == 2050
    assert len(collection) + len(collection.rejected) == 2050
    assert 5 <= len(collection.rejected) <= 20
    for one in collection.rejected:
        assert read["smiles"][one.row] == one.text
        assert Chem.MolFromSmiles(one.text) is None
        assert one.reason


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("a.csv", "id;smiles;y\n1;C(,);0\n", "semicolons"),
        ("a.csv", "id\tsmiles\ty\n1\tC(,)\t0\n", "tabs"),
        ("a.tsv", 'id,smiles,y\n1,"C(,)",0\n', "commas"),
        ("a.csv", '\ufeffid;"smiles";y\r\n1;"C(,)";0\r\n', "semicolons"),
        ("a.csv", 'id,smiles,y\n1,"C(,)",0\n', ""),
        ("a.csv", 'id,smiles,"y"\n1,"C(,)",0\n', ""),
    ],
)
def test_what_separates_fields_is_told_by_the_first_line(tmp_path: Path, name: str, text: str, note: str) -> None:
    path = written(tmp_path / name, text)
    assert columns(path) == {"id": ["1"], "smiles": ["C(,)"], "y": ["0"]}
    found = " ".join(reading_notes(path))
    assert bool(found) == bool(note)
    assert not note or f"{name} is separated by {note}" in found


def test_the_suffix_decides_where_it_can(tmp_path: Path) -> None:
    """A semicolon in a name of a column is no separator as long as the wanted column is there."""
    path = written(tmp_path / "a.csv", "smiles,dose; mg\nCC,1;2\n")
    assert columns(path) == {"smiles": ["CC"], "dose; mg": ["1;2"]}
    assert columns(written(tmp_path / "b.csv", "smiles\nCC\n")) == {"smiles": ["CC"]}
    assert columns(written(tmp_path / "c.csv", "id;SMILES\n1;CC\n")) == {"id": ["1"], "SMILES": ["CC"]}


# Parquet --------------------------------------------------------------------------------------------------------------


def test_parquet_values_keep_their_type(tmp_path: Path) -> None:
    table = pa.table(
        {
            "smiles": pa.array(["CCO", None, "CN"]).dictionary_encode(),
            "count": [1, None, 3],
            "share": [0.5, float("nan"), 1.0],
            "active": [True, False, None],
            "price": [Decimal("1.50"), None, Decimal("2.00")],
            "when": pa.array([datetime(2020, 1, 2), None, datetime(2021, 1, 2)], pa.timestamp("ns")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    blocks = list(read_blocks(tmp_path / "a.parquet", size=2))
    collection, read = join(blocks)
    assert read["smiles"] == ["CCO", None, "CN"]
    assert repr(read["count"]) == "[1, None, 3]"
    assert repr(read["share"]) == "[0.5, None, 1.0]"
    assert repr(read["active"]) == "[True, False, None]"
    assert read["price"] == ["1.50", None, "2.00"]
    assert [value and value[:10] for value in read["when"]] == ["2020-01-02", None, "2021-01-02"]
    assert [one.row for one in collection.rejected] == [1]


def test_types_survive_from_file_to_file(tmp_path: Path) -> None:
    table = pa.table({"smiles": ["C", "CC"], "n": [1, None], "p": [0.5, 2.0], "ok": [True, False], "word": ["1", "x"]})
    pq.write_table(table, tmp_path / "a.parquet")
    with RowWriter(tmp_path / "b.parquet", table.column_names) as writer:
        for block in read_blocks(tmp_path / "a.parquet", size=1):
            writer.write(block.columns)
    again = pq.read_table(tmp_path / "b.parquet")
    assert again.to_pydict() == table.to_pydict()
    assert again.schema.types == table.schema.types


def test_numbers_are_never_rounded_to_the_type_of_earlier_blocks(tmp_path: Path) -> None:
    blocks = [[1, None], [2.5, 2**60 + 1]]

    def write(kinds: dict[str, set[type]] | None) -> None:
        with RowWriter(tmp_path / "a.parquet", ["dose"], kinds) as writer:
            for block in blocks:
                writer.write({"dose": block})

    with pytest.raises(InputError, match="'dose'"):
        write(None)
    assert not (tmp_path / "a.parquet").exists()
    write({"dose": value_kinds([*blocks[0], *blocks[1]])})
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"dose": [1.0, None, 2.5, float(2**60)]}


def test_whole_numbers_that_are_too_large_are_text(tmp_path: Path) -> None:
    lines = [{"smiles": "C", "id": 2**70, "n": 2**62}, {"smiles": "CC", "id": 1, "n": 1}]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert columns(path) == {"smiles": ["C", "CC"], "id": [str(2**70), "1"], "n": [2**62, 1]}
    with RowWriter(tmp_path / "a.parquet", ["id"]) as writer:
        writer.write({"id": [2**70, 1]})
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"id": [str(2**70), "1"]}


def test_a_column_of_numbers_is_no_molecule(tmp_path: Path) -> None:
    pq.write_table(pa.table({"smiles": [1, 2]}), tmp_path / "a.parquet")
    assert len(read_collection(tmp_path / "a.parquet")[0].rejected) == 2


# SDF ------------------------------------------------------------------------------------------------------------------


def sdf(path: Path, smiles: list[str], properties: list[dict[str, str]]) -> Path:
    """An SDF file written by RDKit."""
    with Chem.SDWriter(str(path)) as writer:
        for number, (text, values) in enumerate(zip(smiles, properties, strict=True)):
            mol = Chem.MolFromSmiles(text)
            mol.SetProp("_Name", f"mol {number}")
            for name, value in values.items():
                mol.SetProp(name, value)
            writer.write(mol)
    return path


def test_sdf_records_are_molecules_and_their_properties_columns(tmp_path: Path) -> None:
    path = sdf(tmp_path / "a.sdf", ["CCO", "c1ccccc1C", "CN"], [{"y": "1"}, {"z": "two\nlines"}, {"y": "0", "z": "b"}])
    collection, read = join(read_blocks(path, size=2))
    assert read == {
        "title": ["mol 0", "mol 1", "mol 2"],
        "y": ["1", None, "0"],
        "z": [None, "two\nlines", "b"],
    }
    assert collection.smiles == ("CCO", "Cc1ccccc1", "CN")
    assert not collection.as_written  # the second begins with its methyl group, the record with the ring
    assert collection.rows.tolist() == [0, 1, 2]
    assert torch.equal(collection.graphs.node["x"], featurise(["CCO", "c1ccccc1C", "CN"]).graphs.node["x"])


def test_sdf_is_split_and_compared_as_the_same_smiles_are(tmp_path: Path) -> None:
    smiles = [f"{ring}{'C' * size}" for ring in ("c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccoc1") for size in range(8)]
    table = {"smiles": smiles, "y": ["01"[number % 2] for number in range(len(smiles))]}
    (tmp_path / "a.csv").write_text("smiles,y\n" + "\n".join(map(",".join, zip(*table.values(), strict=True))))
    sdf(tmp_path / "a.sdf", smiles, [{"y": value} for value in table["y"]])
    made = {}
    for kind in ("csv", "sdf"):
        collection, read = read_collection(tmp_path / f"a.{kind}")
        splits = {how: make_split(how, collection, read) for how in ("auto", "scaffold", "cluster", "random")}
        assert splits["auto"].by == "scaffold"
        reports = {how: distance_report(split, collection) for how, split in splits.items()}
        made[kind] = {how: (split.part.tolist(), reports[how]) for how, split in splits.items()}
    assert made["csv"] == made["sdf"]
    assert made["sdf"]["scaffold"][1]["parts"]["test"]["nearest_mean"] > 0


def test_sdf_records_that_are_no_molecules_are_listed(tmp_path: Path) -> None:
    path = sdf(tmp_path / "a.sdf", ["CCO", "CN"], [{"y": "1"}, {"y": "0"}])
    bad = "odd\n\n\n  not a block\n> <y>  (2)\n5\n\n$$$$\n"
    first, _, second = path.read_text().partition("$$$$\n")
    text = f"{first}$$$$\n{bad}{second}".removesuffix("$$$$\n")  # the last record lacks its end
    path.write_bytes(text.replace("\n", "\r\n").replace("mol 1", "mol \u00e9").encode("latin-1"))
    collection, read = read_collection(path)
    assert collection.count == 3
    assert collection.rows.tolist() == [0, 2]
    assert [(one.row, one.text) for one in collection.rejected] == [(1, "odd")]
    assert read == {"title": ["mol 0", "odd", "mol \u00e9"], "y": ["1", "5", "0"]}


# JSON lines -----------------------------------------------------------------------------------------------------------


def test_json_lines_hold_graphs_and_columns(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"edges": [[0, 1]], "x": [[1], [2]], "edge_attr": [[3]], "y": 1, "lab": "a"},
        {"edges": [[0, 1], [1, 2]], "x": [[0], [0], [4]], "edge_attr": [[1], [0]], "y": True},
        {"edges": [[0, 1]], "x": [[0.5], [1]], "edge_attr": [[1]], "lab": None, "y": 0.5},
    ]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    first, second = read_blocks(path, size=2)
    assert first.collection.features == FeatureSpec(Features.categorical(5), Features.categorical(4))
    assert second.first == 2
    collection, read = join([first, second])
    assert collection.features == FeatureSpec(Features.continuous(1), Features.categorical(4))
    assert collection.graphs.node["x"].flatten().tolist() == [1, 2, 0, 0, 4, 0.5, 1]
    assert collection.graphs.edge["attr"].flatten().tolist() == [3, 3, 1, 1, 0, 0, 1, 1]
    assert read == {"y": ["1", "true", "0.5"], "lab": ["a", None, None]}


def test_a_json_column_is_of_one_kind_in_the_whole_file(tmp_path: Path) -> None:
    values = [(1, 1, True, "a"), (0.5, 2, None, 7), (None, 3, False, True)]
    lines = [{"smiles": "C", "real": a, "whole": b, "truth": c, "mixed": d} for a, b, c, d in values]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    first, second, third = (block.columns for block in read_blocks(path, size=1))
    assert repr(list(first.values())) == "[['C'], [1.0], [1], [True], ['a']]"
    assert repr(list(second.values())) == "[['C'], [0.5], [2], [None], ['7']]"
    assert repr(list(third.values())) == "[['C'], [None], [3], [False], ['true']]"


BAD = [
    ('{"edges": [[0, 9]], "num_nodes": 2, "x": [[1.0], [1.0]], "y": 1}', "line 2 has an edge to node 9"),
    ('{"edges": [[0, 1]], "x": [[NaN], [1.0]], "y": 1}', "NaN"),
    ('{"edges": [[0, 1]], "x": [[1.0]], "y": 1}', "an edge to node 1 but 1 nodes"),
    ('{"edges": [[0, 1]], "y": 1}', "x"),
    ('{"edges": [[0, 1]], "x": [[1, 2], [3, 4]], "y": 1}', "2 columns"),
    ('{"edges": [[0, 1]], "x": [[1], [2]], "nodes": 2, "y": 1}', "did you mean num_nodes"),
    ('{"edges": [[0, 1]], "x": [[1], [2]], "tags": [2], "y": 1}', "'tags'"),
    ('{"smiles": "CCO", "y": 1}', "line 2 is not a graph"),
    ("null", "line 2 is not a graph"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
@pytest.mark.parametrize("features", [None, FeatureSpec(Features.continuous(1))])
def test_one_bad_graph_keeps_its_place(tmp_path: Path, line: str, reason: str, features: FeatureSpec | None) -> None:
    good = '{"edges": [[0, 1]], "x": [[1], [0.5]], "y": 0}'
    path = written(tmp_path / "a.jsonl", "\n".join([good, line, good, good]))
    for size in (1, 2, 9) if features else (2, 9):
        collection, read = join(read_blocks(path, size=size, features=features))
        assert (collection.count, collection.rows.tolist()) == (4, [0, 2, 3])
        assert [one.row for one in collection.rejected] == [1]
        assert reason in collection.rejected[0].reason
        assert str(tmp_path) not in collection.rejected[0].reason
        assert read["y"] == [0, None if line == "null" else 1, 0, 0]
        assert collection.graphs.node["x"].flatten().tolist() == [1, 0.5] * 3


def test_whether_lines_are_graphs_is_one_question_for_the_file(tmp_path: Path) -> None:
    graph, molecule = '{"edges": [[0, 1]], "smiles": "CC"}', '{"smiles": "CC"}'
    path = written(tmp_path / "a.jsonl", "\n".join([molecule, graph, molecule, graph]))
    for size in (2, 4):
        collection, _ = join(read_blocks(path, size=size))
        assert collection.smiles is None
        assert collection.rows.tolist() == [1, 3]


def test_a_graph_without_edges_fits_those_with_edge_features(tmp_path: Path) -> None:
    lines = ['{"edges": [[0, 1]], "edge_attr": [[0.5, 1]]}', '{"edges": [], "num_nodes": 1}']
    collection, _ = read_collection(written(tmp_path / "a.jsonl", "\n".join(lines)))
    assert collection.features.edge == Features.continuous(2)
    assert (len(collection), collection.rejected) == (2, ())


def test_json_lines_may_hold_molecules(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"mol": "CCO", "y": 1}\n{"mol": "C1C", "y": 0}\n')
    collection, read = read_collection(path, "mol")
    assert collection.smiles == ("CCO",)
    assert [one.row for one in collection.rejected] == [1]
    assert read["y"] == [1, 0]


def test_json_features_must_be_those_of_training(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"edges": [[0, 1]], "x": [[1.0], [9.0]], "edge_attr": [[5]]}\n')
    codes = FeatureSpec(Features.categorical(4))
    (block,) = read_blocks(path, features=codes)
    assert block.collection.graphs.node["x"].tolist() == [[1], [9]]
    assert "attr" not in block.collection.graphs.edge
    (block,) = read_blocks(path, features=FeatureSpec(Features.continuous(2)))
    assert len(block.collection) == 0
    assert re.search(r"line 1 has the shape .* give 2 continuous", block.collection.rejected[0].reason)


# TU folders -----------------------------------------------------------------------------------------------------------


def tu_folder(folder: Path, seed: int, attributes: bool, codes: bool, edge_codes: bool) -> Path:
    """A folder of random graphs; edges of a graph are scattered over the file, both directions there."""
    folder.mkdir()
    draw = torch.Generator().manual_seed(seed)
    graphs = [nx.gnp_random_graph(3 + n % 5, 0.5, seed=seed + n) for n in range(12)]
    first = 0
    edges, owner = [], []
    for number, graph in enumerate(graphs):
        edges += [(u + first, v + first) for u, v in nx.DiGraph(graph).edges]
        owner += [number + 1] * len(graph)
        first += len(graph)
    edges = [edges[place] for place in torch.randperm(len(edges), generator=draw).tolist()]
    code = {frozenset(edge): int(torch.randint(3, (1,), generator=draw)) for edge in edges}
    files: dict[str, list[Any]] = {
        "A": [f"{u + 1}, {v + 1}" for u, v in edges],
        "graph_indicator": owner,
        "graph_labels": [(-1) ** number for number in range(len(graphs))],
    }
    if codes:
        files["node_labels"] = torch.randint(4, (first,), generator=draw).tolist()
        files["node_labels"][0] = 0  # PyG counts codes from the smallest that occurs
    if attributes:
        table = torch.rand(first, 2, generator=draw).tolist()
        files["node_attributes"] = [", ".join(f"{value:.6f}" for value in row) for row in table]
    if edge_codes:
        files["edge_labels"] = [code[frozenset(edge)] for edge in edges]
    for name, lines in files.items():
        (folder / f"TOY_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize(
    ("attributes", "codes", "edge_codes"), [(False, False, False), (False, True, True), (True, True, False)]
)
def test_tu_folders_hold_what_pyg_finds(tmp_path: Path, attributes: bool, codes: bool, edge_codes: bool) -> None:
    folder = tu_folder(tmp_path / "toy", 3, attributes, codes, edge_codes)
    collection, read = read_collection(folder)
    data, slices, _ = read_tu_data(str(folder), "TOY")
    assert len(collection) == len(slices["x"] if "x" in slices else slices["y"]) - 1 == 12
    assert read["label"] == ["1" if y else "-1" for y in data.y.tolist()]
    for place in range(12):
        ours = collection.graphs[place]
        edges = slice(int(slices["edge_index"][place]), int(slices["edge_index"][place + 1]))
        pairs = data.edge_index[:, edges].T.tolist()
        assert sorted(ours.edge_index.T.tolist()) == sorted(pairs)
        if "x" in slices:
            theirs = data.x[int(slices["x"][place]) : int(slices["x"][place + 1])]
            assert torch.allclose(
                ours.x if attributes else torch.nn.functional.one_hot(ours.x[:, 0], 4).float(), theirs
            )
        if edge_codes:
            known = dict(zip(map(tuple, pairs), data.edge_attr[edges].argmax(1).tolist(), strict=True))
            assert [known[tuple(pair)] for pair in ours.edge_index.T.tolist()] == ours.edge_attr[:, 0].tolist()


def test_tu_features_are_told_from_the_files(tmp_path: Path) -> None:
    whole, _ = read_collection(tu_folder(tmp_path / "both", 1, True, True, True))
    assert whole.features == FeatureSpec(Features.continuous(2 + 4), Features.categorical(3))
    plain, _ = read_collection(tu_folder(tmp_path / "plain", 1, False, False, False))
    assert plain.features == FeatureSpec()
    blocks: list[Block] = list(read_blocks(tmp_path / "plain", size=5))
    assert [(block.first, len(block.collection)) for block in blocks] == [(0, 5), (5, 5), (10, 2)]
    joined, read = join(blocks)
    assert len(read["label"]) == 12
    assert nx.is_isomorphic(to_networkx(joined.graphs[11]), to_networkx(plain.graphs[11]))


def test_loops_of_tu_folders_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "X_A.txt").write_text("3, 4\n1, 1\n1, 2\n2, 1\n4, 3\n4, 4\n")
    (tmp_path / "X_graph_indicator.txt").write_text("1\n1\n2\n2\n")
    (tmp_path / "X_edge_labels.txt").write_text("5\n6\n1\n2\n3\n6\n")
    first, second = read_collection(tmp_path)[0].graphs
    assert (first.edge_index.T.tolist(), first.edge_attr.flatten().tolist()) == ([[0, 1], [1, 0]], [1, 2])
    assert (second.edge_index.T.tolist(), second.edge_attr.flatten().tolist()) == ([[0, 1], [1, 0]], [5, 3])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("A", "1, 2\n1, 99\n", "line 2 joins nodes 1 and 99"),
        ("A", "1, 2\n1, 5\n", "line 2 joins nodes 1 and 5, "),
        ("A", "1, 2\n1, b\n", "A.txt line 2"),
        ("graph_indicator", "1\n1\n3\n", "line 3 "),
        ("graph_labels", "1\n", "has 1 labels for 12 graphs"),
        ("node_labels", "1\n", "has 1 lines"),
    ],
)
def test_unsound_tu_folders_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    folder = tu_folder(tmp_path / "toy", 3, False, True, False)
    (folder / f"TOY_{name}.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_collection(folder)


@pytest.mark.parametrize(("attributes", "codes"), [(True, False), (False, True)])
def test_tu_folders_without_the_features_that_a_model_knows_are_refused(
    tmp_path: Path, attributes: bool, codes: bool
) -> None:
    known = read_collection(tu_folder(tmp_path / "toy", 3, attributes, codes, False))[0].features
    bare = tu_folder(tmp_path / "bare", 3, False, False, False)
    with pytest.raises(InputError, match=r"TOY_node_labels\.txt or TOY_node_attributes\.txt"):
        list(read_blocks(bare, features=known))


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0 files NAME_graph_indicator\.txt"):
        list(read_blocks(tmp_path))


# Writing --------------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.lists(
    TEXT.filter(lambda name: name.strip() and not name.startswith("\ufeff") and name != "smiles"),
    unique=True,
    max_size=3,
)


@settings(max_examples=40, deadline=None)
@given(st.data(), NAMES, st.integers(1, 4), st.sampled_from([".csv", ".tsv", ".parquet", ".jsonl"]))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, names: list[str], rows: int, suffix: str
) -> None:
    cells = st.lists(st.one_of(st.none(), TEXT), min_size=rows, max_size=rows)
    table = {"smiles": ["C"] * rows, **{name: data.draw(cells) for name in names}}
    path = tmp_path_factory.mktemp("round") / f"a{suffix}"
    with RowWriter(path, list(table)) as writer:
        for row in range(rows):
            writer.write({name: values[row : row + 1] for name, values in table.items()})
    if suffix == ".jsonl":
        read = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        assert read == [{name: values[row] for name, values in table.items()} for row in range(rows)]
    else:
        assert columns(path, size=2) == {name: [cell or None for cell in cells] for name, cells in table.items()}


ROWS = {"name": ["a", "b", None], "n": [1, None, 3], "p": [0.25, None, float("nan")], "ok": [True, None, False]}
PLAIN = {**ROWS, "p": [0.25, None, None]}


def read_json(path: Path) -> dict[str, list[Any]]:
    """Columns of a JSON array."""
    rows = json.loads(path.read_text())
    return {name: [row[name] for row in rows] for name in rows[0]}


def read_json_lines(path: Path) -> dict[str, list[Any]]:
    """Columns of JSON lines."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize(
    ("suffix", "read"),
    [(".json", read_json), (".jsonl", read_json_lines), (".parquet", lambda path: pq.read_table(path).to_pydict())],
)
def test_numbers_stay_numbers_and_none_is_empty(tmp_path: Path, suffix: str, read: Callable[[Path], Any]) -> None:
    with RowWriter(tmp_path / f"a{suffix}", list(ROWS)) as writer:
        writer.write({name: values[:1] for name, values in ROWS.items()})
        writer.write({name: values[1:] for name, values in ROWS.items()})
    assert read(tmp_path / f"a{suffix}") == PLAIN


def test_csv_shows_numbers_as_python_does(tmp_path: Path) -> None:
    with RowWriter(tmp_path / "a.csv", list(ROWS)) as writer:
        writer.write(ROWS)
    with (tmp_path / "a.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            list(ROWS),
            ["a", "1", "0.25", "True"],
            ["b", "", "", ""],
            ["", "3", "", "False"],
        ]


def test_parquet_waits_for_the_type_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with RowWriter(path, ["a", "b"]) as writer:
        writer.write({"a": [None], "b": [None]})
        writer.write({"a": [0.5], "b": [None]})
    assert pq.read_table(path).to_pydict() == {"a": [None, 0.5], "b": [None, None]}
    assert pq.read_schema(path).field("a").type == pa.float64()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl", ".parquet"])
def test_nothing_is_there_until_all_is_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="stop"), RowWriter(path, ["a"]) as writer:  # noqa: PT012
        writer.write({"a": ["x"]})
        assert path.read_text() == "old"
        raise RuntimeError("stop")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "old"
    with RowWriter(path, ["a"]):
        pass
    assert path.read_bytes() != b"old"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv, \.tsv, \.parquet"):
        RowWriter(tmp_path / "a.xlsx", ["a"])
    for suffix in (".csv", ".parquet"):
        with pytest.raises(InputError, match="choose a folder"), RowWriter(tmp_path / "none" / f"a{suffix}", ["a"]):
            pass
    with pytest.raises(ValueError, match="equal length"), RowWriter(tmp_path / "a.csv", ["a", "b"]) as writer:
        writer.write({"a": [1], "b": [1, 2]})
