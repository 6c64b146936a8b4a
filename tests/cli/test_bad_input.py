"""Bad input gets one sentence on stderr and exit code 2, and never costs a finished run."""

import json
import os
import shutil
from pathlib import Path

import pytest

from goodformer import cli
from goodformer.data.acquire import VARIABLE
from tests.cli.conftest import TINY, Answer, Command


def refused(answer: Answer, *words: str) -> None:
    """One line on stderr that holds the words, nothing on stdout, exit code 2."""
    assert answer.code == 2, answer
    assert answer.out == ""
    lines = [line for line in answer.err.splitlines() if line.startswith("goodformer: ")]
    assert len(lines) == 1
    assert "Traceback" not in answer.err
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "good-motf", "--method", "erm"], ["good-motf", "did you mean good-motif"]),
        (["train", "good-motif", "--method", "em"], ["did you mean erm"]),
        (["train", "good-motif", "--method", "erm", "--model", "gsp"], ["did you mean gps"]),
        (["train", "good-motif", "--method", "erm", "--preset", "defualt"], ["did you mean default"]),
        (["train", "good-motif", "--method", "erm", "--budget", "hug"], ["unknown budget", "accepted: compare, full"]),
        (["train", "good-motif", "--method", "erm", "--shift", "nope"], ["accepted: concept, covariate, none"]),
        (["train", "nope"], ["accepted: bace, bbbp, drugood, esol, good-hiv, good-motif"]),
        (["train", "good-motif", "--method", "erm", "--set", "budget=hug"], ["unknown budget"]),
        (["train", "good-motif", "--method", "erm", "--domain", "sice"], ["domain", "basis"]),
        (["train", "sp-motif", "--method", "erm", "--domain", "basis"], ["setting", "domain"]),
        (["train", "good-motif", "--method", "erm", "--set", "training.epoch=3"], ["did you mean epochs"]),
        (["train", "good-motif", "--method", "erm", "--set", "model.dim=0"], ["dim = 0"]),
        (["train", "good-motif", "--method", "erm", "--set", "training.batch_size=many"], ["batch_size", "many"]),
        (["train", "good-motif", "--method", "erm", "--set", "nonsense"], ["name=value"]),
        (["train", "good-motif", "--method", "erm", "--device", "abacus"], ["abacus", "cpu"]),
        (["train", "good-motif", "--method", "goodformer", "--model", "gin"], ["goodformer", "model"]),
        (["train", "good-motif", "--epochs", "0"], ["--epochs"]),
        (["train", "good-motif", "--epochs", "few"], ["--epochs", "integer"]),
        (["train"], ["no data set"]),
        (["train", "--config", "none.yaml"], ["none.yaml"]),
        (["train", "--sed", "1"], ["--seed", "goodformer train --help"]),
        (["trian"], ["train", "--help"]),
        (["evaluate", "nowhere"], ["nowhere"]),
        (["evaluate"], ["RUN"]),
        (["runs", "show", "nowhere"], ["nowhere"]),
        (["runs", "export", "nowhere"], ["nowhere"]),
        (["runs", "table", "--write", "page.md"], ["page.md"]),
        (["runs", "table", "--results", "nope"], ["no folder nope", "goodformer runs export"]),
        (["runs", "table", "--results", "nope", "--write", "page.md"], ["no folder nope"]),
        (["runs", "table", "--results", "."], [". ", "no record", "goodformer runs export"]),
        (["methods", "show", "gpss"], ["did you mean gps"]),
        (["compare", "--dataset", "table"], ["--set dataset.path=PATH --set dataset.target=TARGET"]),
        (["train", "table", "--set", "dataset.path=a.csv"], ["target is missing", "--set dataset.target=TARGET"]),
        (["fti"], ["'fit'? See goodformer --help."]),
        (["datasets", "show", "good-motiv"], ["did you mean good-motif"]),
        (["datasets", "show", "good-motif", "--set", "graphs=3"], ["graphs = 3"]),
    ],
)
def test_wrong_words(command: Command, arguments: list[str], words: list[str]) -> None:
    refused(command(*arguments), *words)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "YAML"),
        ("- 1", "list"),
        ("modle: gin", "did you mean model"),
        ("model: 3", "key: value"),
        ("model: {name: 3}", "has the name 3"),
        ("preset: 3", "unknown preset"),
        ("\x00", "YAML"),
    ],
)
def test_wrong_settings_file(command: Command, tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    refused(command("train", "good-motif", "--method", "erm", "--config", "mine.yaml"), word)


@pytest.mark.parametrize("arguments", [["--split", "tset"], ["--weights", "bset"]])
def test_wrong_words_about_a_run(command: Command, erm: Path, arguments: list[str]) -> None:
    refused(command("evaluate", erm, *arguments), "did you mean")


@pytest.mark.parametrize("name", ["evaluate", "uncertainty"])
def test_a_fitted_model_is_no_run(command: Command, erm: Path, name: str) -> None:
    refused(command(name, erm / "best"), "is a fitted model", "goodformer predict", "evaluate")


def test_ambiguous_name(command: Command, runs: Path) -> None:
    refused(command("evaluate", "good-motif", "--runs", runs), "2 runs")


@pytest.mark.parametrize(
    "arguments", [["train", "good-motif", "--method", "erm", *TINY, "--runs"], ["explain", "RUN", "-o"]]
)
def test_folder_that_cannot_be_written(command: Command, tmp_path: Path, invariant: Path, arguments: list[str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    named = [str(invariant) if word == "RUN" else word for word in arguments]
    refused(command(*named, tmp_path / "file" / "deep"), "file")
    assert (tmp_path / "file").read_text() == "not a folder"


def truncate(path: Path) -> None:
    """Cut a file in half."""
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (lambda run: shutil.rmtree(run / "best"), "weights"),
        (lambda run: (run / "best" / "weights.safetensors").unlink(), "weights.safetensors"),
        (lambda run: truncate(run / "best" / "weights.safetensors"), "truncated"),
        (lambda run: (run / "best" / "weights.safetensors").write_bytes(b"x" * 100), "another"),
        (lambda run: truncate(run / "best" / "model.json"), "model.json"),
        (lambda run: (run / "best" / "model.json").write_text('{"format": "other"}'), "not written by goodformer"),
        (lambda run: truncate(run / "config.json"), "config.json"),
        (lambda run: (run / "config.json").write_text("[]"), "config"),
    ],
)
def test_damaged_run(command: Command, erm: Path, tmp_path: Path, harm: object, word: str) -> None:
    shutil.copytree(erm, tmp_path / "run")
    harm(tmp_path / "run")  # type: ignore[operator]
    refused(command("evaluate", "run"), word)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("", "mine.jsonl"),
        ("{", "line 1"),
        ("[1]", "not a graph"),
        ('{"edges": [[0, 1]], "nodes": 2}', "did you mean num_nodes"),
        ('{"edges": [], "num_nodes": 0}', "at least one node"),
        ('{"edges": []}', "at least one node"),
        ('{"edges": [[0, 7]], "num_nodes": 3}', "node 7"),
        ('{"edges": [[0, -1]]}', "node number"),
        ('{"edges": [[0, 1.5]]}', "node number"),
        ('{"edges": [0, 1]}', "pairs"),
        ('{"edges": [[0, 1]], "num_nodes": 2, "x": [[1.0]]}', "rows of x"),
        ('{"edges": [[0, 1]], "x": [[NaN], [1.0]]}', "NaN"),
        ('{"edges": [[0, 1]], "x": [["a"], ["b"]]}', "numbers"),
    ],
)
def test_wrong_graphs(command: Command, invariant: Path, tmp_path: Path, line: str, word: str) -> None:
    (tmp_path / "mine.jsonl").write_text(line + "\n")
    refused(command("explain", invariant, "mine.jsonl"), word)


