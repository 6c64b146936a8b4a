"""Small hostile files: bounds are checked before memory is allocated, damaged text is one sentence."""

from __future__ import annotations

import gzip
import json
import resource
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import torch
from torch_geometric.data import Data

from goodformer.data.molecule import featurise
from goodformer.data.readers.rows import read_blocks, read_collection, reading_notes
from goodformer.data.splits.split import Split
from goodformer.draw.splits import draw_split
from goodformer.errors import InputError
from tests.apply.molecules import untrained
from tests.cli.conftest import Command, cache, command  # noqa: F401

TU = {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n", "graph_labels": "0\n"}


def tu(folder: Path, **files: str | bytes) -> Path:
    """A folder in TU format."""
    folder.mkdir()
    for name, text in {**TU, **files}.items():
        (folder / f"D_{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values))
    return path


@pytest.mark.parametrize(
    "graph",
    [
        {"edges": [], "num_nodes": 10_000_000},
        {"edges": [[0, 30_000_000]]},
        {"edges": [], "num_nodes": 10**12},
        {"edges": [], "num_nodes": 10**20},
        {"edges": [[0, 1]], "x": [[0.0] * 20_000] * 2},
        {"edges": [[0, 1]], "x": [[10**9], [0]]},
        {"edges": [[0, 1]], "x": [[10**30], [0]]},
        {"edges": [[0, 1]] * 2, "edge_attr": [[-1], [0]]},
    ],
)
def test_absurd_sizes_in_json_are_refused(graph: dict[str, Any], tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError):
        read_collection(lines(tmp_path / "a.jsonl", graph))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


def test_one_absurd_graph_does_not_spoil_the_others(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"edges": [[0, 1]]}, {"edges": [], "num_nodes": 10**7}, {"edges": [[0, 2]]})
    found, _ = read_collection(path)
    assert [(one.row, "10,000,000 nodes" in one.reason) for one in found.rejected] == [(1, True)]


def test_a_limit_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "a.jsonl", {"edges": [], "num_nodes": 100_001})
    with pytest.raises(InputError, match="GOODFORMER_LIMITS=nodes=100001"):
        read_collection(path)
    monkeypatch.setenv("GOODFORMER_LIMITS", "nodes=100001")
    assert len(read_collection(path)[0]) == 1


