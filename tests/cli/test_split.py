"""``goodformer split``."""

import json
from pathlib import Path

import pytest

from goodformer import cli
from goodformer.cli.split import _show
from goodformer.data.splits.split import Split
from goodformer.spec import SPLIT_NAMES
from tests.apply.molecules import molecules
from tests.cli.conftest import Command
from tests.cli.test_train import cells

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccsc1", "C1CCOC1"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A table of molecules, one of them unreadable."""
    rows = [f"{'C' * (n // 6 + 1)}{RINGS[n % 6]},{n % 2},{2000 + n % 9}" for n in range(60)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["mol,y,year", *rows, "C1C,1,2000", "CCO,,2001"]) + "\n")
    return path


def test_a_split_is_saved_drawn_and_shown(command: Command, data: Path, tmp_path: Path) -> None:
    words = ("split", data, "--smiles", "mol", "--target", "y", "-o", "split.json", "--picture", "split.png")
    answer = command(*words)
    assert answer.code == 0, answer.err
    for part in ("nearest", "AUROC", "row 61 (C1C:", "1 more row", "share of 1"):
        assert part in answer.out
    assert len(Split.load(tmp_path / "split.json")) == 62
    assert (tmp_path / "split.png").stat().st_size > 5_000
    again = command("split", data, "--smiles", "mol", "-t", "y", "--by", "file:split.json", "-o", "two.json", "--json")
    assert sum(part["graphs"] for part in again.json["parts"].values()) + again.json["left_out"] == 62
    saved = Split.load(tmp_path / "split.json").part.tolist()
    lines = answer.out.splitlines()
    for code, (key, name) in enumerate(SPLIT_NAMES.items()):
        (line,) = [line for line in lines if line.startswith(f"{name} ") and "share" not in line and ":" not in line]
        part = again.json["parts"][key]
        assert part["graphs"] == saved.count(code)
        shown = [str(part["graphs"]), f"{part['classes'][0]:.2f}", f"{part['mean_size']:.2f}"]
        assert line.removeprefix(name).split()[:3] == shown
    assert json.loads((tmp_path / "two.json").read_text()) == json.loads((tmp_path / "split.json").read_text())


def test_a_split_fits_a_narrow_terminal(command: Command, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ("split", data, "--smiles", "mol", "--target", "y")
    heading = command(*words).out.splitlines()[2].split()
    assert heading == ["split", "graphs", "classes", "size", "sd", "domains", "unseen", "nearest", "AUROC"]
    again = [line.rpartition(",")[0] + ",2050" for line in data.read_text().splitlines()[1:21]]
    data.write_text(data.read_text() + "\n".join(again))
    assert "in training: rows" in command(*words, "--by", "column:year").out  # twins that the years part


def test_a_split_needs_no_target(command: Command, data: Path) -> None:
    report = command("split", data, "--smiles", "mol", "--by", "column:year", "--seed", "2", "--json").json
    assert (report["by"], report["left_out"], report["picture"]) == ("year", 1, None)
    assert report["parts"]["test"]["classes"] is None
    assert report["sentence"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--by", "scafold"], "did you mean scaffold"),
        (["--by", "column:yaer"], "did you mean 'year'"),
        (["--target", "z"], "no column 'z'"),
        (["--smiles", "smiles"], "no column 'smiles'"),
        (["-o", "none/split.json"], "none/split.json"),
        (["--picture", "split.txt"], "suffix"),
        (["--target", "y", "--by", "column:y"], "y"),
        (["-o", "mine.csv"], "would overwrite"),
        (["-o", "./linked.csv"], "would overwrite"),
        (["--picture", "mine.csv"], "would overwrite"),
    ],
)
def test_wrong_words_get_one_sentence(command: Command, data: Path, arguments: list[str], word: str) -> None:
    before = data.read_text()
    data.with_name("linked.csv").symlink_to(data)
    given = ["split", str(data), *([] if "--smiles" in arguments else ["--smiles", "mol"]), *arguments]
    answer = command(*given)
    assert (answer.code, answer.out) == (2, "")
    assert word in answer.err
    assert "Traceback" not in answer.err
    assert data.read_text() == before


def test_each_cell_and_line_is_the_one_its_head_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A made-up report in which no number occurs twice."""
    part = {
        "graphs": 60, "classes": [0.11, 0.12], "mean_size": 22.5, "size_difference": -1.25, "domains": 7,
        "unseen_domains": 0.35, "nearest_mean": 0.45, "nearest_median": 0.46, "auroc": 0.55, "also_in_train": 6,
    }  # fmt: skip
    parts = {split: {**part, "graphs": 60 + place} for place, split in enumerate(SPLIT_NAMES)}
    parts["train"] |= dict.fromkeys(("nearest_mean", "nearest_median", "auroc", "also_in_train"))
    report = {
        "file": "mine.csv", "by": "scaffold", "parts": parts, "class_names": {"a": ["off", "on"], "b": ["x", "y"]},
        "left_out": 9, "rejected": [{}] * 4, "rejected_sentence": "Four.", "notes": ["a note"], "sentence": "Far.",
        "split": "out.json", "given": [], "picture": "out.png",
    }  # fmt: skip
    _show(report)
    out = capsys.readouterr().out
    shown = cells(out)
    for place, name in enumerate(SPLIT_NAMES.values()):
        known = {"nearest": "0.45", "AUROC": "0.55", "in training": "6"}
        assert shown[name] == {
            "graphs": str(60 + place), "classes": "0.11 0.12", "size": "22.50", "sd": "-1.25", "domains": "7",
            "unseen": "0.35", **(known if place else dict.fromkeys(known, "-")),
        }  # fmt: skip
    for fact in ("on in a, y in b", "5 more rows", "Four.", "Far.", "a note", "out.json", "out.png"):
        assert fact in out
    assert "mine.csv split by scaffold" in out


def test_a_saved_split_is_refused_for_the_same_rows_in_another_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    smiles, labels = molecules()
    lines = [f"{one},{label}" for one, label in zip(smiles, labels, strict=True)]
    data, moved, few = tmp_path / "data.csv", tmp_path / "moved.csv", tmp_path / "few.csv"
    data.write_text("\n".join(["smiles,y", *lines]))
    moved.write_text("\n".join(["smiles,y", lines[-1], *lines[:-1]]))
    few.write_text("\n".join(["smiles,y", *lines[:-1], "CCCCCCCC,0"]))  # one other molecule
    split = tmp_path / "split.json"
    assert cli.run(["split", str(data), "-t", "y", "--by", "scaffold", "-o", str(split)]) == 0
    model = ["-t", "y", "--method", "linear", "--split", f"file:{split}", "--no-report", "-q"]
    assert cli.run(["fit", str(data), *model, "-o", str(tmp_path / "a"), "--runs", str(tmp_path / "runs")]) == 0
    assert cli.run(["fit", str(few), *model, "-o", str(tmp_path / "b"), "--runs", str(tmp_path / "runs")]) == 0
    capfd.readouterr()
    assert cli.run(["fit", str(moved), *model, "-o", str(tmp_path / "c"), "--runs", str(tmp_path / "runs")]) == 2
    assert "is of other rows" in capfd.readouterr().err