def test_a_data_folder_that_is_not_there(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "before")
    refused(command("--data-dir", "nowhere", "datasets", "list"), "no folder nowhere")
    assert os.environ[VARIABLE] == "before"
    (tmp_path / "here").mkdir()
    assert command("--data-dir", "here", "datasets", "list").code == 0
    assert os.environ[VARIABLE] == "here"


def test_missing_graph_file(command: Command, invariant: Path) -> None:
    refused(command("explain", invariant, "none.jsonl"), "none.jsonl")


def test_damaged_records(command: Command, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.jsonl").write_text("{}\n")
    refused(command("runs", "table"), "a.jsonl")


def test_without_results_a_newcomer_is_told_how_to_get_some(command: Command) -> None:
    answer = command("runs", "table")
    assert (answer.code, "goodformer runs export" in answer.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "writer"),
    [
        (["uncertainty", "--records"], "goodformer uncertainty RUN --export FILE"),
        (["reproduce", "--records"], "goodformer runs export -o FILE"),
        (["runs", "table", "--results"], "goodformer runs export -o FILE"),
    ],
)
@pytest.mark.parametrize("text", ["# A page\n", '{"edges": [[0, 1]]}\n'])
def test_a_file_of_something_else_is_no_file_of_records(
    command: Command, tmp_path: Path, arguments: list[str], writer: str, text: str
) -> None:
    (tmp_path / "page.md").write_text(text)
    answer = command(*arguments, "page.md")
    refused(answer, "page.md", "JSON", writer)
    assert "remove" not in answer.err  # it is the user's own


