"""Comparisons from Python: missing runs are trained once, and the table shows them."""

from __future__ import annotations

from pathlib import Path

import goodformer as gf
from goodformer.comparing import Work

DATA = {"name": "good-motif", "domain": "basis", "graphs": 150}
SMALL = ["training.epochs=1", "model.dim=16", "model.layers=1"]


def test_missing_runs_are_trained_once(tmp_path: Path) -> None:
    nothing = gf.compare(DATA, "erm,irm", 1, overrides=SMALL, runs=tmp_path, work=None)
    assert not nothing.records
    assert "not run" in nothing.table.markdown()

    began: list[tuple[int, int]] = []
    done = gf.compare(
        DATA, "erm,irm", 1, overrides=SMALL, runs=tmp_path, work=Work(jobs=1), begin=lambda *two: began.append(two)
    )
    assert began == [(0, 2)]
    assert len(done.records) == len(done.runs) == 2
    assert not done.failures
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}
    assert len(times) == 2

    again = gf.compare(DATA, "erm", 1, overrides=SMALL, against="irm", runs=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")} == times
    (erm,) = (row for row in again.report["rows"] if row["row"] == "erm")
    assert erm["difference"] is not None


def test_an_artefact_of_the_paper(tmp_path: Path) -> None:
    done = gf.reproduce("table-predictor", budget="compare", dataset="good-motif/basis", runs=tmp_path)
    assert done.artefact.name == "table-predictor"
    assert done.report["gap"]["runs"] == len(done.report["tables"][0]["rows"]) * 3
    assert not done.failures
