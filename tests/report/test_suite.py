"""Suites: several data sets in one table, from records and predictions made by hand."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goodformer.cli import options
from goodformer.engine.predictions import KEPT
from goodformer.errors import InputError
from goodformer.report import compare, suite
from goodformer.report.compare import Comparison
from goodformer.report.paired import NOT_KEPT, OTHER_GRAPHS, PredictionStore
from goodformer.report.records import records_of
from goodformer.report.suite import Suite

TOY = {
    "toy": {
        "first": {"dataset": {"name": "bace"}, "each": {"seed": [0, 1]}},
        "second": {"dataset": {"name": "good-hiv", "domain": "size"}},
    }
}
STRENGTH = {"erm": 0.5, "gsat": 1.5}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setattr(suite, "read_settings", lambda name: TOY)
    return suite.plan("toy", "erm,gsat", 2)


def write(folder: Path, comparison: Comparison, number: int, **changed: Any) -> list[dict[str, Any]]:
    """Records of all runs of a comparison, their predictions beside them."""
    (folder / "predictions").mkdir(exist_ok=True)
    random = np.random.default_rng(number)
    y = (random.random((120, 1)) < 0.4).astype(np.float16)
    keys, lines = np.arange(120, dtype=np.uint32) + 1000 * number, []
    for (row, seed), config in comparison.configs.items():
        logits = (STRENGTH[row] * y + random.normal(size=y.shape)).astype(np.float32)
        arrays = {f"{split}/{name}": value for split in KEPT for name, value in (("logits", logits), ("y", y))}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays, **{"test/graphs": keys})  # type: ignore[arg-type]
        (folder / "predictions" / f"{config.id}.npz").write_bytes(buffer.getvalue())
        entry = {"sha256": hashlib.sha256(buffer.getvalue()).hexdigest(), "graphs": dict.fromkeys(KEPT, f"g{number}")}
        record = {"id": config.id, "config": config.to_dict(), "metric": "rocauc", "predictions": entry}
        lines.append({**record, "ood_test": STRENGTH[row] / 2 + seed / 10 + number / 100, **changed})
    return lines


@pytest.fixture
def file(toy: Suite, tmp_path: Path) -> Path:
    path = tmp_path / "made.jsonl"
    lines = [line for number, one in enumerate(toy.comparisons) for line in write(tmp_path, one, number)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def made(toy: Suite, file: Path, **options: Any) -> dict[str, Any]:
    found = records_of(toy.runs, file.parent / "runs", [file])
    return suite.report(toy, found, store=PredictionStore(file.parent / "runs", [file]), **options)


def test_means_count_every_data_set_once(toy: Suite, file: Path) -> None:
    report = made(toy, file, against="erm")
    erm, gsat = report["rows"]
    assert len(toy.runs) == 12
    # Seeds of `first`: 25 + 0 and + 1 (its splits), 35 + 0 and + 1; of `second`: 27 and 37.
    assert erm["data"]["first"] == {"ood_test": pytest.approx({"mean": 30.5, "std": 50**0.5}), "runs": 4, "wanted": 4}
    assert erm["data"]["second"]["ood_test"]["mean"] == pytest.approx(32.0)
    assert erm["ood_test"]["mean"] == pytest.approx((30.5 + 32.0) / 2)
    gains = gsat["differences"]
    assert erm["difference"] is None
    assert gsat["difference"]["mean"] == pytest.approx((gains["first"]["mean"] + gains["second"]["mean"]) / 2)
    assert gsat["difference"]["low"] > 0
    assert [gains[name]["graphs"] for name in gains] == [240, 120]
    width = {name: one["high"] - one["low"] for name, one in (*gains.items(), ("mean", gsat["difference"]))}
    assert width["mean"] < width["first"] < width["second"]


def test_the_table_shows_them(toy: Suite, file: Path) -> None:
    report = made(toy, file, against="erm", pairs=[("erm", "gsat")])
    json.dumps(report, allow_nan=False)
    table = suite.table(report)
    assert list(table.heads) == ["", "mean", "difference to ERM", "first", "difference", "second", "difference"]
    rows = {row[0].text: [cell.plain() for cell in row[1:]] for row in table.rows}
    assert rows["ERM"][:3] == ["31.25", "-", "30.50 ±7.07"]
    gain = report["rows"][1]["difference"]
    assert rows["GSAT"][1] == f"{gain['mean']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]"
    assert f"ERM minus GSAT: mean {-gain['mean']:+.2f}" in table.note
    assert "first 2 splits" in table.note


def test_of_several_rows_the_best_on_validation_counts(toy: Suite, file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    better = {"bace": "erm", "good-hiv": "gsat"}
    for line in lines:
        config = line["config"]
        line["ood_val"] = 0.8 if better[config["dataset"]["name"]] == config["method"]["name"] else 0.7
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report, to_erm, to_gsat = (made(toy, file, against=row) for row in ("erm,gsat", "erm", "gsat"))
    assert report["preferred"] == {"first": "ERM", "second": "GSAT"}
    assert report["against"] == "ERM or GSAT"
    erm, gsat = report["rows"]
    assert gsat["differences"]["first"] == to_erm["rows"][1]["differences"]["first"]
    assert erm["differences"]["second"] == to_gsat["rows"][0]["differences"]["second"]
    assert erm["differences"]["first"] is gsat["differences"]["second"] is None  # a row and itself
    assert gsat["difference"]["mean"] == pytest.approx(gsat["differences"]["first"]["mean"] / 2)
    assert "first ERM, second GSAT" in suite.table(report).note


def test_missing_runs_and_predictions_are_named(toy: Suite, file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[1:]) + "\n")  # without ERM, seed 0, on the first split
    report = made(toy, file, against="gsat")
    cells = {row[0].text: [cell.plain() for cell in row[1:]] for row in suite.table(report).rows}
    assert cells["ERM"][0] == "5 of 6 runs"
    assert "(3 of 4 runs)" in cells["ERM"][2]
    assert cells["ERM"][3].endswith("(1 of 2 seeds)")
    bare = [json.loads(line) for line in lines]
    file.write_text("".join(json.dumps({**line, "predictions": None}) + "\n" for line in bare))
    assert made(toy, file, against="erm")["rows"][1]["difference"] == NOT_KEPT
    assert made(toy, file, against="erm")["rows"][1]["differences"] == {"first": NOT_KEPT, "second": NOT_KEPT}


def test_one_comparison_has_the_same_column(toy: Suite, file: Path) -> None:
    one = toy.data["second"][0]
    found = records_of(one.runs, file.parent / "runs", [file])
    store = PredictionStore(file.parent / "runs", [file])
    report = compare.report(one, found, against="erm", pairs=[("gsat", "erm")], store=store)
    whole = made(toy, file, against="erm")["rows"][1]["differences"]["second"]
    assert report["rows"][1]["difference"]["mean"] == pytest.approx(whole["mean"])
    table = compare.table(report)
    assert table.heads[2] == "difference to ERM"
    assert table.rows[1][2].text.startswith(f"{whole['mean']:+.2f} [")
    assert f"GSAT minus ERM: {table.rows[1][2].text}" in table.note
    assert compare.report(one, found, against="erm")["rows"][1]["difference"] == NOT_KEPT


def test_rows_of_other_graphs_are_not_paired(toy: Suite, file: Path) -> None:
    one = toy.data["second"][0]
    found = records_of(one.runs, file.parent / "runs", [file])
    for record in found.values():
        if record["config"]["method"]["name"] == "gsat":
            record["predictions"]["graphs"]["test"] = "others"
    store = PredictionStore(file.parent / "runs", [file])
    assert compare.report(one, found, against="erm", store=store)["rows"][1]["difference"] == OTHER_GRAPHS


def test_the_suites_of_the_package_can_be_planned() -> None:
    assert set(options.SUITES.split(" or ")) == set(suite.names())
    for name, data_sets, runs in (("molecules", 5, 13), ("measurements", 2, 2), ("rules", 5, 5)):
        found = suite.plan(name, "erm", 1)
        assert (len(found.data), len(found.runs)) == (data_sets, runs)
        assert len({config.id for config in found.runs}) == runs


def test_mistakes() -> None:
    with pytest.raises(InputError, match="did you mean molecules"):
        suite.plan("molecule")
    with pytest.raises(InputError, match=r"row gsat is not in the comparison.*erm"):
        compare.plan({"name": "good-motif"}, "erm", 1).row("gsat")
