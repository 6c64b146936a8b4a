"""``goodformer reproduce``: the list, a table, training missing runs, a figure."""

import json
import re
import shlex
from pathlib import Path

import pytest

from goodformer.engine.store import Run
from goodformer.report import artefacts
from goodformer.report.artefacts import Artefact, Column, TablePlan, compared
from tests.cli.conftest import Command

TINY = {"name": "good-motif", "domain": "basis", "graphs": 150}


def tiny(budget: str, seeds: int) -> list[TablePlan]:
    comparison = compared(TINY, "gsat,goodformer", budget, seeds, ("training.epochs=1", "model.dim=16"))
    return [TablePlan("Tiny", (Column("OOD", comparison), Column("P@10", comparison, "precision_at_10")))]


def test_all_artefacts_are_listed(command: Command) -> None:
    answer = command("reproduce")
    assert answer.code == 0
    assert all(name in answer.out for name in artefacts.ARTEFACTS)
    assert "compare 0 of 4 runs and 0 of 4 run folders" in answer.out
    assert "compare 0 of 18 runs and 0 of 18 inference times" in answer.out
    assert "results" in answer.err
    assert "--records" in answer.err
    assert [row["name"] for row in command("reproduce", "--format", "json").json] == list(artefacts.ARTEFACTS)


def test_a_table_without_records(command: Command, tmp_path: Path) -> None:
    words = ["reproduce", "table-predictor", "--budget", "compare", "--dataset", "good-motif"]
    answer = command(*words)
    assert answer.code == 0
    assert "not run" in answer.out
    assert "70.66 ±9.36" in answer.out
    assert "--methods goodformer:paper,goodformer:mlp-predictor" in answer.out
    assert "goodformer reproduce table-predictor --budget compare --dataset good-motif --run" in answer.out
    assert "no estimate" in answer.out
    written = command(*words, "-o", "deep/it.tex")
    assert (written.code, written.out) == (0, answer.out)
    assert written.err.startswith("written to deep/it.tex\n")
    assert (tmp_path / "deep" / "it.tex").read_text().startswith(r"\begin{table}")
    assert command(*words, "--json").json == command(*words, "--format", "json", "-o", "-").json
    assert command(*words, "--json").json["gap"]["runs"] == 12
    assert ".tex" in command(*words, "-o", "it.png").err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table-man"], "did you mean table-main"),
        (
            ["table-main", "--budget", "nope"],
            "goodformer: unknown budget 'nope'; accepted: compare, full",
        ),
        (["table-main", "--budget", "ful"], "did you mean full? (accepted: compare, full, medium, quick"),
        (["table-main", "--methods", "gsatt"], "did you mean gsat"),
        (["table-predictor", "--dataset", "none"], "artefact 'none'; accepted: good-hiv, good-hiv/scaffold"),
        (["table-predictor", "--dataset", "good-motif,good-hvi"], "did you mean good-hiv"),
        (["table-predictor", "--methods", "erm"], "goodformer:paper, goodformer:mlp-predictor."),
        (["table-main", "--records", "none.jsonl"], "there is no none.jsonl"),
        (["figure-subgraphs", "-o", "it.png"], "--run"),
        (["figure-sensitivity", "-o", "it.png"], "--records"),
        (["--page", "none.md", "--records", "."], "none.md"),
    ],
)
def test_mistakes_are_refused(command: Command, words: list[str], sentence: str) -> None:
    answer = command("reproduce", *words)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1


def test_times_alone_are_measured_and_nothing_is_trained(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(budget: str, seeds: int) -> list[TablePlan]:
        comparison = compared(TINY, "gsat,goodformer", budget, seeds, ("training.epochs=1", "model.dim=16"))
        return [TablePlan("Tiny", (Column("OOD", comparison), Column("inference", comparison, artefacts.INFERENCE)))]

    table = Artefact("table-runtime", "Table 8", "tiny", timed, ("compare",), 1)
    monkeypatch.setitem(artefacts.ARTEFACTS, "table-runtime", table)
    words = ["reproduce", "table-runtime", "--methods", "gsat"]
    told = command(*words, "--json").json
    (line,) = [gap["command"] for gap in told["tables"][0]["gaps"] if gap.get("times")]
    answer = command(*shlex.split(line)[1:], "--json")
    assert answer.code == 0, answer.err
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["table-runtime-inference.jsonl"]
    assert not (tmp_path / "runs").exists()
    after = command(*words, "--json").json
    assert [gap["times"] for gap in after["tables"][0]["gaps"] if gap.get("times")] == []
    assert after["gap"]["runs"] == 1  # still to be trained


def test_gaps_are_trained_exported_and_drawn(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Artefact("figure-subgraphs", "Figure 2", "tiny", tiny, ("compare",), 1, drawn=True, folders=True)
    monkeypatch.setitem(artefacts.ARTEFACTS, "figure-subgraphs", figure)
    words = ["reproduce", "figure-subgraphs", "--runs", "made"]
    answer = command(*words, "--run", "--export", "made.jsonl", "-o", "pictures/it.png", "--quiet")
    assert answer.code == 0, answer.err
    assert "not run" not in answer.out
    assert (tmp_path / "pictures" / "it.png").stat().st_size > 10_000
    lines = [json.loads(line) for line in (tmp_path / "made.jsonl").read_text().splitlines()]
    assert [line["method"] for line in lines] == ["gsat", "goodformer"]
    assert all(Run(folder).finished for folder in (tmp_path / "made").iterdir())
    told = command("reproduce", "figure-subgraphs", "--records", "made.jsonl", "--format", "json")
    (block,) = told.json["tables"]
    shown = {row["row"]: row["cells"][0]["mean"] for row in block["rows"]}
    assert shown == pytest.approx({line["method"]: 100 * line["ood_test"] for line in lines})
    assert told.json["there"] == {"runs": [2, 2], "run folders": [0, 2]}  # in runs, where none was trained
    assert told.json["gap"]["runs"] == 2
    text = command("reproduce", "figure-subgraphs", "--records", "made.jsonl").out
    assert "There are 2 of 2 runs and 0 of 2 run folders." in text
    assert command(*words, "--records", "made.jsonl", "--json").json["gap"] is None
    assert command(*words, "-o", "it.txt").code == 2  # no picture format


def test_the_list_of_artefacts_has_each_fact_under_its_head(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"name": "table-mine", "place": "Table 9", "about": "all things", "runs": "full 3 of 4 runs"}
    monkeypatch.setattr("goodformer.report.reproduce.listing", lambda *_: [row])
    heads, _, line = [re.split("  +", one.strip()) for one in command("reproduce").out.splitlines()[:3]]
    found = dict(zip(heads, line, strict=True))
    assert (found["artefact"], found["paper"]) == ("table-mine", "Table 9")
    assert (found["content"], found["recorded"]) == ("all things", "full 3 of 4 runs")
