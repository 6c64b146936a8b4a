"""The quick start, in small."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from matplotlib.image import imread
from torch_geometric.data import Data

from goodformer import cli, quickstart
from goodformer.data import load_benchmark
from goodformer.report.compare import Comparison


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A quick start on so few graphs that nothing is learnt."""
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(quickstart, "DATASET", {**quickstart.DATASET, "graphs": 300})
    short = tuple(replace(row, overrides=("training.epochs=1", "model.dim=16")) for row in quickstart.ROWS)
    monkeypatch.setattr(quickstart, "ROWS", short)
    return tmp_path / "quickstart"


def test_it_ends_in_a_table_and_a_picture_and_repeats_at_once(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["quickstart", "-o", str(small), "--quiet"]
    assert cli.run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row[0] for row in report["rows"]][:2] == [one.title for one in quickstart.ROWS]
    assert imread(report["picture"]).shape[0] > 300
    assert set(report["summaries"]) == {"erm", "goodformer"}
    for row, summary in zip(report["rows"], report["summaries"].values(), strict=False):
        cells = dict(zip(report["columns"], row, strict=True))
        assert cells["ID test"] == pytest.approx(100 * summary["id_test"])
        assert cells["OOD test"] == pytest.approx(100 * summary["ood_test"])
    before = {path: path.stat().st_mtime_ns for path in small.glob("*/summary.json")}
    assert cli.run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert before == {path: path.stat().st_mtime_ns for path in small.glob("*/summary.json")}
    assert len(before) == 2
    assert cli.run(words) == 0
    assert report["picture"] in capsys.readouterr().out


def test_every_number_stands_under_its_heading() -> None:
    """All numbers differ, so that ID test and OOD test cannot be exchanged."""
    plan = Comparison(quickstart.DATASET, quickstart.ROWS, (0,), quickstart.BUDGET)
    numbers = {"erm": (0.91, 0.42, None), "goodformer": (0.93, 0.87, 0.654)}
    found: dict[str, dict[str, Any]] = {
        plan.ids[name, 0]: dict(zip(("id_test", "ood_test", "precision_at_10"), values, strict=True))
        for name, values in numbers.items()
    }
    table = quickstart.table(plan, found)
    shown = {head: [cell.plain() for cell in table.column(head)] for head in table.heads[1:]}
    assert shown == {
        "epochs": ["5", "3", ""],
        "ID test": ["91.0", "93.0", "93.3"],
        "OOD test": ["42.0", "87.0", "93.3"],
        "Precision@10": ["-", "0.654", "1.000"],
    }
    assert "20,000 graphs" in table.title
    assert "OOD validation" in table.note


@pytest.mark.usefixtures("own_cache")
def test_the_picture_names_the_motif_and_the_prediction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Predictions are one class further than the motif, and the scores of a graph are its own."""
    told: list[Any] = []

    def predict(graphs: list[Data]) -> SimpleNamespace:
        classes = torch.tensor([(int(graph.motif) + 1) % 3 for graph in graphs])
        return SimpleNamespace(classes=classes, edge_scores=[graph.edge_truth.float() for graph in graphs])

    model = SimpleNamespace(predict=predict)
    monkeypatch.setattr(quickstart, "FittedModel", SimpleNamespace(of_run=lambda run, weights: model))
    monkeypatch.setattr(quickstart, "draw_subgraphs", lambda *given: told.extend(given) or given[2])
    run: Any = SimpleNamespace(config=SimpleNamespace(dataset={**quickstart.DATASET, "graphs": 300}))
    assert quickstart.draw(run, tmp_path / "a.png") == tmp_path / "a.png"
    graphs, scores, _, titles = told
    motifs = quickstart.MOTIFS
    assert [int(graph.motif) for graph in graphs] == [0, 1, 2, 0, 1, 2]
    assert titles == [f"{motifs[kind]}, predicted {motifs[(kind + 1) % 3]}" for kind in (0, 1, 2, 0, 1, 2)]
    assert all(torch.equal(score, graph.edge_truth.float()) for graph, score in zip(graphs, scores, strict=True))


def test_the_ceiling_is_that_of_random_labels() -> None:
    """A random label is right one time in three, so fewer than one in ten are wrong."""
    graphs = load_benchmark("good-motif", graphs=6000).splits["train"].graph
    share = 100 * float((graphs["y"].flatten() == graphs["motif"]).float().mean())
    assert share == pytest.approx(quickstart.CEILING, abs=2)


def test_the_budget_cuts_graphs_and_the_rows_name_their_epochs() -> None:
    plan = Comparison(quickstart.DATASET, quickstart.ROWS, (0,), quickstart.BUDGET)
    configs = {name: config for (name, _), config in plan.configs.items()}
    assert {config.dataset["graphs"] for config in configs.values()} == {20_000}
    assert {config.budget for config in configs.values()} == {"quickstart"}
    assert {name: config.training.epochs for name, config in configs.items()} == {"erm": 5, "goodformer": 3}
    assert configs["erm"].id == "40709a40b7a5"  # committed records are those of today
