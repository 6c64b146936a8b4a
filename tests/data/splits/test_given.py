"""Parts that a user gives: words in a column, or separate files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch

from goodformer.apply.split import split_file
from goodformer.config.run import RunConfig
from goodformer.data import load_benchmark
from goodformer.data.benchmarks.table import load_table
from goodformer.data.readers.collection import collect
from goodformer.data.splits.given import word_part
from goodformer.data.splits.split import ID_TEST, ID_VAL, TEST, TRAIN, VAL, Split
from goodformer.data.splits.splitters import make_split
from goodformer.errors import InputError
from goodformer.spec import SPLITS

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccsc1", "C1CCOC1"]


def rows(first: int, count: int, part: str = "", header: str = "smiles,active,set") -> str:
    """Lines of a table of different molecules."""
    lines = [f"{'C' * (n // 6 + 1)}{RINGS[n % 6]},{n % 2},{part}" for n in range(first, first + count)]
    return "\n".join([header, *lines] if header else lines) + "\n"


def files(folder: Path) -> dict[str, Path]:
    """Separate files for training, validation and test; one test row is also a training row, one is no molecule."""
    texts = {"train": rows(0, 60), "val": rows(100, 12), "test": rows(200, 10) + rows(0, 1, header="") + "C1C,1,\n"}
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return {name: folder / f"{name}.csv" for name in texts}


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("Train", TRAIN),
        ("TRAINING", TRAIN),
        ("training set", TRAIN),
        ("valid", VAL),
        ("Validation", VAL),
        ("dev", VAL),
        ("Test", TEST),
        ("hold-out", TEST),
        ("test_set", TEST),
        ("id_val", ID_VAL),
        ("ID test", ID_TEST),
        ("2019", None),
        ("lab A", None),
    ],
)
def test_words_for_parts(word: str, part: int | None) -> None:
    assert word_part(word) == part


def test_rows_marked_test_are_never_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        rows(0, 60, "Train") + rows(100, 12, "VALID", "") + rows(200, 10, "Test", "") + rows(300, 2, "", "")
    )
    table = load_table(path, target="active", split="column:set")
    part = table.split.part
    assert set(part[:60].tolist()) == {TRAIN, ID_VAL, ID_TEST}
    assert set(part[60:72].tolist()) == {VAL}
    assert set(part[72:82].tolist()) == {TEST}
    assert set(part[82:].tolist()) == {-1}
    assert table.split.counts() == {"train": 48, "id_val": 6, "id_test": 6, "val": 12, "test": 10}
    (note,) = table.notes
    assert "column 'set' gives the parts: 60 rows are for training, 12 rows are validation" in note
    assert "6 rows at random for ID validation (for calibration), 6 rows at random for ID test." in note
    assert table.split.envs()[1] == 6  # environments are the scaffolds, not one part


def test_a_column_of_parts_that_is_not_used_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(rows(0, 60, "Train") + rows(100, 12, "VALID", "") + rows(200, 10, "Test", ""))
    assert any("column:set" in note for note in load_table(path, target="active", split="scaffold").notes)
    path.write_text(rows(0, 60, "Train") + rows(100, 12, "lab A", "") + rows(200, 10, "Test", ""))
    assert not any("column:set" in note for note in load_table(path, target="active", split="scaffold").notes)
    path.write_text(rows(0, 82, "Train"))
    assert not any("column:set" in note for note in load_table(path, target="active", split="scaffold").notes)


def test_without_validation_rows_some_training_rows_choose_the_epoch() -> None:
    graphs = collect([nx.path_graph(2 + n % 5) for n in range(50)])
    split = make_split("column:a", graphs, {"a": ["train"] * 40 + ["test"] * 10})
    assert split.counts() == {"train": 28, "id_val": 4, "id_test": 4, "val": 4, "test": 10}
    assert split.rows("test").tolist() == list(range(40, 50))
    without = make_split("column:a", graphs, {"a": ["train"] * 40 + ["dev"] * 10})
    assert without.counts()["test"] == 0
    assert without.rows("val").tolist() == list(range(40, 50))


@pytest.mark.parametrize(("word", "rest"), [("train", "bus"), ("test", "control"), ("dev", "prod")])
def test_other_words_are_groups(word: str, rest: str) -> None:
    graphs = collect([nx.path_graph(3) for _ in range(40)])
    split = make_split("column:a", graphs, {"a": [word] * 30 + [rest] * 10})
    assert split.names == (word, rest)


def test_a_mixed_column_is_one_error() -> None:
    graphs = collect([nx.path_graph(3) for _ in range(40)])
    with pytest.raises(InputError, match=r"column 'a' contains words for parts .* and 'maybe' in 2 rows; write train"):
        make_split("column:a", graphs, {"a": ["train"] * 30 + ["test"] * 8 + ["maybe"] * 2})


def test_a_column_of_numbers_says_what_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("smiles,active,year\n" + "".join(f"{'C' * n}O,{n % 2},{2000 + n}\n" for n in range(1, 41)))
    assert load_table(path, target="active", split="column:year").notes == (
        "rows with the last values of column 'year' are held out.",
    )


def test_separate_files(tmp_path: Path) -> None:
    found = files(tmp_path)
    table = load_table(found["train"], target="active", val=found["val"], test=found["test"])
    part = table.split.part
    assert Counter(part[:60].tolist()) == {TRAIN: 48, ID_VAL: 6, ID_TEST: 6}
    assert set(part[60:72].tolist()) == {VAL}
    assert part[72:].tolist() == [TEST] * 11 + [-1]
    assert "contain the molecule of 1 row of test" in table.notes[0]
    assert table.rows.problems()[0] | {"reason": ""} == {"file": "test.csv", "row": 12, "text": "C1C", "reason": ""}
    bench = table.benchmark()
    assert "1 row of test.csv rejected: row 12 (C1C" in bench.notes
    assert {name: len(bench.splits[name]) for name in SPLITS[3:]} == {"val": 12, "test": 11}
    table.split.save(tmp_path / "split.json")
    saved = json.loads((tmp_path / "split.json").read_text())
    assert saved["files"] == [["train", "train.csv", 60], ["val", "val.csv", 12], ["test", "test.csv", 12]]
    assert Split.load(tmp_path / "split.json").files == table.split.files


@pytest.mark.parametrize(("how", "options"), [("auto", 6), ("scaffold", 10)])
def test_validation_rows_are_cut_from_training_as_asked(tmp_path: Path, how: str, options: int) -> None:
    found = files(tmp_path)
    split = load_table(found["train"], target="active", split=how, test=found["test"]).split
    assert split.counts()["test"] == 11
    assert split.counts()["val"] == options
    scaffolds = set(split.domain[split.rows("val")].tolist())
    assert scaffolds.isdisjoint(split.domain[split.rows("train")].tolist()) == (how == "scaffold")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "smiles,activ,set\nCCO,1,\n"}, r"val.csv has no column 'active'; did you mean 'activ'"),
        ({"text": "mol,active\nCCO,1\n"}, r"val.csv has no column 'smiles'"),
        ({"split": "scaffold"}, r"split 'scaffold' has no use: validation rows are given"),
        ({"val": "missing.csv"}, r"missing.csv not found"),
    ],
)
def test_what_is_wrong_with_separate_files(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    found = files(tmp_path)
    if "text" in change:
        found["val"].write_text(change.pop("text"))
    with pytest.raises(InputError, match=message):
        load_table(found["train"], target="active", **{"val": found["val"], "test": found["test"], **change})


def test_a_run_belongs_to_all_its_files(tmp_path: Path) -> None:
    found = files(tmp_path)
    given = {name: str(found[name]) for name in ("val", "test")}
    dataset = {"name": "table", "path": str(found["train"]), "target": "active"}
    alone = RunConfig(dataset=dataset, model="gin", method="erm")
    run = RunConfig(dataset={**dataset, **given}, model="gin", method="erm")
    assert run.id != alone.id
    assert RunConfig.from_dict(run.to_dict()).id == run.id
    first = load_benchmark(**run.dataset)
    assert first.recipe == load_benchmark(**run.dataset).recipe
    found["test"].write_text(rows(200, 9))
    assert RunConfig(dataset={**dataset, **given}, model="gin", method="erm").id != run.id
    with pytest.raises(InputError, match=r"test.csv has changed"):
        load_benchmark(**run.dataset)


def test_separate_files_are_compared_before_training(tmp_path: Path) -> None:
    found = files(tmp_path)
    out = tmp_path / "split.json"
    report = split_file(found["train"], "smiles", ["active"], "auto", 0, out, val=found["val"], test=found["test"])
    assert report["parts"]["test"]["graphs"] == 11
    assert report["rejected"][0]["file"] == "test.csv"
    again = load_table(found["train"], target="active", split=f"file:{out}", val=found["val"], test=found["test"]).split
    assert torch.equal(again.part, Split.load(out).part)


def test_separate_files_may_write_the_column_of_smiles_in_another_case(tmp_path: Path) -> None:
    given = files(tmp_path)
    given["test"].write_text(given["test"].read_text().replace("smiles,", "SMILES,", 1))
    table = load_table(given["train"], target="active", val=given["val"], test=given["test"])
    columns = table.rows.columns
    assert "SMILES" not in columns
    assert None not in columns["smiles"]
