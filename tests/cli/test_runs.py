"""``goodformer runs``: the list, one run, export, tables; and commands that read records without torch."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from goodformer.config.presets import configure
from tests.cli.conftest import Command

CONFIG = configure({"name": "good-motif", "domain": "size"}, "erm", "gin", budget="compare", seed=7)
SUMMARY = {"id_test": 0.91, "ood_val": 0.82, "ood_test": 0.73, "precision_at_10": 0.64}
SPLITS = {"train": 0.95, "id_val": 0.94, "id_test": 0.91, "val": 0.82, "test": 0.73}


def made(root: Path, seed: int = 7, finished: bool = True) -> Path:
    """The folder of a run with one epoch, every number different."""
    config = CONFIG.with_seed(seed)
    folder = root / config.folder_name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    epoch: dict[str, Any] = {"epoch": 1, "loss": {"total": 1642.3}, "seconds": 12.5}
    epoch |= {split: {"accuracy": value} for split, value in SPLITS.items()}
    (folder / "epochs.jsonl").write_text(json.dumps(epoch) + "\n")
    if finished:
        names = {"dataset": "good-motif", "domain": "size", "shift": "covariate", "method": "erm", "model": "gin"}
        more = {"preset": "default", "budget": "compare", "epochs": 4, "selection": "ood_val", "train_graphs": 2000}
        more |= {"seed": seed, "selected_epoch": 1, "metric": "accuracy", "splits": {}}
        record = {"id": config.id, **names, **more, **SUMMARY, "config": config.to_dict(), "seconds_per_epoch": 12.5}
        (folder / "summary.json").write_text(json.dumps(record))
    return folder


def cells(text: str, first: str) -> list[dict[str, str]]:
    """The rows of the printed table whose first heading is given, by their headings."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.split()[:1] == [first])
    spans, end = [], 0
    for word in lines[start + 1].split("  "):
        spans.append((end, end + len(word)))
        end += len(word) + 2
    heads = [lines[start][a:b].strip() for a, b in spans]
    rows = []
    for line in lines[start + 2 :]:
        if not line.strip():
            break
        rows.append(dict(zip(heads, (line[a:b].strip() for a, b in spans), strict=True)))
    return rows


def test_the_list_shows_every_number_under_its_heading(command: Command, tmp_path: Path) -> None:
    folder, other = made(tmp_path / "runs"), made(tmp_path / "runs", 8, finished=False)
    for path, second in ((folder, 120.5), (other, 120.0)):
        for file in path.iterdir():
            os.utime(file, (second, second))
    done, begun = cells(command("runs").out, "id")
    assert done.pop("changed") == datetime.fromtimestamp(120).isoformat(" ", "minutes")  # the latest comes first
    assert done == {
        "id": CONFIG.id,
        "data set": "good-motif size covariate",
        "method on model": "erm on gin",
        "seed": "7",
        "epochs": "1",
        "metric": "accuracy",
        "ID test": "0.910",
        "OOD test": "0.730",
        "Precision@10": "0.640",
    }
    assert (begun["seed"], begun["epochs"], begun["OOD test"]) == ("8", "1/4", "-")
    rows = command("runs", "list", "--json").json
    assert (rows[0]["folder"], rows[0]["finished"]) == (str(folder.relative_to(tmp_path)), True)
    assert rows[0]["ood_val"] == 0.82


def test_one_run_shows_settings_epochs_and_summary(command: Command, tmp_path: Path) -> None:
    made(tmp_path / "runs")
    text = command("runs", "show", CONFIG.id).out
    (epoch,) = cells(text, "epoch")
    assert epoch == {
        "epoch": "1",
        "loss": "1,642",
        "training": "0.950",
        "ID validation": "0.940",
        "ID test": "0.910",
        "OOD validation": "0.820",
        "OOD test": "0.730",
        "seconds": "12.500",
    }
    assert {row["summary"]: row[""] for row in cells(text, "summary")}["ood_test"] == "0.730"
    shown = command("runs", "show", CONFIG.id[:4], "--json").json
    assert (shown["config"]["seed"], shown["summary"]["ood_test"], len(shown["epochs"])) == (7, 0.73, 1)


