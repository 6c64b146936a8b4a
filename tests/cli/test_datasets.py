"""``goodformer datasets``: the list and the cards."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from goodformer.cli import datasets
from goodformer.data import DATASETS
from goodformer.data.acquire import DataNotFound
from goodformer.spec import SPLIT_NAMES, SPLITS
from tests.cli.conftest import Command
from tests.cli.test_train import cells


def test_list_tells_domains_and_metric_without_loading(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goodformer.data.load_benchmark", None)
    rows = {row["name"]: row for row in command("datasets", "--json").json}
    assert set(rows) == set(DATASETS)
    assert rows["good-motif"]["domains"] == "basis, size"
    assert rows["good-motif"]["task"] == "3 classes, accuracy"
    text = command("datasets").out
    (line,) = [line for line in text.splitlines() if line.startswith("good-motif ")]
    facts = [rows["good-motif"][key] for key in ("name", "about", "domains", "task")]
    assert " ".join(line.split()) == " ".join(facts)
    shown = " ".join(text.split())
    assert "goodformer datasets show NAME" in shown
    assert "accuracy" in shown


def test_card_tells_what_is_there(command: Command) -> None:
    card = command("datasets", "show", "good-motif", "--set", "graphs=200", "--set", "domain=size", "--json").json
    assert set(card["statistics"]) == set(card["seen_in_training"]) == set(SPLITS)
    assert card["domain"] == "size"
    assert "MIT" in card["sections"]["Licence"]
    assert card["picture"] is None
    assert sum(row["graphs"] for row in card["by_domain"]) == 200
    assert [row["domain"] for row in card["by_domain"] if row["split"] == "test"] == ["70"]


def test_the_cards_of_ones_own_data_say_how_to_give_them(command: Command) -> None:
    table, memory = command("datasets", "show", "table"), command("datasets", "show", "memory")
    assert (table.code, memory.code) == (0, 0)
    assert "goodformer datasets show table --set path=my.csv --set target=active" in table.out
    assert "GraphClassifier().fit(graphs, labels)" in memory.out
    assert "path" in [row["name"] for row in command("datasets", "show", "table", "--json").json["settings"]]
    for words in (["--set", "path=my.csv"], ["--picture", "card.png"]):
        answer = command("datasets", "show", "table", *words)
        assert answer.code == 2
        assert "--set target=active" in answer.err
    rows = "".join(f"{'C' * size},{size % 2}\n" for size in range(1, 41))
    Path("my.csv").write_text(f"smiles,active\n{rows}")
    card = command("datasets", "show", "table", "--set", "path=my.csv", "--set", "target=active", "--json").json
    assert sum(part["graphs"] for part in card["statistics"].values()) == 40


def test_a_card_without_its_file_tells_the_rest(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def gone(*_: object) -> None:
        raise DataNotFound("HIV.csv is not at hand; put it there.")

    monkeypatch.setattr("goodformer.data.benchmarks.hiv.obtain", gone)
    answer = command("datasets", "show", "good-hiv")
    assert answer.code == 0
    for word in ("Licence", "Source", "scaffold", "cannot be shown: HIV.csv is not at hand"):
        assert word in answer.out
    assert command("datasets", "show", "good-hiv", "--picture", "card.png").code == 2


def test_card_for_people_has_everything(command: Command, tmp_path: Path) -> None:
    answer = command("datasets", "show", "good-motif", "--set", "graphs=200", "--picture", "deep/card.png")
    assert answer.code == 0, answer.err
    for words in ("Licence", "Source", "what it does", "balance %", "wheel", "How it differs", "deep/card.png"):
        assert words in answer.out
    assert "`" not in answer.out
    assert imread(tmp_path / "deep" / "card.png").shape[1] == 1200


def test_a_card_fits_a_narrow_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = command("datasets", "show", "sp-motif", "--set", "graphs=200").out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("split "))
    names = list(SPLIT_NAMES.values())
    rows = [name for line in lines[start:] for name in names if line.strip().startswith(f"{name} ")]
    assert rows[:5] == names
    cells = next(line.split() for line in lines[start:] if line.strip().startswith("OOD test "))
    assert len([cell for cell in cells if cell == "/"]) == 2  # one line per split: no cell was folded


def test_each_cell_of_a_card_stands_under_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    """A made-up card in which no number occurs twice in a row."""
    row = {"graphs": 110, "mean_nodes": 21.4, "max_nodes": 63, "mean_edges": 32.6, "class_balance": [0.1, 0.2, 0.7]}
    statistics = {
        split: {**row, "graphs": 110 + place, "domains": dict.fromkeys("abcd"[place:], 1)}
        for place, split in enumerate(SPLITS[:4])
    }
    statistics["test"] = {**row, "domains": {"number": 19, "largest": 9, "smallest": 1}}
    task = {"kind": "multiclass", "outputs": 3, "metric": "accuracy"}
    seen = dict(zip(SPLITS, (1.0, 0.9, 0.8, 0.25, None), strict=True))
    about = {"domain": "basis", "shift": "concept", "task": task, "num_envs": 13}
    datasets._show_splits({**about, "statistics": statistics, "seen_in_training": seen})
    shown = cells(capsys.readouterr().out)
    balance = "10 / 20 / 70"
    for place, (split, name) in enumerate(list(SPLIT_NAMES.items())[:4]):
        assert shown[name] == {
            "graphs": str(110 + place), "nodes": "21", "max": "63", "edges": "33", "balance %": balance,
            "domains": str(4 - place), "seen %": f"{100 * seen[split]:.3g}",
        }  # fmt: skip
    assert (shown["OOD test"]["domains"], shown["OOD test"]["seen %"]) == ("19", "-")
    datasets._show_splits({**about, "statistics": statistics, "seen_in_training": seen})
    title = capsys.readouterr().out.splitlines()[0]
    for fact in ("domain basis", "shift concept", "3 classes", "13 training environment"):
        assert fact in title
    datasets._show_few([{"split": "val", "domain": "star", "graphs": 17, "class_balance": [0.1, 0.2, None]}])
    few = cells(capsys.readouterr().out)
    assert few == {"OOD validation": {"domain": "star", "graphs": "17", "balance %": "10 / 20 / -"}}
    ends = {"largest": {"domain": "big", "graphs": 45}, "smallest": {"domain": "tiny", "graphs": 3}}
    many = {"domains": 31, **ends, "counted": 12, "balance_quartiles": [[0.1, 0.2, 0.3]]}
    datasets._show_many({"test": many, "val": {"domains": 0}})
    over = cells(capsys.readouterr().out)
    assert over["OOD test"] == {
        "domains": "31", "largest": "big: 45", "smallest": "tiny: 3", "counted": "12", "quartiles %": "10 / 20 / 30"
    }  # fmt: skip
    assert list(over["OOD validation"].values()) == ["0", "-", "-", "0", "-"]


def test_many_domains_are_summed_up(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from goodformer.data import load_benchmark

    bench = load_benchmark("good-motif", graphs=300)
    for graphs in bench.splits.values():
        graphs.graph["domain"] = torch.arange(len(graphs)) % 11 * (torch.arange(len(graphs)) % 3 > 0)
    monkeypatch.setattr("goodformer.data.load_benchmark", lambda name, **settings: bench)
    card = command("datasets", "show", "good-motif", "--json").json
    assert card["by_domain"] is None
    assert card["over_domains"]["train"]["largest"]["domain"] == "wheel"
    shown = command("datasets", "show", "good-motif").out
    assert "quartiles" in shown
    assert " 20 " in shown


def test_a_wrong_picture_is_refused_before_loading(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goodformer.data.load_benchmark", None)
    answer = command("datasets", "show", "good-motif", "--picture", "card.gif")
    assert answer.code == 2
    assert all(word in answer.err for word in ("card.gif", ".png", ".pdf", ".svg"))
    assert answer.err.count("\n") <= 2
