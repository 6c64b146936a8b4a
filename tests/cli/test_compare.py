"""``goodformer compare`` with real processes: a failing run, going on, finished runs, an interrupt."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goodformer.data.acquire import PublicFile
from goodformer.engine.store import Run
from goodformer.report import compare
from tests.cli.conftest import Command

SETTINGS = ["dataset.graphs=150", "model.dim=8"]
TINY = ["--dataset", "good-motif", "--domain", "basis", "--seeds", "1", *(w for s in SETTINGS for w in ("--set", s))]
BOTH = [*TINY, "--set", "training.epochs=1", "--methods", "erm,gsat"]


def test_a_failing_run_stops_no_other_and_goes_on_later(command: Command, tmp_path: Path) -> None:
    plan = compare.plan({"name": "good-motif"}, "erm,gsat", 1, overrides=[*SETTINGS, "training.epochs=1"])
    erm, gsat = (tmp_path / "runs" / config.folder_name for config in plan.configs.values())
    gsat.parent.mkdir()
    gsat.write_text("in the way")
    answer = command("compare", *BOTH)
    assert answer.code == 1
    assert "failed" in answer.out
    assert f"cannot create folder {gsat.relative_to(tmp_path)}" in answer.out
    assert "2 of 2 runs (1 failed)" in answer.err
    before = (erm / "summary.json").read_bytes()

    gsat.unlink()
    answer = command("compare", *BOTH, "--quiet", "--export", "made.jsonl", "--predictions", "-o", "deep/it.md")
    assert (answer.code, answer.err) == (0, "page: runs/report.html\nwritten to deep/it.md\n")
    assert "GSAT" in (tmp_path / "runs" / "report.html").read_text()
    assert len(list((tmp_path / "predictions").iterdir())) == 2
    assert (erm / "summary.json").read_bytes() == before
    assert Run(gsat).finished
    assert "| GSAT | " in (tmp_path / "deep" / "it.md").read_text()
    assert "Precision@10" in answer.out

    kept = ["--table-only", "--runs", "none", "--records", "made.jsonl", "--against", "erm", "--pair", "erm", "gsat"]
    table = command("compare", *BOTH, *kept, "--format", "json")
    assert table.code == 0
    rows = {row["row"]: row for row in table.json["rows"]}
    gain = rows["gsat"]["difference"]
    expected = Run(gsat).summary["ood_test"] - json.loads(before)["ood_test"]
    assert gain["mean"] == pytest.approx(100 * expected)
    assert gain["low"] <= gain["mean"] <= gain["high"]
    assert table.json["pairs"][0]["difference"]["mean"] == pytest.approx(-gain["mean"])
    assert "difference to ERM" in command("compare", *BOTH, *kept).out
    assert rows["erm"]["ood_test"]["mean"] == pytest.approx(100 * json.loads(before)["ood_test"])
    assert rows["gsat"]["precision_at_10"]["mean"] == pytest.approx(Run(gsat).summary["precision_at_10"])
    assert (rows["erm"]["cost"], rows["erm"]["precision_at_10"]) == (1, None)
    assert rows["gsat"]["paper"]["ood_test"] == {"mean": 55.13, "std": 5.41}


def test_finished_runs_are_not_trained_again(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here those of a file of records, without any run folder."""
    plan = compare.plan({"name": "good-motif"}, "erm", 1, overrides=SETTINGS)
    config = plan.configs["erm", 0]
    line = {"id": config.id, "config": config.to_dict(), "ood_test": 0.5, "metric": "accuracy"}
    (tmp_path / "made.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setattr("goodformer.executors.local.Worker", None)
    monkeypatch.setattr("goodformer.data.load_benchmark", None)
    answer = command("compare", *TINY, "--methods", "erm", "--records", "made.jsonl")
    assert answer.code == 0, answer.err
    assert "1 of 1" in answer.err
    assert "50.00" in answer.out


def test_nothing_run_yet(command: Command) -> None:
    answer = command("compare", "--dataset", "sp-motif", "--table-only", "--set", "dataset.bias=0.9")
    assert answer.code == 0
    assert "not run" in answer.out
    assert "60.35 ±5.80" in answer.out
    latex = command("compare", "--dataset", "good-motif", "--table-only", "--format", "latex").out
    assert latex.startswith(r"\begin{table}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "gsatt"], "did you mean gsat"),
        (["--budget", "nope"], "goodformer: unknown budget 'nope'; accepted: compare, full, medium, quick"),
        (["--dataset", "nope"], "goodformer: unknown data set 'nope'; accepted: bace, bbbp, drugood, esol, good-hiv"),
        (["--dataset", "good-motiv"], "did you mean good-motif? (accepted: bace"),
        (
            ["--shift", "nope"],
            "set good-motif: shift = 'nope' is not accepted; did you mean none? (accepted: concept, covariate, none)",
        ),
        (["--shift", "concep"], "did you mean concept? (accepted: concept, covariate, none)"),
        (["--set", "model.dims=8"], "row erm"),
        (["--records", "none.jsonl"], "there is no none.jsonl"),
        (["--suite", "molecules"], "either --dataset or --suite"),
        (["--against", "nope"], "unknown row 'nope'"),
        (["--format", "word"], "'word'"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_mistakes_are_refused(command: Command, words: list[str], sentence: str) -> None:
    answer = command("compare", "--dataset", "good-motif", "--methods", "erm", *words)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1


def test_data_that_are_not_at_hand_are_refused_before_training(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goodformer.data.benchmarks.hiv.SOURCE", PublicFile("hiv/none.csv", "", None, "the collection"))
    monkeypatch.setattr("goodformer.executors.local.Worker", None)
    answer = command("compare", "--dataset", "good-hiv", "--methods", "erm,irm")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("goodformer: none.csv ")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
    assert command("compare", "--dataset", "good-hiv", "--methods", "erm", "--table-only").code == 0


def test_the_table_alone_is_read_from_results_by_default(command: Command, tmp_path: Path) -> None:
    config = compare.plan({"name": "good-motif"}, "erm", 1, overrides=SETTINGS).configs["erm", 0]
    line = {"id": config.id, "config": config.to_dict(), "ood_test": 0.5, "metric": "accuracy"}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "made.jsonl").write_text(json.dumps(line) + "\n")
    words = ["compare", *TINY, "--methods", "erm", "--table-only"]
    assert "50.00" in command(*words).out
    (tmp_path / "none.jsonl").write_text("")
    assert "50.00" not in command(*words, "--records", "none.jsonl").out


def test_the_files_name_chooses_the_format(command: Command, tmp_path: Path) -> None:
    words = ["compare", "--dataset", "good-motif", "--methods", "erm", "--table-only"]
    begin = {"it.tex": r"\begin{table}", "it.md": "### good-motif", "it.txt": "good-motif / basis", "it.json": "{"}
    for name, text in begin.items():
        answer = command(*words, "-o", name)
        assert (answer.code, answer.err) == (0, f"written to {name}\n")
        assert answer.out.startswith("good-motif / basis")  # for people, whatever the file holds
        assert (tmp_path / name).read_text().startswith(text)
    assert command(*words, "-o", "as.tex", "--format", "markdown").code == 0
    assert (tmp_path / "as.tex").read_text().startswith("###")
    answer = command(*words, "-o", "it.csv")
    assert (answer.code, answer.out) == (2, "")
    assert all(word in answer.err for word in ("it.csv", ".txt, .md, .tex, .json", "--format"))
    answer = command(*words, "--format", "latex", "-o", "-")
    assert (answer.out.startswith(r"\begin{table}"), answer.err) == (True, "")
    assert not (tmp_path / "-").exists()


def test_the_report_as_json(command: Command) -> None:
    words = ["compare", "--dataset", "good-motif", "--methods", "erm,irm", "--table-only"]
    told = command(*words, "--json", "-o", "it.txt").json
    assert told == command(*words, "--format", "json").json
    assert [row["row"] for row in told["rows"]] == ["erm", "irm"]


def test_an_interrupted_comparison_goes_on(command: Command, tmp_path: Path) -> None:
    words = ["compare", *TINY, "--methods", "erm", "--set", "training.epochs=60", "--quiet"]
    process = subprocess.Popen([sys.executable, "-m", "goodformer", *words], cwd=tmp_path, stderr=subprocess.PIPE)
    path = wait_for_epochs(tmp_path, 1, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"stopped" in err
    with Run(path.parent).locked():  # no process holds it any more
        kept = path.read_text().splitlines()
    assert 1 < len(kept) < 60
    assert command(*words).code == 0
    assert path.read_text().splitlines()[: len(kept)] == kept
    assert Run(path.parent).finished


def wait_for_epochs(folder: Path, more_than: int, process: subprocess.Popen[bytes]) -> Path:
    """Wait until the run in the folder has recorded more epochs."""
    for _ in range(1200):
        found = list(folder.glob("runs/*/epochs.jsonl"))
        if found and len(found[0].read_text().splitlines()) > more_than:
            return found[0]
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("no epoch in two minutes")


def test_how_far_things_are_in_one_line() -> None:
    from goodformer.cli.output import summary
    from goodformer.executors.board import Status

    status = Status(runs=4, ended=2, failed=1, epochs=40, epochs_done=20, running=(), seconds_left=50 * 3600.0)
    assert summary(status) == "2 of 4 runs (1 failed), 20 of 40 epochs, about 2 d 2 h left"


def test_help_names_every_budget(command: Command) -> None:
    from goodformer.cli import options
    from goodformer.config.presets import budgets

    assert set(options.BUDGETS.replace(" or ", ", ").split(", ")) == set(budgets())
    for name in ("compare", "train", "reproduce"):
        said = " ".join(command(name, "--help").out.split())
        assert all(word in said for word in budgets()), name


def test_a_suite_without_runs(command: Command) -> None:
    answer = command("compare", "--suite", "rules", "--methods", "erm", "--against", "gsat", "--table-only")
    assert answer.code == 0, answer.err
    assert "amine and halogen" in answer.out
    assert "not run" in answer.out
    assert "not kept" in answer.out
    refused = command("compare", "--suite", "rules", "--domain", "size")
    assert (refused.code, "leave them out" in refused.err) == (2, True)
    assert command("compare").code == 2