def test_a_run_shows_the_epochs_of_which_little_is_recorded(command: Command, tmp_path: Path) -> None:
    (made(tmp_path / "runs") / "epochs.jsonl").write_text('{"epoch": 1}\n{"epoch": 2, "loss": {"total": 3.0}}\n')
    rows = cells(command("runs", "show", CONFIG.id).out, "epoch")
    assert [(row["epoch"], row["loss"], row["OOD test"], row["seconds"]) for row in rows] == [
        ("1", "-", "-", "-"),
        ("2", "3.000", "-", "-"),
    ]


@pytest.mark.parametrize("name", ["dataset", "method", "model"])
def test_a_record_without_a_name_is_not_shown_in_a_table(command: Command, name: str) -> None:
    names = {"id": "1", "dataset": "good-motif", "method": "erm", "model": "gin"}
    Path("results").mkdir()
    for record, code in ((names, 0), ({key: value for key, value in names.items() if key != name}, 2)):
        Path("results/all.jsonl").write_text(json.dumps(record) + "\n")
        answer = command("runs", "table")
        assert (answer.code, answer.err.count("\n")) == (code, code // 2)


def test_runs_are_exported_once_each_and_shown_as_tables(command: Command, tmp_path: Path) -> None:
    made(tmp_path / "runs")
    made(tmp_path / "runs", 8)
    for _ in range(2):
        assert command("runs", "export", "-o", "results/all.jsonl").code == 0
    assert len((tmp_path / "results" / "all.jsonl").read_text().splitlines()) == 2
    assert json.loads(command("runs", "export", CONFIG.id).out)["id"] == CONFIG.id
    text = command("runs", "table").out
    assert "### good-motif / size / covariate, 2000 training graphs" in text
    assert "| erm | 73.00 ±0.00 | 53.46 ±4.08 | 91.00 ±0.00 | 82.00 ±0.00 |" in text


def test_a_damaged_run_does_not_hide_the_others(command: Command, tmp_path: Path) -> None:
    whole, damaged = (made(tmp_path / "runs", seed) for seed in (7, 8))
    (damaged / "summary.json").write_text("{")
    answer = command("runs", "--json")
    assert answer.code == 0
    assert [row["folder"] for row in answer.json] == [str(whole.relative_to(tmp_path))]
    assert damaged.name in answer.err


def test_a_folder_of_runs_that_does_not_exist_is_refused(command: Command) -> None:
    for words in (["runs"], ["runs", "list"], ["runs", "export"]):
        answer = command(*words, "--runs", "nope")
        assert (answer.code, answer.out) == (2, "")
        assert "nope" in answer.err
    Path("empty").mkdir()
    answer = command("runs", "--runs", "empty")
    assert answer.code == 0
    assert "empty" in answer.out
    assert command("runs").code == 0  # the default folder need not exist


COMMANDS = [
    ["runs"],
    ["runs", "table"],
    ["reproduce"],
    ["reproduce", "table-main"],
    ["compare", "--dataset", "good-motif", "--domain", "size", "--methods", "erm", "--table-only"],
    [*("compare", "--dataset", "good-motif", "--domain", "size", "--methods", "erm on gin", "--seeds", "1")],
]


@pytest.mark.usefixtures("command")
def test_commands_that_read_records_import_neither_torch_nor_rich(tmp_path: Path) -> None:
    """The last one has nothing left to train. A first round fills the catalogue of settings in the cache."""
    made(tmp_path / "runs")
    made(tmp_path / "runs", 0)
    code = (
        "import sys\nfrom goodformer import cli\n"
        f"for words in {COMMANDS}:\n"
        "    assert cli.run(words) == 0, words\n"
        "    assert len(sys.argv) > 1 or not {'torch', 'rich'} & set(sys.modules), words\n"
    )
    for more in (["first"], []):
        done = subprocess.run([sys.executable, "-c", code, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