@pytest.mark.parametrize(
    "files",
    [
        {"node_labels": "1000000000\n0\n", "node_attributes": "0.5\n0.5\n"},
        {"node_labels": "1000000000\n0\n"},
        {"node_labels": "inf\n0\n"},
        {"node_labels": "1e300\n0\n"},
        {"graph_indicator": "1\n1.5\n"},
        {"A": "1, 1.5\n"},
        {"A": "1, \xff\n".encode("latin-1")},
        {"node_attributes": b"\xff\xfe\n0\n"},
        {"graph_labels": b"\x81\x8d\x00\n"},
    ],
)
def test_damaged_tu_folders_are_refused(files: dict[str, str | bytes], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_collection(tu(tmp_path / "d", **files))


def test_labels_of_a_tu_folder_in_windows_text_are_read(tmp_path: Path) -> None:
    assert read_collection(tu(tmp_path / "d", graph_labels=b"gr\xfcn\n"))[1] == {"label": ["grün"]}


HALF = '{"smiles": "CC", "name": "\\ud800"}'


@pytest.mark.parametrize("line", [HALF, '{"smiles": "CC", "\\udfff": 1}', '{"smiles": "C\\ud800C"}', "[" * 100_000])
def test_half_characters_in_json_are_a_problem_of_their_row(line: str, tmp_path: Path, command: Command) -> None:  # noqa: F811
    untrained().save(tmp_path / "model")
    lines(tmp_path / "a.jsonl", line, {"smiles": "CC"})
    for form in ("csv", "jsonl", "parquet", "json"):
        answer = command("predict", "model", "a.jsonl", "-o", f"answers.{form}")
        assert (answer.code, "1 of 2 rows" in answer.out) == (0, True), answer.err


def test_half_characters_in_python_are_refused() -> None:
    found = featurise(["C\ud800C", "CC", "CC \udfff"])
    assert 0 in [one.row for one in found.rejected]


def test_parquet_text_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    texts = pa.array([b"C\xffC", b"CC", None], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"smiles": texts, "b": texts}), tmp_path / "a.parquet")
    found, columns = read_collection(tmp_path / "a.parquet")
    assert [one.row for one in found.rejected] == [0, 2]
    assert columns["b"] == ["C\\xffC", "CC", None]


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"smiles": ["CC"] * 50}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content[: len(content) // 2])
    for read in (read_collection, reading_notes):
        with pytest.raises(InputError, match="as Parquet"):
            read(tmp_path / "a.parquet")


def test_sdf_lines_that_are_not_utf_8_are_read(tmp_path: Path) -> None:
    block = b"t\xffle\n  x\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0 0.0 0.0 \xff   0  0\nM  END\n"
    block += b"> <a>\nb\xff\n\n"
    (tmp_path / "a.sdf").write_bytes((block + b"$$$$\n") * 2)
    _, columns = read_collection(tmp_path / "a.sdf")
    assert columns["a"] == ["bÿ", "bÿ"]


def test_an_sdf_message_that_ends_within_a_character_is_read(tmp_path: Path) -> None:
    """Found by the fuzzing harness: RDKit cuts the line that it quotes."""
    head, end = "  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000", "C   0  0\nM  END\n$$$$\n"
    (tmp_path / "a.sdf").write_text(f"\x80  x\n\n{head} {end}\n  x\n\n{head}\x80{end}", encoding="utf-8")
    found, _ = read_collection(tmp_path / "a.sdf")
    assert (found.count, len(found.rejected) > 0) == (2, True)


def test_long_lines_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """Ten megabytes of compressed zeros would be ten gigabytes of one line."""
    for name, start in (
        ("a.csv", b"smiles,"),
        ("b.csv", b'smiles\n"'),
        ("a.jsonl", b'{"'),
        ("a.sdf", b""),
        ("a.smi", b"C"),
    ):
        with gzip.open(tmp_path / f"{name}.gz", "wb", compresslevel=1) as file:
            file.write(start)
            for _ in range(40):
                file.write(b"C" * 2**20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InputError, match="characters, more than the limit"):
            read_collection(tmp_path / f"{name}.gz")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_group_called_like_a_formula_is_drawn(tmp_path: Path) -> None:
    for suffix in ("png", "svg", "pdf"):
        split = Split([0, 1, 2, 3, 4], [0, 1, 0, 1, 0], ("$x_{$", "\\frac{"), "$x_{$")  # type: ignore[arg-type]
        assert draw_split(split, tmp_path / f"a.{suffix}").stat().st_size > 0


def test_a_huge_molecule_is_refused_with_its_size(tmp_path: Path) -> None:
    found = featurise(["C" * 6000, "CC", "C" * 100_000])
    assert [one.row for one in found.rejected] == [0, 2]
    assert "6,000 atoms" in found.rejected[0].reason
    (tmp_path / "a.csv").write_text(f"smiles\n{'C' * 6000}\nCC\n")
    (block,) = read_blocks(tmp_path / "a.csv")
    assert (len(block.collection), block.collection.rejected[0].row) == (1, 0)


def test_attention_refuses_a_graph_that_does_not_fit() -> None:
    graph = Data(torch.zeros(4000, 9, dtype=torch.long), torch.tensor([[0], [1]]), torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(InputError, match=r"4,000 nodes.*attention.*gin"):
        untrained("erm", "graphormer").predict([graph])
    assert len(untrained("erm", "gin").predict([graph])) == 1


def test_warnings_are_notes_without_code(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    untrained().save(tmp_path / "model")
    (tmp_path / "a.csv").write_text("smiles\nCC\n")
    from goodformer.apply import predict

    monkeypatch.setattr(predict, "notes_on", lambda *words: warnings.warn("cache file x.", stacklevel=1) or [])
    answer = command("predict", "model", "a.csv", "-o", "b.csv")
    assert answer.code == 0
    assert "note: cache file x.\n" in answer.err
    assert ".py:" not in answer.err
