"""The baselines beside a fitted model: their figures, the sentence on them, and the forest as the model itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goodformer.apply.baseline import verdict
from goodformer.spec import SPLIT_NAMES
from tests.apply.molecules import write_table
from tests.cli.conftest import Command

TINY = ["--method", "erm", "--model", "gin", "--set", "model.dim=8", "--epochs", "1"]


def test_the_report_and_the_table_show_what_the_baselines_reach(command: Command) -> None:
    write_table(Path("mine.csv"), bad=False)
    words = ["fit", "mine.csv", "--target", "nitro", "--split", "scaffold", "-o", "model"]
    done = command(*words, *TINY)
    assert done.code == 0
    report = json.loads(Path("model/report.json").read_text())
    rows = report["baseline"]["rows"]
    assert list(rows) == ["forest", "linear"]
    for name, row in rows.items():
        summary = json.loads((Path("runs") / row["run"] / "summary.json").read_text())
        assert summary["method"] == name
        assert row["splits"] == summary["splits"]
    best = max(rows, key=lambda name: (rows[name]["splits"]["val"]["rocauc"], rows[name]["splits"]["id_val"]["rocauc"]))
    assert report["baseline"]["best"] == best
    for split, title in SPLIT_NAMES.items():
        (line,) = [line.split() for line in done.out.splitlines() if line.startswith(title)]
        figures = [report["splits"], *(row["splits"] for row in rows.values())]
        assert line[-3:] == [f"{one[split]['rocauc']:.3f}" for one in figures]
    sentence = verdict(report)
    assert sentence in done.out
    assert "forest" in done.err  # progress
    assert "--method" in sentence  # one epoch of a narrow GIN cannot find a nitro group; a forest can

    bare = command(*words, *TINY, "--no-baseline", "--json")
    assert bare.json["baseline"] is None
    assert not any("--method" in note for note in bare.json["notes"])


def test_measured_values_also_get_a_gaussian_process(command: Command) -> None:
    rows = [f"C{'C' * carbons}{'O' * oxygens},{carbons + 2 * oxygens}" for carbons in range(40) for oxygens in range(2)]
    Path("size.csv").write_text("\n".join(["smiles,size", *rows]))
    done = command("fit", "size.csv", "--target", "size", "--split", "random", "-o", "model", *TINY)
    assert done.code == 0
    found = json.loads(Path("model/report.json").read_text())["baseline"]
    assert list(found["rows"]) == ["forest", "linear", "gaussian-process"]
    rmse = {name: row["splits"]["val"]["rmse"] for name, row in found["rows"].items()}
    assert found["best"] == min(rmse, key=lambda name: rmse[name])
    head = next(line for line in done.out.splitlines() if "RMSE" in line).split()
    assert head[-3:] == list(rmse)


def report(own: float, other: float, low: float | None, high: float | None, metric: str = "rocauc") -> dict[str, Any]:
    difference = {"value": own - other, "low": low, "high": high}
    rows = {"forest": {"splits": {"val": {metric: other}}}}
    return {
        "metric": metric,
        "method": "erm",
        "splits": {"val": {metric: own}},
        "baseline": {"best": "forest", "rows": rows, "difference": difference},
        "split": "size",
        "given": [],
    }


def test_a_lower_error_is_better() -> None:
    assert "RMSE 0.700 against 0.900" in verdict(report(0.9, 0.7, 0.1, 0.3, "rmse"))
    assert verdict(report(0.7, 0.9, -0.3, -0.1, "rmse")) == ""


def test_only_a_baseline_that_is_better_beyond_chance_is_worth_a_sentence() -> None:
    sentence = verdict(report(0.8421, 0.8809, -0.0601, -0.0123))
    assert all(word in sentence for word in ("0.842", "0.881", "-0.060 to -0.012", "erm", "--method forest"))
    for low, high in ((-0.06, 0.01), (-0.06, 0.0), (0.01, 0.05), (None, None)):
        assert verdict(report(0.8421, 0.8809, low, high)) == ""
    assert verdict({**report(0.1, 0.9, -0.9, -0.7), "baseline": None}) == ""


def test_the_difference_has_an_interval_of_paired_resamples(command: Command) -> None:
    rng = np.random.default_rng(0)
    rows = [f"C{'C' * n}{'O' * k},{n + 2 * k + rng.normal(0, 0.1):.3f}" for n in range(60) for k in range(3)]
    Path("size.csv").write_text("\n".join(["smiles,size", *rows]))
    words = ["fit", "size.csv", "--target", "size", "--split", "random", "--no-report", "-o", "model"]
    found = command(*words, "--method", "forest", "--json").json
    splits = [one["splits"]["val"]["rmse"] for one in (found, found["baseline"]["rows"][found["baseline"]["best"]])]
    gap = found["baseline"]["difference"]
    assert gap["value"] == pytest.approx(splits[0] - splits[1], abs=1e-4)
    assert gap["low"] < gap["value"] < gap["high"]
    assert bool(verdict(found)) == (gap["low"] > 0)


def test_a_number_of_epochs_that_has_no_effect_is_noted(command: Command) -> None:
    write_table(Path("mine.csv"), bad=False)
    words = ["fit", "mine.csv", "-t", "nitro", "--no-baseline", "--no-report", "-o", "model", "--overwrite"]
    noted = "epochs is ignored: linear"
    assert noted in command(*words, "--method", "linear", "--epochs", "5").err
    assert noted in command(*words, "--method", "linear", "--set", "training.epochs=4").err
    config = next(Path("runs").glob("*/config.json"))
    assert noted in command("train", "--config", config, "--epochs", "3").err
    assert noted not in command("train", "--config", config).err
    assert "ignored" not in command(*words, *TINY).err


def test_the_plain_forest_is_a_baseline_of_a_tuned_one(command: Command) -> None:
    write_table(Path("mine.csv"), bad=False)
    words = ["fit", "mine.csv", "-t", "nitro", "--no-report", "-o", "model", "--overwrite", "--json"]
    assert list(command(*words, "--method", "forest").json["baseline"]["rows"]) == ["linear"]
    assert list(command(*words, "--method", "forest:tuned").json["baseline"]["rows"]) == ["forest", "linear"]


def test_no_epoch_is_named_where_there_was_none_to_select(command: Command) -> None:
    write_table(Path("mine.csv"), bad=False)
    done = command("fit", "mine.csv", "-t", "nitro", "--method", "linear", "--no-baseline", "-o", "model")
    run = command("train", "--config", next(Path("runs").glob("*/config.json")))
    for text in (
        done.out,
        done.err,
        run.out,
        *(Path("model", name).read_text() for name in ("card.md", "report.html")),
    ):
        assert text
        assert not re.search(r"(?i)epoch:? 1(/| of )1", text)


@pytest.mark.parametrize("method", ["forest", "linear"])
def test_the_forest_is_a_model_like_any_other(command: Command, method: str) -> None:
    write_table(Path("mine.csv"), bad=False)
    done = command("fit", "mine.csv", "-t", "nitro", "--method", method, "-o", "model", "--quiet", "--json")
    assert list(done.json["baseline"]["rows"]) == [{"forest": "linear", "linear": "forest"}[method]]
    assert done.json["epochs"] == 1
    said = command("predict", "model", "mine.csv", "-o", "answers.csv", "--sets", "0.9", "--json")
    assert said.json["unreadable"] == 0
    shown = command("explain", "model", "mine.csv", "--count", "2", "-o", "why")
    assert shown.code == 0
    assert Path("why/subgraphs.png").is_file()
