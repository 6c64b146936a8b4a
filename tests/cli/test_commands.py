"""Each command does its work and prints it, for people and for programs."""

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.image import imread

from goodformer.engine.store import Run
from goodformer.spec import SPLITS
from tests.cli.conftest import TINY, Command


def test_training_a_finished_run_shows_it_again(command: Command, runs: Path, erm: Path) -> None:
    before = (erm / "summary.json").read_bytes()
    answer = command("train", "good-motif", "--method", "erm", "--runs", runs, *TINY, "--json")
    assert answer.code == 0
    assert answer.json["folder"] == str(erm)
    assert {"id_val", "id_test", "ood_val", "ood_test", "selection"} <= set(answer.json)
    assert (erm / "summary.json").read_bytes() == before


def test_training_prints_the_five_splits_and_the_rule(command: Command, runs: Path, erm: Path) -> None:
    answer = command("train", "good-motif", "--method", "erm", "--runs", runs, *TINY)
    assert answer.code == 0
    for words in ("training", "test, in distribution", "test, shifted", "ood_val", str(erm)):
        assert words in answer.out


def test_json_is_alone_on_stdout_even_with_progress_bars(command: Command, tmp_path: Path) -> None:
    loud = [word for word in TINY if word != "--quiet"]
    answer = command("train", "good-motif", "--method", "erm", "--seed", "3", *loud, "--json")
    assert answer.code == 0
    assert answer.json["seed"] == 3
    assert "epoch" in answer.err
    assert Run(tmp_path / answer.json["folder"]).finished


def test_a_run_s_own_settings_are_a_settings_file(command: Command, runs: Path, erm: Path) -> None:
    answer = command("train", "--config", erm / "config.json", "--runs", runs, "--quiet", "--json")
    assert answer.code == 0
    assert answer.json["folder"] == str(erm)


def test_what_is_typed_beats_the_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "dataset: {name: good-motif, domain: size, graphs: 150}\n"
        "method: erm\nmodel: {name: gin, dim: 8, layers: 2}\ntraining: {epochs: 9, batch_size: 64}\nseed: 4\n"
    )
    answer = command(
        *("train", "--config", "mine.yaml", "--epochs", "1", "--seed", "6", "--domain", "basis"),
        *("--set", "model.dim=12", "--quiet", "--json"),
    )
    assert answer.code == 0, answer.err
    config = answer.json["config"]
    assert (config["seed"], config["training"]["epochs"], config["training"]["batch_size"]) == (6, 1, 64)
    assert (config["model"]["dim"], config["model"]["layers"], config["dataset"]["domain"]) == (12, 2, "basis")


def test_evaluation_repeats_the_record(command: Command, runs: Path, erm: Path) -> None:
    summary = json.loads((erm / "summary.json").read_text())
    answer = command("evaluate", summary["id"][:6], "--runs", runs, "--json")
    assert answer.code == 0
    assert set(answer.json["metrics"]) == set(SPLITS)
    assert answer.json["metrics"]["test"]["accuracy"] == pytest.approx(summary["ood_test"])
    assert "accuracy" in command("evaluate", erm, "--split", "test", "--weights", "last").out


def test_explanation_writes_picture_and_scores(command: Command, tmp_path: Path, invariant: Path) -> None:
    answer = command("explain", invariant, "--count", "3", "-o", "found", "--json")
    assert answer.code == 0, answer.err
    assert imread(tmp_path / "found" / "subgraphs.png").shape[0] > 200
    assert json.loads((tmp_path / "found" / "edges.json").read_text()) == answer.json
    first = answer.json["graphs"][0]
    assert len(first["edges"]) == len(first["scores"]) == len(first["truth"])
    assert first["scores"] == sorted(first["scores"], reverse=True)
    assert sum(first["probabilities"]) == pytest.approx(1, abs=1e-4)


