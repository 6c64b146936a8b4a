"""The short table of the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goodformer.config.presets import configure
from goodformer.data import load_benchmark
from goodformer.report import compare, headline, reproduce
from goodformer.report.artefacts import ERM_ALIKE, REDUCED, compared
from tests.report.test_reproduce import ROOT, made


def test_the_readme_holds_the_table_of_the_records() -> None:
    assert headline.table([ROOT / "results"]).markdown() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_ceilings_are_the_share_of_labels_without_noise() -> None:
    """Committed numbers are those of the benchmarks; one with noise and one without are generated here."""
    known = {title: headline.ceiling(configure(dataset).dataset) for title, dataset in headline.BENCHMARKS.items()}
    assert all(value is not None for value in known.values())
    for title in ("GOOD-Motif basis", "SP-Motif, bias 0.9"):
        test = load_benchmark(**configure(headline.BENCHMARKS[title]).dataset).splits["test"].graph
        kept = (test["motif"] == test["y"].flatten()).double().mean()
        assert known[title] == pytest.approx(100 * float(kept))


def test_the_short_table_holds_ours_the_same_network_under_erm_and_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headline, "ceiling", lambda dataset: 93.0 if dataset["domain"] == "basis" else 0.0)
    plan = compare.plan(headline.BENCHMARKS["GOOD-Motif basis"], f"{headline.OURS},{ERM_ALIKE}", 2, "full")
    lines = [
        {
            "id": config.id,
            "config": config.to_dict(),
            "ood_test": 0.9 + seed / 100,
            "by_rule": {"last": {"ood_test": 0.8}},
            "precision_at_10": 0.95,
            "edge_auc": 0.99,
        }
        for (row, seed), config in plan.configs.items()
        if row == headline.OURS or seed == 0
    ]
    sources = [tmp_path / f"seed-{seed}.jsonl" for seed in range(2)]  # all are read, not the first one only
    for seed, source in enumerate(sources):
        own = [json.dumps(line) + "\n" for line in lines if line["config"]["seed"] == seed]
        source.write_text("".join(own), encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("<!-- headline: begin -->\n<!-- headline: end -->\n", encoding="utf-8")
    assert reproduce.write(sources, page)
    assert not reproduce.write(sources, page)
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| GOOD")]
    assert rows == [
        "| GOOD-Motif basis | 90.50 ±0.71 | 80.00 ±0.00 | 93.00 | 0.950 ±0.000 | 0.990 ±0.000 | 90.00 (1 of 3 seeds) "
        "| 81.97 ±16.74 | 2 |"
    ]


def test_each_number_of_the_table_of_real_data_stands_under_its_head(tmp_path: Path) -> None:
    hiv = {"name": "good-hiv", "domain": "size"}
    plan = compared(hiv, ",".join(headline.RIVALS), REDUCED, 1)
    numbers = {"erm": 0.51, "goodformer": 0.53}
    about = {"metric": "rocauc", "train_graphs": 1234, "epochs": 7}
    lines = [
        {"id": plan.ids[row, 0], "config": plan.configs[row, 0].to_dict(), "ood_test": value, "id_test": 0.9, **about}
        for row, value in numbers.items()
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = headline.real_table([tmp_path])
    assert [dict(zip(table.heads, (cell.plain() for cell in row), strict=True)) for row in table.rows] == [
        {
            "": "GOOD-HIV size",
            "metric, %": "ROC-AUC",
            "ERM on GIN-VN": "51.00",
            "GraphGPS": "not run",
            "GOODFormer": "53.00",
            "training graphs": "1234",
            "epochs": "7",
        }
    ]


@pytest.mark.parametrize("wanted", ["last", "precision_at_10", "edge_auc"])
def test_averages_over_fewer_seeds_state_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """Runs that measured the test splits at the chosen epoch only lack them at the last one."""
    monkeypatch.setattr(headline, "ceiling", lambda _: 100.0)
    heads = {"last": "last epoch", "precision_at_10": "Precision@10", "edge_auc": "edge AUC"}

    def line(seed: int, told: bool) -> dict[str, Any]:
        value: dict[str, Any] = {name: 0.5 if told or name != wanted else None for name in heads}
        last = {"by_rule": {"last": {"ood_test": value.pop("last")}}}
        return made("goodformer", seed, budget="full", ood_test=0.5, **last, **value)

    def cell(records: list[dict[str, Any]], head: str) -> str:
        path = tmp_path / "records.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        (found,) = headline.table([path]).column(head)
        return found.plain()

    figure = "50.00" if wanted == "last" else "0.500"
    assert cell([line(0, True), line(1, False), line(2, False)], heads[wanted]) == f"{figure} (1 of 3 seeds)"
    assert cell([line(0, False)], heads[wanted]) == "-"
    assert cell([line(0, True)], heads[wanted]) == figure  # the last column shows the one seed
    erm = [made(ERM_ALIKE, seed, budget="full", ood_test=0.5) for seed in range(3)]
    assert cell([line(0, True), *erm], "ERM, same inputs") == "50.00 ±0.00 (3 of 3 seeds)"
