"""A comparison's table against numbers computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goodformer.errors import InputError
from goodformer.report import compare
from goodformer.report.compare import Comparison
from goodformer.report.records import records_of
from goodformer.report.table import Table

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
    return compare.report(comparison, records_of(comparison.runs, tmp_path / "runs", [file]))


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["row"]: row for row in report["rows"]}


def test_mean_deviation_and_cost_by_hand(report: dict[str, Any]) -> None:
    rows = by_name(report)
    assert rows["erm"]["ood_test"] == pytest.approx({"mean": 60.0, "std": 10.0})  # deviations -10, 0, 10; n - 1 = 2
    assert rows["gsat"]["ood_test"] == pytest.approx({"mean": 42.0, "std": 8**0.5})
    assert rows["goodformer"]["ood_test"] == pytest.approx({"mean": 85.0, "std": 5.0})
    assert rows["goodformer"]["precision_at_10"] == pytest.approx({"mean": 0.5, "std": 0.25})
    assert rows["erm"]["precision_at_10"] is None
    assert rows["goodformer"]["paper"] == {"ood_test": None, "precision_at_10": None}
    assert rows["gsat"]["paper"]["precision_at_10"] == {"mean": 0.396, "std": 0.077}
    # Mean seconds: ERM (2 + 4 + 6) / 3 = 4, GSAT (3 + 6) / 2 = 4.5, GOODFormer 18.
    costs = [rows[name]["cost"] for name in ("erm", "gsat", "goodformer")]
    assert costs == pytest.approx([1.0, 4.5 / 4, 18 / 4])
    assert rows["irm"]["cost"] is rows["irm"]["ood_test"] is None


def cells(table: Table, head: str, paper: int = 0) -> dict[str, str]:
    """The texts under a heading by the title of their row; ``paper`` counts columns of the same heading."""
    place = [number for number, one in enumerate(table.heads) if one == head][paper]
    return {row[0].text: row[place].plain() for row in table.rows}


def test_every_column_shows_its_own_metric(report: dict[str, Any]) -> None:
    json.dumps(report, allow_nan=False)
    assert (report["budget"], report["seeds"], report["selection"]) == ("compare", [0, 1, 2], "ood_val")
    table = compare.table(report)
    heads = ["", "OOD test", "paper", "ID test", "Precision@10", "paper", "edge AUC", "time", "seeds"]
    assert table.heads == heads
    rows = {row[0].text: [cell.plain() for cell in row[1:]] for row in table.rows}
    assert rows["ERM"] == ["60.00 ±10.00", "63.80 ±10.36", "90.00 ±0.00", "-", "-", "-", "1.00", "3"]
    assert rows["IRM"] == ["not run", "59.93 ±11.46", "not run", "not run", "-", "not run", "not run", "0 of 3"]
    assert rows["GSAT"][:5] == ["42.00 ±2.83", "55.13 ±5.41", "90.00 ±0.00", "0.375 ±0.177", "0.396 ±0.077"]
    assert rows["GSAT"][5:] == ["0.750 ±0.000", "1.12", "2 of 3"]
    assert rows["GOODFormer (ours)"][:3] == ["85.00 ±5.00", "-", "90.00 ±0.00"]
    ranks = {row[0].text: (row[1].rank, row[2].rank) for row in table.rows}
    assert set(ranks.values()) == {(0, 0)}  # rows without runs, and rows of the paper that are left out


def marked(names: str, lacking: str = "", graphs: dict[str, int] | None = None) -> list[str]:
    """Rows whose OOD test is marked as best; one row may lack a seed, rows may have other numbers of graphs."""
    plan = compare.plan(BASIS, names, seeds=2)
    found = {
        config.id: {
            **{"id": config.id, "config": config.to_dict(), "metric": "accuracy", "id_test": 0.9},
            "train_graphs": 2000 if graphs is None else graphs[name],
            "ood_test": 0.5 + [row.name for row in plan.rows].index(name) / 10,
        }
        for (name, seed), config in plan.configs.items()
        if (name, seed) != (lacking, 1)
    }
    table = compare.table(compare.report(plan, found))
    return [row[0].text for row in table.rows if row[1].rank == 1]


def test_only_rows_with_the_same_chance_are_ranked() -> None:
    assert marked("erm,gsat") == ["GSAT"]
    assert marked("erm,gsat", lacking="erm") == []
    assert marked("erm,gsat", graphs={"erm": 2000, "gsat": 1000}) == []
    assert marked("erm,gps") == []  # GraphGPS reads Laplacian encodings
    assert marked("gsat,goodformer") == []  # ours reads cycle walks
    assert marked("gsat alike,goodformer") == ["GOODFormer (ours)"]


def test_the_title_and_the_note_hold_the_facts(report: dict[str, Any]) -> None:
    table = compare.table(report)
    for fact in ("good-motif", "basis", "covariate", "2000 training graphs", "budget compare", "4 epochs"):
        assert fact in table.title
    for fact in ("Accuracy in %", "3 seeds", "OOD validation", "Paper", "ERM = 1"):
        assert fact in table.note
    assert table.latex().count(r"\midrule") == 3  # under the headings and between three groups


def test_one_seed_has_no_deviation() -> None:
    single = compare.plan(BASIS, "erm", seeds=1)
    found = {single.ids["erm", 0]: record(single, "erm", 0, 0.5)}
    table = compare.table(compare.report(single, found))
    assert [[cell.plain() for cell in row] for row in table.rows] == [
        ["ERM", "50.00", "63.80 ±10.36", "90.00", "1.00", "1"]
    ]
    assert "one seed" in table.note


def test_a_failure_is_shown_in_its_row(comparison: Comparison) -> None:
    failures = {comparison.ids["irm", 1]: "the loss is no longer a number."}
    table = compare.table(compare.report(comparison, {}, failures))
    assert cells(table, "failed")["IRM"] == "Seed 1: the loss is no longer a number."
    assert cells(table, "OOD test") == {
        "ERM": "not run",
        "IRM": "failed",
        "GSAT": "not run",
        "GOODFormer (ours)": "not run",
    }


def test_rows_with_epochs_of_their_own_show_them() -> None:
    table = compare.table(compare.report(compare.plan(BASIS, "erm,goodformer", budget="full"), {}))
    assert cells(table, "epochs") == {"ERM": "200", "GOODFormer (ours)": "5"}


def test_one_configuration_is_built_per_row_and_seeds_are_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    from goodformer.report import rows

    built: list[str] = []
    configure = rows.Row.configure

    def note(self: rows.Row, *arguments: Any) -> Any:
        built.append(self.name)
        return configure(self, *arguments)

    monkeypatch.setattr(rows.Row, "configure", note)
    for _ in range(2):
        plan = compare.plan(BASIS, "erm,gsat", 5, overrides=["training.batch_size=48"])
    assert built == ["erm", "gsat"]
    for (name, seed), config in plan.configs.items():
        expected = configure(rows.row(name, "good-motif"), BASIS, "compare", seed, ["training.batch_size=48"])
        assert (config, plan.ids[name, seed]) == (expected, expected.id)


def test_records_of_other_settings_do_not_count(comparison: Comparison, file: Path, tmp_path: Path) -> None:
    other = compare.plan(BASIS, METHODS, overrides=["training.batch_size=16"])
    assert len(records_of(comparison.runs, tmp_path, [file])) == 8
    assert records_of(other.runs, tmp_path, [file]) == {}


def test_settings_of_the_data_set_beat_the_budget() -> None:
    spurious = compare.plan({"name": "sp-motif"}, "erm,gps", 1, overrides=["dataset.bias=0.5", "dataset.graphs=300"])
    assert {(c.dataset["bias"], c.dataset["graphs"]) for c in spurious.configs.values()} == {(0.5, 300)}
    assert by_name(compare.report(spurious, {}))["gps"]["paper"]["ood_test"] == {"mean": 46.89, "std": 7.56}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"overrides": ["method.shar=0.5"]}, "row erm: .*shar"),
        ({"overrides": ["seed=4"]}, "seed=4.*--seeds"),
        ({"overrides": ["model.name=gps"]}, "model.name=gps.*--methods"),
        ({"budget": "ful"}, "did you mean full"),
        ({"methods": "goodformr"}, "did you mean goodformer"),
    ],
)
def test_mistakes_show_before_the_first_run(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        compare.plan(BASIS, **{"methods": "erm", **settings})


def test_the_papers_number_stands_beside_the_papers_preset_alone() -> None:
    names = "all,goodformer:paper,goodformer:as_published"
    table = compare.table(compare.report(compare.plan(BASIS, names, 1), {}))
    place = table.heads.index("paper")
    paper = {row[0].text: (row[place].text, row[place].rank) for row in table.rows}
    assert {title: cell for title, cell in paper.items() if title == "iMoLD" or title.startswith("GOOD")} == {
        "iMoLD": ("71.02", 2),
        "GOODFormer (paper)": ("81.97", 1),
        "GOODFormer (published code)": ("-", 0),
        "GOODFormer (ours)": ("-", 0),
    }