def test_a_method_without_edge_scores_is_explained_afterwards(command: Command, erm: Path) -> None:
    answer = command("explain", erm, "--count", "2", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["explanation"] == "post-hoc"
    assert len(set(answer.json["graphs"][0]["scores"])) > 1


def test_explanations_of_several_runs_are_compared(command: Command, invariant: Path) -> None:
    answer = command("explain", invariant, "--count", "2", "--against", invariant, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["agreement"]["correlation"] == pytest.approx(1)
    assert "rank correlation 1.000" in command("explain", invariant, "--count", "2", "--against", invariant).out


def test_explanation_of_own_graphs(command: Command, tmp_path: Path, invariant: Path) -> None:
    lines = [{"edges": [[0, 1], [1, 2], [2, 0], [2, 3]]}, {"edges": [], "num_nodes": 2}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    answer = command("explain", invariant, "mine.jsonl", "--k", "3", "--json")
    assert answer.code == 0, answer.err
    assert [graph["num_nodes"] for graph in answer.json["graphs"]] == [4, 2]
    assert "truth" not in answer.json["graphs"][0]
    assert "picture" in command("explain", invariant, "mine.jsonl").out


@pytest.mark.parametrize("name", ["good-motif", "sp-motif"])
def test_data_set_card(command: Command, name: str) -> None:
    answer = command("datasets", "show", name, "--set", "graphs=150", "--json")
    assert answer.code == 0
    assert set(answer.json["statistics"]) == set(SPLITS)
    assert {"name", "type", "default", "help"} <= set(answer.json["settings"][0])
    assert "balance" in command("datasets", "show", name, "--set", "graphs=150").out


def test_lists(command: Command) -> None:
    assert {row["name"] for row in command("datasets", "--json").json} >= {"good-motif", "sp-motif"}
    assert {row["name"] for row in command("methods", "list", "--json").json} >= {"erm", "goodformer", "gin", "gps"}
    assert "good-motif" in command("datasets").out
    assert "goodformer" in command("methods").out


def test_method_card_tells_every_setting(command: Command) -> None:
    cards = command("methods", "show", "goodformer", "--json").json
    assert {card["kind"] for card in cards} == {"method", "model"}
    for setting in (row for card in cards for row in card["settings"]):
        assert setting["help"], f"{setting['name']} has no sentence"
    assert "entropy_weight" in command("methods", "show", "goodformer").out


def test_every_method_and_model_is_told_in_plain_words_before_its_formula(command: Command) -> None:
    for row in command("methods", "--json").json:
        words, formula = row["in_words"], row["about"]
        assert "; " in words
        assert words.endswith(".")
        assert not set(words) & set("=()[]_^*") - set("()"), f"{row['name']} is told by a formula"
        shown = command("methods", "show", row["name"]).out
        assert 0 < shown.index(words) < shown.index(formula)
    listed = " ".join(command("methods").out.split())
    assert "choose it as the baseline" in listed
    assert "L = mean" not in listed


def test_a_folder_of_runs_that_is_not_there_is_refused(command: Command) -> None:
    for words in (["runs"], ["runs", "list"], ["runs", "export"]):
        answer = command(*words, "--runs", "nope")
        assert (answer.code, answer.out) == (2, "")
        assert "folder nope" in answer.err
    Path("empty").mkdir()
    answer = command("runs", "--runs", "empty")
    assert answer.code == 0
    assert "no run in empty" in answer.out
    assert command("runs").code == 0  # nobody has trained anything here yet


def test_runs_are_listed_and_shown(command: Command, runs: Path, erm: Path) -> None:
    rows = command("runs", "--runs", runs, "--json").json
    assert {row["trained"] for row in rows} == {"erm on gin", "goodformer on goodformer"}
    assert all(row["finished"] for row in rows)
    assert "erm on gin" in " ".join(command("runs", "list", "--runs", runs).out.split())
    shown = command("runs", "show", erm.name, "--runs", runs, "--json").json
    assert len(shown["epochs"]) == 1
    assert shown["summary"]["method"] == shown["config"]["method"]["name"] == "erm"
    assert "id_val" in command("runs", "show", erm).out
    assert "no run" in command("runs").out


def test_runs_are_exported_once_each_and_tabled(command: Command, tmp_path: Path, runs: Path, erm: Path) -> None:
    for _ in range(2):
        assert command("runs", "export", "--runs", runs, "-o", "results/all.jsonl").code == 0
    lines = (tmp_path / "results" / "all.jsonl").read_text().splitlines()
    assert len(lines) == 2
    single = command("runs", "export", erm)
    assert json.loads(single.out)["method"] == "erm"
    table = command("runs", "table").out
    assert "| erm | gin |" in table
    assert "### good-motif / basis / covariate" in table


def test_bench_writes_its_figures(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = pytest.importorskip("benchmarks.speed")
    monkeypatch.setattr(bench, "run", lambda quick, progress: {"step_over_matmul": 1.5, "quick": float(quick)})
    monkeypatch.setattr(bench, "table", lambda made: f"{len(made['figures'])} figures")
    (tmp_path / "page.md").write_text("<!-- bench: begin -->\nold\n<!-- bench: end -->\n")
    answer = command("bench", "--quick", "-o", "deep/latest.json", "--page", "page.md")
    assert answer.out.strip() == "2 figures"
    assert (tmp_path / "page.md").read_text() == "<!-- bench: begin -->\n2 figures\n<!-- bench: end -->\n"
    kept = json.loads((tmp_path / "deep" / "latest.json").read_text())
    assert kept["figures"]["step_over_matmul"] == 1.5
    assert kept["quick"] is True
    assert {"commit", "versions", "machine"} <= set(kept)
    assert command("bench", "--json").json["figures"]["quick"] == 0


def test_bench_of_batches_measures_nothing_else(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = pytest.importorskip("benchmarks.speed")
    monkeypatch.setattr(bench, "run", None)
    monkeypatch.setattr(bench, "trainer", lambda method, batches: lambda: None)
    (tmp_path / "page.md").write_text("<!-- batches: begin -->\n<!-- batches: end -->\n")
    answer = command("bench", "--quick", "--batches", "good-motif", "-o", "batches.json", "--page", "page.md")
    kept = json.loads((tmp_path / "batches.json").read_text())
    assert (kept["dataset"], kept["figures"]["graphs"]) == ({"name": "good-motif"}, 600)
    assert {"commit", "versions", "machine"} <= set(kept)
    assert f"| good-motif | 600 | {kept['figures']['median_nodes']} |" in answer.out
    assert answer.out.strip() in (tmp_path / "page.md").read_text()
    assert command("bench", "--batches", "nothing").code == 2


def test_a_damaged_run_does_not_hide_the_others(command: Command, erm: Path, tmp_path: Path) -> None:
    for name in ("whole", "damaged"):
        shutil.copytree(erm, tmp_path / "both" / name)
    (tmp_path / "both" / "damaged" / "summary.json").write_text("{")
    answer = command("runs", "--runs", tmp_path / "both", "--json")
    assert answer.code == 0
    assert [row["folder"] for row in answer.json] == [str(tmp_path / "both" / "whole")]
    assert "left out" in answer.err
