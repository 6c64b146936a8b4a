"""Records of uncertainty: kept in a file, ranked, shown as tables."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from goodformer.errors import InputError
from goodformer.report import uncertainty
from goodformer.report.records import read_records
from goodformer.spec import FeatureSpec
from goodformer.transforms.environments import MOLECULE
from goodformer.uncertainty.domain import DEFAULT, DOMAIN_SCORES, default_score

ROOT = Path(__file__).parents[2]


def made(
    auroc: dict[str, float], dataset: str = "a", identity: str = "1", val: dict[str, float] | None = None
) -> dict[str, Any]:
    """A record as far as tables read it; validation has half of what test has if it is not given."""
    scores = {
        name: {
            "id_test": {"outside": 0.05},
            "val": {"auroc": (val or {}).get(name, value / 2), "fpr95": 0.5, "outside": 0.1},
            "test": {"auroc": value, "fpr95": 1 - value, "outside": 0.3},
        }
        for name, value in auroc.items()
    }
    calibration = {
        end: {"before": {"ece": ece}, "after": {"ece": ece / 4}} for end, ece in (("id_test", 0.2), ("test", 0.8))
    }
    conformal = {"id_test": {"coverage": 0.91, "size": 1.1}, "test": {"coverage": 0.62, "size": 1.7}}
    return {
        "kind": uncertainty.KIND,
        "id": identity,
        "weights": "best",
        "dataset": dataset,
        "domain": "d",
        "shift": "s",
        "method": "erm",
        "model": "gin",
        "scores": scores,
        "calibration": calibration,
        "conformal": conformal,
    }


def test_names_and_descriptions_are_those_of_the_scores() -> None:
    """The table of names is kept apart, so that reading records needs no tensor library."""
    assert list(uncertainty.SCORES) == list(DOMAIN_SCORES)
    assert {name: score.about for name, score in DOMAIN_SCORES.items()} == uncertainty.SCORES
    assert tuple(name for name, score in DOMAIN_SCORES.items() if score.baseline) == uncertainty.BASELINES
    assert uncertainty.DEFAULT == DEFAULT == default_score(FeatureSpec())
    assert default_score(MOLECULE) == uncertainty.OF_MOLECULES


def test_a_run_counts_once_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "made.jsonl"
    assert uncertainty.export(made({"energy": 0.5}), path) == 1
    assert uncertainty.export(made({"energy": 0.6}, identity="2"), path) == 2
    assert uncertainty.export(made({"energy": 0.9}), path) == 2
    assert [line["scores"]["energy"]["test"]["auroc"] for line in uncertainty.read_records(path)] == [0.9, 0.6]
    (tmp_path / "new" / "runs.jsonl").write_text('{"id": "3"}\n')
    assert read_records(tmp_path / "new") == [{"id": "3"}]  # not a record of training


def test_two_exports_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: uncertainty.export(made({"energy": 0.5}, identity=str(k)), path), range(40)))
    assert {line["id"] for line in uncertainty.read_records(path)} == {str(k) for k in range(40)}


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"id": "1"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="runs"):
        uncertainty.export(made({"energy": 0.5}), tmp_path / "runs.jsonl")
    for name in ("none.jsonl", "empty.jsonl", "runs.jsonl", "."):
        with pytest.raises(InputError, match="uncertainty"):
            uncertainty.read_records(tmp_path / name)


@pytest.mark.parametrize("name", ["id", "weights", "dataset", "domain", "method", "scores"])
def test_records_that_lack_what_tables_show_are_refused(tmp_path: Path, name: str) -> None:
    whole = made({"energy": 0.5})
    path = tmp_path / "made.jsonl"
    for line in ({key: value for key, value in whole.items() if key != name}, {**whole, name: 1}):
        path.write_text(json.dumps(line) + "\n")
        with pytest.raises(InputError, match=name):
            uncertainty.read_records(path)
        with pytest.raises(InputError, match=name):
            uncertainty.export(whole, path)


def test_data_sets_count_alike_however_many_runs_they_have() -> None:
    records = [
        made({"energy": 0.6, "mahalanobis": 0.7}, "a", "1"),
        made({"energy": 0.8, "mahalanobis": 0.7}, "a", "2"),
        made({"energy": 0.9, "mahalanobis": 0.7, "temperature": 1.0}, "b", "3"),
    ]
    rows = {row["score"]: row for row in uncertainty.rank(records)}
    assert rows["energy"]["auroc"] == pytest.approx((0.7 + 0.9) / 2)
    assert (rows["energy"]["lowest"], rows["energy"]["runs"], rows["energy"]["data_sets"]) == (0.6, 3, 2)
    assert list(rows) == ["temperature", "energy", "mahalanobis"]
    assert uncertainty.best(records) == "energy"  # not every run has the temperature


def test_test_graphs_do_not_influence_the_choice() -> None:
    """The best on test is last on validation, and a baseline that reads no model is first."""
    test = {"energy": 0.9, "neighbours": 0.7, "statistics": 0.2}
    records = [made(test, val={"energy": 0.6, "neighbours": 0.8, "statistics": 0.95})]
    table = uncertainty.ranking(records)
    assert [cell.text for cell in table.column("score")] == ["statistics", "neighbours", "energy"]
    assert [cell.value for cell in table.column("AUROC OOD validation")] == [0.95, 0.8, 0.6]
    assert [cell.value for cell in table.column("AUROC OOD test")] == [0.2, 0.7, 0.9]
    assert [cell.value for cell in table.column("outside ID test")] == [0.05] * 3
    assert [cell.value for cell in table.column("outside OOD test")] == [0.3] * 3
    assert uncertainty.best(records) == "neighbours"


def test_splits_that_a_run_lacks_stay_empty() -> None:
    record = made({"energy": 0.5})
    for part in ("calibration", "conformal"):
        del record[part]["test"]
    del record["scores"]["energy"]["test"], record["scores"]["energy"]["val"]
    (row,) = uncertainty.rank([record])
    assert (row["auroc_val"], row["auroc"], row["lowest"]) == (None, None, None)
    assert " | - | " in uncertainty.markdown([record])


def test_the_default_is_the_score_that_the_records_favour() -> None:
    assert uncertainty.best(uncertainty.read_records(ROOT / "results" / "sureness.jsonl")) == DEFAULT


def test_every_number_of_the_page_stands_under_its_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- sureness: begin -->\nold\n<!-- sureness: end -->\nmore\n")
    records = [made({"energy": 0.6, "neighbours": 0.7})]
    assert uncertainty.write(records, page)
    assert not uncertainty.write(records, page)
    lines = page.read_text().splitlines()
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    sure = dict(zip(tables[-3], tables[-1], strict=True))
    assert sure == {
        "data set": "a / d / s",
        "method": "erm",
        "model": "gin",
        "runs": "1",
        "ECE ID, before": "0.200",
        "ECE ID, after": "0.050",
        "ECE OOD, before": "0.800",
        "ECE OOD, after": "0.200",
        "coverage ID": "0.910",
        "coverage OOD": "0.620",
        "labels per set ID": "1.100",
        "labels per set OOD": "1.700",
    }
    detected = dict(zip(tables[-6], tables[-4], strict=True))
    assert (detected["`energy`"], detected["`neighbours`"]) == ("0.600", "0.700")
    assert "`doubt`" not in detected  # a score that no record has


def test_the_documentation_holds_the_tables_of_the_records() -> None:
    records = uncertainty.read_records(ROOT / "results" / "sureness.jsonl")
    pages = [path for name in ("uncertainty", "sureness") if (path := ROOT / "docs" / f"{name}.md").is_file()]
    assert uncertainty.markdown(records) in pages[0].read_text(encoding="utf-8")
    json.dumps(uncertainty.rank(records), allow_nan=False)
