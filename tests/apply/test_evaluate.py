"""Metrics of a fitted model on a file with known labels, against scikit-learn's."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, mean_squared_error, roc_auc_score

from goodformer import GraphClassifier, GraphRegressor, InputError, cli
from goodformer.apply.evaluate import ALL, INSIDE, OUTSIDE, evaluate_file
from goodformer.apply.fit import OwnFile, fit_file
from goodformer.apply.recipe import Recipe
from goodformer.config.run import Hardware
from goodformer.fitted import FittedModel
from goodformer.uncertainty.training_rows import TRAINING
from tests.apply.molecules import molecules

pytestmark = pytest.mark.usefixtures("own_cache")


def write(path: Path, **columns: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def value(report: dict[str, Any], metric: str, part: str = ALL) -> dict[str, Any]:
    (found,) = (one for one in report["parts"][part]["metrics"] if one["metric"] == metric)
    return found


def test_classes_are_compared_by_their_names_and_rows_without_a_label_do_not_count(tmp_path: Path) -> None:
    smiles, labels = molecules()
    words = np.where(np.array(labels) > 0, "Active", "inactive")
    model: Any = GraphClassifier("linear", split="random").fit(smiles[::2], words[::2])
    new, truth = smiles[1::2], words[1::2].copy()
    truth[::7] = words[::2][: len(truth[::7])]  # some labels are wrong, so that the metrics are not 1
    given = ["" if place % 5 == 0 else str(word).upper() for place, word in enumerate(truth)]
    path = write(tmp_path / "new.csv", label=given, smiles=new)
    report = evaluate_file(model.model_, path, size=7)
    known = [place for place in range(len(new)) if place % 5]
    positive = list(model.classes_).index("Active")
    p = model.predict_proba(new)[known][:, positive]
    assert (report["rows"], report["labelled"]) == (len(new), len(known))
    area, right = value(report, "rocauc"), value(report, "accuracy")
    assert area["value"] == pytest.approx(roc_auc_score(truth[known] == "Active", p))
    assert 0 < area["low"] < area["value"] < area["high"] < 1
    assert right["value"] == pytest.approx(accuracy_score(truth[known], model.predict(new)[known]))
    assert report["parts"][INSIDE]["rows"] + report["parts"][OUTSIDE]["rows"] == len(known)
    sure = report["parts"][ALL]["calibration"]
    assert sure["nll"] == pytest.approx(log_loss(truth[known] == "Active", p), rel=1e-3)
    assert sure["brier"] == pytest.approx(brier_score_loss(truth[known] == "Active", p), rel=1e-3)


def test_measured_values_have_rmse_and_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smiles, _ = molecules()
    size = np.array([len(one) / 7 for one in smiles])
    model: Any = GraphRegressor("linear", split="random", validation=0.3).fit(smiles[::2], size[::2])
    model.save(tmp_path / "model")
    path = write(tmp_path / "new.csv", smiles=[*smiles[1::2], "nonsense"], label=[*size[1::2], 1.0])
    report = evaluate_file(model.model_, path)
    expected = math.sqrt(mean_squared_error(size[1::2], model.predict(smiles[1::2])))
    assert value(report, "rmse")["value"] == pytest.approx(expected, rel=1e-4)
    assert report["unreadable"] == 1
    ends = model.predict_interval(smiles[1::2], 0.9)
    inside = ((ends[:, 0] <= size[1::2]) & (size[1::2] <= ends[:, 1])).mean()
    (covered,) = (one["coverage"] for one in report["parts"][ALL]["coverage"] if one["level"] == 0.9)
    assert covered == pytest.approx(inside, abs=0.02)
    assert cli.run(["evaluate", str(tmp_path / "model"), str(path)]) == 0
    shown = capsys.readouterr()
    assert f"{expected:.3f}" in shown.out
    assert "coverage of 90 % intervals" in shown.out
    assert "1 rows cannot be read" not in shown.out
    assert "cannot be read" in shown.err


def test_rows_that_the_model_was_trained_on_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smiles, labels = molecules()
    model: Any = GraphClassifier("linear", split="random", refit=False).fit(smiles, labels)
    model.save(tmp_path / "model")
    train = {smiles[row] for row in model.split_.rows("train").tolist()}
    assert "c1ccc(CC)cc1" in train
    new = [*dict.fromkeys(smiles), "CCc1ccccc1", "CCCCCCO", "CCCCCCN", "c1ccc(CC)cc1"]  # another notation of the same
    given = [*(str(place % 2) for place in range(len(new) - 1)), ""]  # the last row is not counted
    path = write(tmp_path / "new.csv", smiles=new, label=given)
    expected = sum(one in train for one in new[:-1]) + 1
    for size in (7, 1000):
        assert evaluate_file(model.model_, path, size=size)["training_rows"] == expected
    words = ["evaluate", str(tmp_path / "model"), str(path)]
    assert cli.run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["training_rows"] == expected
    (note,) = (one for one in report["notes"] if "trained on" in one)
    assert f" {expected} of {len(new) - 1} labelled rows" in note
    assert cli.run(words) == 0
    assert note in capsys.readouterr().err
    others = write(tmp_path / "others.csv", smiles=["CCCCCCO", "CCCCCCN"], label=["0", "1"])
    assert evaluate_file(model.model_, others)["training_rows"] == 0
    (tmp_path / "model" / TRAINING).unlink()
    assert cli.run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["training_rows"] is None
    assert not any("trained on" in one for one in report["notes"])


@pytest.mark.parametrize("x", [None, [[1], [0]], [[0.5], [-0.0]]])
def test_graphs_that_the_model_was_trained_on_are_counted(x: list[list[float]] | None, tmp_path: Path) -> None:
    def line(nodes: int, more: int) -> dict[str, Any]:
        edges = [[node, node + 1] for node in range(nodes - 1)] + [[0, 2 + more]]
        features = {} if x is None else {"x": [x[(node + more) % 2] for node in range(nodes)]}
        return {"edges": edges, "num_nodes": nodes, "label": more % 2, **features}

    lines = [line(nodes, more) for nodes in range(6, 30) for more in range(3)]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    source, recipe = OwnFile(tmp_path / "old.jsonl", ("label",), split="random"), Recipe("linear")
    quick: Any = {"runs": tmp_path / "runs", "baseline": False, "page": False, "hardware": Hardware()}
    fit_file(source, tmp_path / "all", recipe, **quick)
    every = FittedModel.load(tmp_path / "all")
    assert evaluate_file(every, tmp_path / "old.jsonl", size=20)["training_rows"] == len(lines)
    report = fit_file(source, tmp_path / "model", recipe, refit=False, **quick)
    model = FittedModel.load(tmp_path / "model")
    assert evaluate_file(model, tmp_path / "old.jsonl", size=20)["training_rows"] == report["counts"]["train"]
    new = [lines[0], *(line(nodes, more) for nodes in range(40, 50) for more in range(2))]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(one) + "\n" for one in new))
    stored = model.training
    assert stored is not None
    first = 1 in stored.rows.tolist()
    found = evaluate_file(model, tmp_path / "new.jsonl")
    assert found["training_rows"] == int(first)
    model.training = replace(stored, hashes=None)  # an older model
    assert evaluate_file(model, tmp_path / "new.jsonl")["training_rows"] is None


@pytest.mark.parametrize(
    ("columns", "fact"),
    [
        ({"y": ["0", "1"]}, "no column 'label'"),
        ({"label": ["0", "maybe"]}, "contains 'maybe', but the model knows 0, 1"),
        ({"label": ["", ""]}, "has no label in label"),
    ],
)
def test_a_file_that_cannot_be_compared_is_refused(
    columns: dict[str, list[str]], fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smiles, labels = molecules()
    model: Any = GraphClassifier("linear", split="random").fit(smiles, labels)
    model.save(tmp_path / "model")
    path = write(tmp_path / "new.csv", smiles=["CCO", "CCN"], **columns)
    with pytest.raises(InputError, match=fact):
        evaluate_file(model.model_, path)
    assert cli.run(["evaluate", str(tmp_path / "model"), str(path)]) == 2
    assert cli.run(["evaluate", str(tmp_path / "model"), str(path), "--split", "test"]) == 2
    assert "leave them out with a file" in capsys.readouterr().err
