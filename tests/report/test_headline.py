"""The short table of the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goodformer.config.presets import configure
from goodformer.data import load_benchmark
from goodformer.errors import InputError
from goodformer.report import headline, reproduce
from goodformer.report.artefacts import ERM_ALIKE, REDUCED, compared
from tests.report.test_reproduce import ROOT, made


def test_the_readme_holds_the_tables_of_the_records() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert headline.markdown([ROOT / "results"]) in text
    assert headline.molecule_table([ROOT / "results"]).markdown() in text
    assert headline.real_table([ROOT / "results"]).markdown() in text


def test_ceilings_are_the_share_of_labels_without_noise() -> None:
    """Committed numbers are those of the benchmarks; one with noise and one without are generated here."""
    places = {place.title: place.dataset for place in headline.PLACES}
    known = {title: headline.ceiling(configure(dataset).dataset) for title, dataset in places.items()}
    assert all(value is not None for value in known.values())
    for title in ("GOOD-Motif basis", "SP-Motif, bias 0.9"):
        test = load_benchmark(**configure(places[title]).dataset).splits["test"].graph
        kept = (test["motif"] == test["y"].flatten()).double().mean()
        assert known[title] == pytest.approx(100 * float(kept))


def line(row: str, seed: int, ood_test: float, precision: float | None = None, budget: str = "full") -> str:
    """A line of a file of records."""
    about: dict[str, Any] = {"train_graphs": 18000 if budget == "full" else 2000, "epochs": 5}
    about["by_rule"] = {"last": {"ood_test": ood_test - 0.1 * (row == "goodformer")}}
    return json.dumps(made(row, seed, budget=budget, ood_test=ood_test, precision_at_10=precision, **about)) + "\n"


def test_ours_stands_beside_controls_with_the_same_chance_and_no_number_of_the_paper(tmp_path: Path) -> None:
    for seed in range(3):  # all files are read, not the first one only
        lines = [line("goodformer", seed, 0.9 + seed / 100, 0.95), line(ERM_ALIKE, seed, 0.88 + seed / 100)]
        lines += [line("gsat alike", seed, 0.7, 0.3, "short")] if seed < 2 else []
        (tmp_path / f"seed-{seed}.jsonl").write_text("".join(lines), encoding="utf-8")
    basis = headline.PLACES[0].dataset
    measured = {"b": {"dataset": {**basis, "domain": "size"}, "precision_at_10": 0.75, "inputs": "cycle_walks:6"}}
    measured["a"] = {"dataset": basis, "precision_at_10": 0.25, "inputs": "cycle_walks:6"}
    (tmp_path / "inputs.json").write_text(json.dumps(measured))
    page = tmp_path / "page.md"
    page.write_text("<!-- headline: begin -->\n<!-- headline: end -->\n", encoding="utf-8")
    assert reproduce.write([tmp_path], page)
    assert not reproduce.write([tmp_path], page)
    text = page.read_text(encoding="utf-8")
    few, gap, last = "(2 of 3 seeds)", "+2.00 [+2.00, +2.00]", "-8.00 [-8.00, -8.00]"
    lines = [row for row in text.splitlines() if row.startswith(("| GOOD", "| GSAT", "| inputs", "| CIGA"))]
    assert lines == [
        f"| GOOD-Motif basis | 91.00 ±1.00 | 89.00 ±1.00 | {gap} | {last} | 93.57 | 0.950 ±0.000 | 0.250 | 18,000 "
        "| 3,000 | 5 |",
        "| GOODFormer (ours) | 91.00 ±1.00 | 0.950 ±0.000 |",
        f"| GSAT, same inputs | 70.00 ±0.00 {few} | 0.300 ±0.000 {few} |",
        "| inputs alone | - | 0.250 |",
    ]
    for number in ("81.97", "0.698"):
        assert number not in text
    assert "CIGA" not in text  # nothing to show without a run


def test_runs_on_fewer_graphs_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line("goodformer", 0, 0.5, budget="compare"))
    assert [table.rows for table in headline.tables([tmp_path])] == [[], []]


def test_controls_had_the_graphs_epochs_and_inputs_of_ours() -> None:
    for place in headline.PLACES:
        configs = [place.comparison.configs[row, 0] for row in (*headline.PAIR, *headline.RIVAL_ROWS)]
        chances = [(one.dataset, one.training.epochs, one.model["inputs"]) for one in configs]
        assert all(chance == chances[0] for chance in chances), place.title


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
            "random forest": "not run",
            "logistic regression": "not run",
            "ERM on GIN-VN": "51.00",
            "GraphGPS": "not run",
            "GOODFormer (ours)": "53.00",
            "training graphs": "1,234",
            "epochs": "7",
        }
    ]


def test_a_metric_that_no_record_has_is_absent(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line("goodformer", 0, 0.5))
    table, controls = headline.tables([tmp_path])
    cells = dict(zip(table.heads, (cell.plain() for cell in table.rows[0]), strict=True))
    assert cells["OOD test accuracy, %: GOODFormer (ours)"] == "50.00 (1 of 3 seeds)"
    assert cells["Precision@10: GOODFormer (ours)"] == "-"
    assert not controls.rows


@pytest.mark.parametrize(("graphs", "row"), [(1999, "blend:fast"), (2000, "blend:molecules")])
def test_the_default_is_what_fit_chooses_for_so_many_graphs(graphs: int, row: str) -> None:
    plan = compared({"name": "good-hiv", "domain": "size"}, "forest,linear", REDUCED, 2)
    assert headline.default_blend([plan], {plan.ids["linear", 1]: {"train_graphs": graphs}}) == row


def test_the_default_is_not_guessed() -> None:
    plan = compared({"name": "good-hiv", "domain": "size"}, "forest,linear", REDUCED, 1)
    with pytest.raises(InputError, match="no run on good-hiv"):
        headline.default_blend([plan], {})
    found = {plan.ids[name, 0]: {"train_graphs": graphs} for name, graphs in (("forest", 1999), ("linear", 2000))}
    with pytest.raises(InputError, match="different defaults"):
        headline.default_blend([plan], found)
