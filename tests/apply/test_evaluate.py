"""Metrics of a fitted model on a file with known labels, against scikit-learn's."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, mean_squared_error, roc_auc_score

from goodformer import GraphClassifier, GraphRegressor, InputError, cli
from goodformer.apply.evaluate import ALL, INSIDE, OUTSIDE, evaluate_file
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
