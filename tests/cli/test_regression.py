"""Measured values on the command line: fit, predict, explain and compare."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import root_mean_squared_error

from goodformer.config.run import Hardware
from goodformer.engine.run import train
from goodformer.pages.evidence import load
from goodformer.report.compare import plan
from tests.cli.conftest import Command
from tests.test_regression import values


def write(path: Path, columns: dict[str, list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def test_a_file_of_measured_values_is_fitted_predicted_and_explained(command: Command) -> None:
    smiles, y = values()
    write(Path("mine.csv"), {"smiles": smiles, "logS": [*y[:-1], ""]})
    done = command("fit", "mine.csv", "-t", "logS", "--method", "forest", "--set", "method.trees=30", "-o", "model")
    assert done.code == 0, done.err
    assert "logS" in done.err
    assert "regression" in done.err, "the decision is told"
    assert "RMSE" in done.out
    report = json.loads(Path("model/report.json").read_text())
    assert (report["metric"], report["task"], report["classes"]) == ("rmse", "regression", {"logS": []})
    assert {"rmse", "mae", "r2", "spearman", "loss"} <= report["splits"]["test"].keys()
    assert report["splits"]["id_test"]["rmse"] < 0.7 * report["scale"][0]
    assert set(report["coverage"]["splits"]) == {"id_test", "val", "test"}
    assert list(report["baseline"]["rows"]) == ["linear", "gaussian-process"]
    (shown,) = [one for one in load(Path("model"))["metrics"]["test"] if one["metric"] == "rmse"]
    assert shown["value"] == pytest.approx(report["splits"]["test"]["rmse"], rel=1e-3)
    known = report["baseline"]["rows"]["linear"]["splits"]["test"]["rmse"]
    assert shown["others"]["linear"]["value"] == pytest.approx(known, rel=1e-3)

    said = command("predict", "model", "mine.csv", "-o", "answers.csv", "--sets", "0.8")
    assert said.code == 0, said.err
    rows = list(csv.DictReader(Path("answers.csv").read_text().splitlines()))
    assert list(rows[0])[:6] == ["smiles", "logS", "predicted", "domain_score", "outside", "outside_because"]
    found = np.array([[float(row[name]) for name in ("lower", "predicted", "upper")] for row in rows])
    assert (found[:, 0] < found[:, 1]).all()
    assert (found[:, 1] < found[:, 2]).all()
    assert root_mean_squared_error(y[:-1], found[:-1, 1]) < 0.5 * np.std(y)

    shown = command("explain", "model", "mine.csv", "-o", "pictures", "--count", "2")
    assert shown.code == 0, shown.err
    assert "standard deviations" in shown.out
    graph = json.loads(Path("pictures/edges.json").read_text())["graphs"][0]
    assert graph["predicted"] == pytest.approx(found[0, 1], rel=1e-6)
    assert graph["fidelity"]["whole"] == 0
    assert graph["fidelity"]["removed"] < 0, "minus the change of the value"


def test_several_targets_with_gaps_have_columns_of_their_own(command: Command) -> None:
    smiles, y = values()
    gaps = ["" if place % 5 == 0 else 100 * value for place, value in enumerate(y)]
    write(Path("mine.csv"), {"smiles": smiles, "a": list(y), "b": gaps})
    words = ["fit", "mine.csv", "-t", "a", "-t", "b", "--no-baseline", "--method", "erm", "--model", "gin"]
    done = command(*words, "--set", "model.dim=16", "--epochs", "2", "-o", "model", "--json")
    assert done.code == 0, done.err
    assert {"rmse_0", "rmse_1", "mae_0"} <= done.json["splits"]["test"].keys()
    assert command("predict", "model", "mine.csv", "-o", "answers.csv", "--sets", "0.5").code == 0
    row = next(csv.DictReader(Path("answers.csv").read_text().splitlines()))
    assert {"a_predicted", "b_predicted", "a_lower", "a_upper", "b_lower", "b_upper"} <= row.keys()
    shown = command("explain", "model", "mine.csv", "-o", "pictures", "--count", "1")
    assert shown.code == 0, shown.err


@pytest.mark.parametrize(
    ("column", "words", "sentence"),
    [
        ([1.5] * 200, ["--task", "regression"], "only the value"),
        (["low", "high"] * 100, ["--task", "regression"], "cannot be used as numbers"),
        (None, ["--method", "cal-plus"], "cal-plus is not defined for measured values"),
        (None, ["--task", "numbers"], "unknown task 'numbers'"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_sentence(
    command: Command, column: list[object] | None, words: list[str], sentence: str
) -> None:
    smiles, y = values()
    write(Path("mine.csv"), {"smiles": smiles[:200], "y": column or list(y[:200])})
    done = command("fit", "mine.csv", "-t", "y", *words, "-o", "model")
    assert done.code == 2
    assert sentence in done.err


def test_rows_are_compared_by_their_errors(command: Command) -> None:
    smiles, y = values()
    write(Path("mine.csv"), {"smiles": smiles, "y": list(y)})
    data = ["--dataset", "table", "--set", "dataset.path=mine.csv", "--set", "dataset.target=y"]
    for config in plan({"name": "table", "path": "mine.csv", "target": "y"}, "forest,linear", 1).runs:
        train(config, "runs", Hardware(progress=False))  # here, since processes of their own are slow to start
    done = command("compare", *data, "--methods", "forest,linear", "--seeds", "1", "--against", "linear", "--json")
    assert done.code == 0, done.err
    rows = {row["row"]: row for row in done.json["rows"]}
    assert done.json["metric"] == "rmse"
    difference = rows["forest"]["ood_test"]["mean"] - rows["linear"]["ood_test"]["mean"]
    assert rows["forest"]["difference"]["mean"] == pytest.approx(difference, abs=1e-4)
    table = command("compare", *data, "--methods", "forest,linear", "--seeds", "1", "--format", "markdown")
    lines = {line.split("|")[1].strip(): line for line in table.out.splitlines() if line.startswith("| ")}
    better = min(rows, key=lambda name: rows[name]["ood_test"]["mean"])
    assert [name for name, row in rows.items() if "**" in lines[row["title"]]] == [better]
    assert "RMSE" in table.out
    assert "in %" not in table.out
