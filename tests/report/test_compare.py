"""A comparison's table against figures computed by hand, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goodformer.registry import InputError
from goodformer.report import compare, sheets
from goodformer.report.compare import Comparison

BASIS = {"name": "good-motif", "domain": "basis"}
OOD = {"erm": (0.50, 0.60, 0.70), "gsat": (0.40, 0.44, None), "goodformer": (0.80, 0.90, 0.85)}
SECONDS = {"erm": 2.0, "gsat": 3.0, "goodformer": 9.0}
METHODS = "erm,irm,gsat,goodformer"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare.plan(BASIS, METHODS)


@pytest.fixture
def file(comparison: Comparison, tmp_path: Path) -> Path:
    """Records of all runs but those of IRM and one of GSAT."""
    rows = [
        record(comparison, row, seed, value)
        for row, values in OOD.items()
        for seed, value in enumerate(values)
        if value is not None
    ]
    path = tmp_path / "made.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def record(comparison: Comparison, row: str, seed: int, ood_test: float) -> dict[str, Any]:
    """The summary of a run, as far as comparisons look at it."""
    config = comparison.configs[row, seed]
    explains = row != "erm"
    return {
        "id": config.id,
        "config": config.to_dict(),
        "metric": "accuracy",
        "train_graphs": 2000,
        "ood_test": ood_test,
        "id_test": 0.9,
        "precision_at_10": 0.25 + seed / 4 if explains else None,
        "edge_auc": 0.75 if explains else None,
        "seconds_per_epoch": SECONDS[row] * (1 + seed),
    }


@pytest.fixture
def report(comparison: Comparison, file: Path, tmp_path: Path) -> dict[str, Any]:
    return compare.report(comparison, compare.records(comparison, tmp_path / "runs", [file]))


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["row"]: row for row in report["rows"]}


def test_mean_deviation_and_cost_by_hand(report: dict[str, Any]) -> None:
    rows = by_name(report)
    assert rows["erm"]["ood_test"] == pytest.approx({"mean": 60.0, "std": 10.0})  # deviations -10, 0, 10; n - 1 = 2
    assert rows["gsat"]["ood_test"] == pytest.approx({"mean": 42.0, "std": 8**0.5})
    assert rows["goodformer"]["ood_test"] == pytest.approx({"mean": 85.0, "std": 5.0})
    assert rows["goodformer"]["precision_at_10"] == pytest.approx({"mean": 0.5, "std": 0.25})
    assert rows["erm"]["precision_at_10"] is None
    assert rows["goodformer"]["paper"]["precision_at_10"] == {"mean": 0.698, "std": 0.069}
    # Mean seconds: ERM (2 + 4 + 6) / 3 = 4, GSAT (3 + 6) / 2 = 4.5, GOODFormer 18.
    costs = [rows[name]["cost"] for name in ("erm", "gsat", "goodformer")]
    assert costs == pytest.approx([1.0, 4.5 / 4, 18 / 4])
    assert rows["irm"]["cost"] is rows["irm"]["ood_test"] is None


def test_the_report_names_what_it_is(report: dict[str, Any]) -> None:
    json.dumps(report, allow_nan=False)
    assert (report["budget"], report["seeds"], report["selection"]) == ("compare", [0, 1, 2], "ood_val")
    assert sheets.title(report) == "good-motif / basis / covariate, 2000 training graphs, budget compare, 4 epochs"
    for words in ("Accuracy in %", "over 3 seeds", "ood_val", "Paper", "ERM = 1"):
        assert words in sheets.note(report)


def test_markdown(report: dict[str, Any]) -> None:
    lines = sheets.markdown(report).splitlines()
    assert lines[2] == "|  | OOD test | paper | ID test | Precision@10 | paper | edge AUC | time | seeds |"
    assert "| ERM | 60.00 ±10.00 | 63.80 ±10.36 | 90.00 ±0.00 | - | - | - | 1.00 | 3 |" in lines
    assert "| IRM | not run | 59.93 ±11.46 | not run | not run | - | not run | not run | 0 of 3 |" in lines
    gsat = "| GSAT | 42.00 ±2.83 | 55.13 ±5.41 | 90.00 ±0.00 | 0.375 ±0.177 | 0.396 ±0.077 |"
    assert any(line.startswith(gsat) and line.endswith("| 1.12 | 2 of 3 |") for line in lines)
    assert any(line.startswith("| GOODFormer | **85.00** ±5.00 | **81.97** ±16.74 |") for line in lines)


def test_latex(report: dict[str, Any]) -> None:
    text = sheets.latex(report)
    assert text.count(r"\midrule") == 3  # under the heading and between three groups
    assert r"GOODFormer & \textbf{85.00}{\scriptsize$\pm$5.00} & \textbf{81.97}{\scriptsize$\pm$16.74}" in text
    assert r"ERM & \underline{60.00}{\scriptsize$\pm$10.00} & \underline{63.80}{\scriptsize$\pm$10.36}" in text
    assert r"GSAT & 42.00{\scriptsize$\pm$2.83} &" in text
    assert r"in \%, mean $\pm$ standard" in text
    assert r"(ood\_val)" in text
    assert {line.count(" & ") for line in text.splitlines() if line.endswith(r"\\")} == {8}


def test_plain_text(report: dict[str, Any]) -> None:
    columns, rows = sheets.grid(report)
    assert all(len(row) == len(columns) for row in rows)
    assert rows[0][:3] == ["ERM", "60.00 ±10.00", "63.80 ±10.36"]


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    single = compare.plan(BASIS, "erm", seeds=1)
    found = {single.configs["erm", 0].id: record(single, "erm", 0, 0.5)}
    _, rows = sheets.grid(compare.report(single, found))
    assert rows == [["ERM", "50.00", "63.80 ±10.36", "90.00", "1.00", "1"]]


def test_a_failure_is_told_in_its_row(comparison: Comparison) -> None:
    failed = comparison.configs["irm", 1].id
    columns, rows = sheets.grid(compare.report(comparison, {}, {failed: "the loss is no longer a number."}))
    assert columns[-1] == "failed"
    assert rows[1][1] == "failed"
    assert rows[1][-1] == "Seed 1: the loss is no longer a number."
    assert rows[0][1] == "not run"


def test_rows_with_budgets_of_their_own_show_them() -> None:
    columns, rows = sheets.grid(compare.report(compare.plan(BASIS, "erm,goodformer", budget="full"), {}))
    assert columns[1] == "epochs"
    assert [row[1] for row in rows] == ["200", "5"]


def test_records_of_other_settings_do_not_count(comparison: Comparison, file: Path, tmp_path: Path) -> None:
    other = compare.plan(BASIS, METHODS, overrides=["training.batch_size=16"])
    assert len(compare.records(comparison, tmp_path, [file])) == 8
    assert compare.records(other, tmp_path, [file]) == {}


def test_a_record_from_before_a_new_setting_still_counts(comparison: Comparison, tmp_path: Path) -> None:
    """Its id has changed since, what it says has not."""
    old = record(comparison, "erm", 0, 0.5)
    old["id"] = "0123456789ab"
    del old["config"]["training"]["schedule"]
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n")
    assert list(compare.records(comparison, tmp_path, [tmp_path])) == [comparison.configs["erm", 0].id]


def test_settings_of_the_data_set_beat_the_budget() -> None:
    spurious = compare.plan({"name": "sp-motif"}, "erm,gps", 1, overrides=["dataset.bias=0.5", "dataset.graphs=300"])
    assert {(c.dataset["bias"], c.dataset["graphs"]) for c in spurious.configs.values()} == {(0.5, 300)}
    assert by_name(compare.report(spurious, {}))["gps"]["paper"]["ood_test"] == {"mean": 46.89, "std": 7.56}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"overrides": ["method.shar=0.5"]}, "row erm: unknown setting"),
        ({"overrides": ["seed=4"]}, "seeds by --seeds"),
        ({"overrides": ["model.name=gps"]}, "rows by --methods"),
        ({"budget": "ful"}, "did you mean full"),
        ({"methods": "goodformr"}, "did you mean goodformer"),
    ],
)
def test_mistakes_show_before_the_first_run(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        compare.plan(BASIS, **{"methods": "erm", **settings})


def test_records_that_are_not_there(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no"):
        compare.records(comparison, tmp_path, [tmp_path / "none.jsonl"])


def test_one_seed_and_the_presets_beside_the_papers_figure() -> None:
    plan = compare.plan(BASIS, "erm,goodformer,goodformer:paper", 1)
    made = compare.report(plan, {})
    assert "in %, one seed, no standard deviation; epoch chosen" in sheets.note(made)
    paper = {row[0].text: row[2] for row in sheets.sheet(made).rows}
    assert [cell.place for cell in paper.values()] == [2, 1, 0]
    assert paper["GOODFormer (paper)"].text == paper["GOODFormer"].text == "81.97"