@pytest.mark.parametrize(("name", "word"), [("empty.jsonl", "no record"), ("here", "is a folder")])
def test_nothing_is_ranked_without_records(command: Command, tmp_path: Path, name: str, word: str) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "here").mkdir()
    refused(command("uncertainty", "--records", name), word, "goodformer uncertainty RUN --export FILE")


def test_records_are_not_added_to_a_file_of_something_else(command: Command, erm: Path, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# A page\n")
    answer = command("runs", "export", erm, "-o", "page.md")
    refused(answer, "page.md", "choose another file")
    assert "remove" not in answer.err
    assert (tmp_path / "page.md").read_text() == "# A page\n"


def test_a_stopped_run_is_continued_by_what_started_it(command: Command, erm: Path, tmp_path: Path) -> None:
    """That may have been fit or compare, and not train."""
    shutil.copytree(erm, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    answer = command("runs", "export", "run")
    refused(answer, "run is not finished", "the command that started it")
    shown = command("runs", "show", "run")
    assert "the command that started it" in shown.out
    assert "goodformer train" not in answer.err + shown.out


def test_a_refused_command_leaves_finished_runs_alone(command: Command, runs: Path, erm: Path) -> None:
    before = {path: path.read_bytes() for path in erm.rglob("*") if path.is_file() and path.name != ".lock"}
    refused(command("train", "good-motif", "--method", "erm", "--runs", runs, *TINY, "--set", "model.dim=-1"), "dim")
    assert before == {path: path.read_bytes() for path in before}
    assert json.loads(command("runs", "export", erm).out)["method"] == "erm"


def test_an_interrupt_says_that_the_run_goes_on(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("goodformer.engine.run.train", interrupted)
    for before in ((), ("--data-dir", ".")):
        answer = command(*before, "train", "good-motif", "--method", "erm", *TINY)
        assert answer.code == cli.INTERRUPTED == 130
        assert "epoch" in answer.err


def test_our_own_errors_keep_their_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("goodformer.engine.run.train", broken)
    with pytest.raises(ValueError, match="a bug"):
        command("train", "good-motif", "--method", "erm", *TINY)


def test_a_table_without_a_header_is_told_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("CC(=O)Oc1ccccc1C(=O)O,1\nc1ccccc1,0\n")
    refused(command("fit", tmp_path / "plain.csv", "--target", "y"), "first line looks like data")
    (tmp_path / "named.csv").write_text("IC50 (nM),C1 code\n1,2\n")
    refused(command("fit", tmp_path / "named.csv", "--target", "y"), "name the column of SMILES")


def test_two_models_do_not_share_a_page(command: Command, erm: Path) -> None:
    refused(command("report", erm / "best", erm / "best"), "two models")
