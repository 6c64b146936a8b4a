"""Pages opened from disk in a real browser: what they show is what the JSON says."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goodformer import cli
from goodformer.apply.fit import OwnFile, fit_file
from goodformer.apply.recipe import Recipe
from goodformer.config.presets import member_table
from goodformer.errors import InputError
from goodformer.explain.explanation import explain
from goodformer.explain.fidelity import NONE, VERDICTS
from goodformer.fitted import FittedModel
from goodformer.pages import EVIDENCE, attempted, evidence
from goodformer.pages.model import write as write_page
from goodformer.pages.report import report
from goodformer.spec import SPLIT_NAMES, split_names
from tests.pages.conftest import EVIL, QUIET, write

MOST = 5_000_000
"""Bytes of the largest page."""


def column(page: Any, table: str, number: int) -> list[str]:
    """The visible cells of a column."""
    rows = page.query_selector_all(f"#{table} tbody tr:not([hidden])")
    return [row.query_selector_all("td")[number].inner_text() for row in rows]


def test_a_model_page_shows_the_numbers_of_the_report(opened: Callable[..., Any], nitro: dict[str, Any]) -> None:
    path = Path(nitro["page"])
    assert path == Path(nitro["folder"]) / "report.html"
    assert path.stat().st_size < MOST
    with opened(path) as page:
        rows = [
            [cell.inner_text() for cell in row.query_selector_all("td")]
            for row in page.query_selector_all("#metric-table tbody tr")
        ]
        shown = {row[0]: row for row in rows if row[1] == "ROC-AUC"}
        for part in ("id_val", "id_test", "val", "test"):
            found = shown[SPLIT_NAMES[part]]
            assert found[2] == str(nitro["counts"][part])
            sides = [nitro["splits"], *(one["splits"] for one in nitro["baseline"]["rows"].values())]
            for place, splits in zip((3, 4, 6), sides, strict=True):
                value = splits[part]["rocauc"]
                assert found[place].split()[0] == ("-" if value is None else f"{value:.3f}")
        verdict = page.inner_text("#verdict")
        assert f"{nitro['splits']['test']['rocauc']:.3f}" in verdict
        assert nitro["baseline"]["best"] in verdict
        assert nitro["commit"] is None or nitro["commit"] in page.inner_text("main")


def test_a_model_page_draws_molecules_with_explanations_and_neighbours(
    opened: Callable[..., Any], nitro: dict[str, Any]
) -> None:
    kept = evidence.load(Path(nitro["folder"]))
    with opened(Path(nitro["page"])) as page:
        assert len(page.query_selector_all("article")) == sum(map(len, kept["shown"].values())) > 0
        assert len(page.query_selector_all("article > svg.drawing")) == len(page.query_selector_all("article"))
        summary = page.query_selector("article details summary")
        assert not page.is_visible(".near svg")
        summary.focus()
        page.keyboard.press("Enter")
        assert page.is_visible(".near svg")


def test_a_model_page_marks_what_explain_marks(
    opened: Callable[..., Any], nitro: dict[str, Any], tmp_path: Path
) -> None:
    kept, fitted = evidence.load(Path(nitro["folder"])), FittedModel.load(nitro["folder"])
    shown = [item for some in kept["shown"].values() for item in some]
    graphs = fitted.read([item["drawn_smiles"] for item in shown]).graphs
    assert [item["verdict"] for item in shown] == explain(fitted, graphs).verdicts
    verdicts = [*VERDICTS] * len(shown)
    for item, verdict in zip(shown, verdicts, strict=False):
        item["verdict"] = verdict
    del shown[-1]["verdict"]  # as in the evidence of earlier versions
    with opened(write_page(kept, tmp_path / "report.html")) as page:
        cards = page.query_selector_all("article")
        said = [card.query_selector("dd:last-of-type").inner_text() for card in cards]
        assert said[:-1] == verdicts[: len(cards) - 1]
        assert said[-1] not in VERDICTS
        red = [card.query_selector(":scope > svg path[stroke='var(--chosen)']") is not None for card in cards]
        assert red == [verdict != NONE for verdict in said]


def test_members_of_a_blend_have_a_table_and_those_of_earlier_pages_a_sentence(
    opened: Callable[..., Any], nitro: dict[str, Any], tmp_path: Path
) -> None:
    kept = evidence.load(Path(nitro["folder"]))
    member = {"method": "forest", "preset": "shared", "seed": 3, "weight": 0.25, "temperature": 1.5, "id_val": 0.625}
    table = member_table([member], split_names("scaffold"))
    kept["about"] |= {"members": table, "members_title": "ROC-AUC of it", "curves_of": ""}
    with opened(write_page(kept, tmp_path / "report.html")) as page:
        assert page.inner_text("#training + p") == "ROC-AUC of it."
        cells = [cell.inner_text() for cell in page.query_selector_all("#members tbody td")]
        assert cells == ["forest:shared", "3", "0.250", "1.500", "0.625", "-", "-", "-"]
    kept["about"]["members"] = "Members: a forest."
    with opened(write_page(kept, tmp_path / "report.html")) as page:
        assert page.inner_text("#training + p") == "Members: a forest."


def test_text_of_a_user_stays_text(opened: Callable[..., Any], nitro: dict[str, Any], answers: Path) -> None:
    made = report([nitro["folder"], answers])
    for path in (Path(nitro["page"]), made):
        with opened(path) as page:
            assert EVIL in page.inner_text("main")
            assert page.query_selector_all("img") == []


def test_a_table_is_sorted_and_filtered(opened: Callable[..., Any], nitro: dict[str, Any], answers: Path) -> None:
    with answers.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not row["problem"]]
    path = report([nitro["folder"], answers])
    assert path == answers.with_suffix(".html")
    with opened(path) as page:
        heads = [one.inner_text().strip() for one in page.query_selector_all("#row-table th")]
        score, predicted = heads.index("domain score"), heads.index("predicted")
        assert column(page, "row-table", predicted) == [row["predicted"] for row in rows]
        head = page.query_selector_all("#row-table th")[score]
        head.query_selector("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        expected = sorted((float(row["domain_score"]) for row in rows), reverse=True)
        assert column(page, "row-table", score) == [f"{one:.2f}" for one in expected]
        head.query_selector("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, "row-table", score) == [f"{one:.2f}" for one in reversed(expected)]
        outside = sum(row["outside"] == "True" for row in rows)
        page.check("input[data-key=outside]")
        assert len(column(page, "row-table", score)) == outside
        assert page.inner_text("output") == f"{outside} of {len(rows)} rows"
        page.uncheck("input[data-key=outside]")
        page.fill("input[type=search]", "cc(c)cc1ccc")  # a SMILES, which the table holds as a drawing
        assert column(page, "row-table", heads.index("row")) == ["6"]
        page.fill("input[type=search]", "")
        page.select_option("select[data-key=predicted]", "yes")
        assert set(column(page, "row-table", predicted)) <= {"yes"}
        assert f"{outside / len(rows):.0%}" in page.inner_text("#verdict")
        assert "nonsense" not in page.inner_text("#row-table")
        assert page.query_selector("#problems")


def test_a_page_fits_a_phone_in_the_dark_and_on_paper(opened: Callable[..., Any], nitro: dict[str, Any]) -> None:
    with opened(Path(nitro["page"]), 390, "dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark, light) == ("rgb(20, 24, 29)", "rgb(255, 255, 255)")
        page.emulate_media(media="print")
        assert not page.is_visible("#theme")
        assert page.is_visible("#verdict")


def test_several_targets_have_a_panel_each(opened: Callable[..., Any], several: dict[str, Any]) -> None:
    with opened(Path(several["page"])) as page:
        assert page.is_visible("[data-panel='1']")
        assert not page.is_visible("[data-panel='2']")
        page.select_option("#target", "2")
        assert page.is_visible("[data-panel='2']")
        assert not page.is_visible("[data-panel='1']")
        page.click("text=Other metrics")
        for table, metric in (("metric-table", "ROC-AUC"), ("other-metrics", "accuracy")):
            parts, targets, metrics = (column(page, table, place) for place in range(3))
            assert [one for part, one in zip(parts, targets, strict=True) if part == "test"] == [
                *("mean", "nitro", "aromatic")
            ]
            assert set(metrics) == {metric}
        rows = {int(one.replace(",", "")) for one in column(page, "metric-table", 3)}
        assert max(rows) == several["counts"]["train"]  # the mean counts rows, not labels
    kept = evidence.load(Path(several["folder"]))["metrics"]["test"]
    by_target = {row["target"]: row["value"] for row in kept if row["metric"] == "rocauc"}
    assert by_target[""] == pytest.approx(several["splits"]["test"]["rocauc"], abs=1e-4)
    assert by_target[""] == pytest.approx(np.mean([by_target["nitro"], by_target["aromatic"]]), abs=1e-5)


def test_a_row_without_a_deciding_part_is_drawn_without_marks(
    opened: Callable[..., Any], nitro: dict[str, Any], answers: Path, tmp_path: Path
) -> None:
    with answers.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    more = {"verdict": "decides", "marked": "0 1", "neighbour_1_row": "7", "neighbour_1_smiles": "CCO"}
    given = tmp_path / "explained.csv"
    with given.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*rows[0], *more])
        writer.writeheader()
        writer.writerows(
            {**row, **more, **({"verdict": "no single part"} if not at else {})} for at, row in enumerate(rows)
        )
    drawings = []
    for path in (report([nitro["folder"], answers]), report([nitro["folder"], given])):
        with opened(path) as page:
            drawings.append([one.inner_html() for one in page.query_selector_all("#row-table td svg")])
            heads = [one.inner_text().strip() for one in page.query_selector_all("#row-table th")]
            verdicts = column(page, "row-table", heads.index("marked part")) if "marked part" in heads else []
    assert verdicts[:2] == ["no single part", "decides"]
    assert not any("neighbour" in head for head in heads)
    assert drawings[1][0] == drawings[0][0]  # nothing is marked without a verdict, and where no part decides
    assert len(drawings[1][1]) > len(drawings[0][1])


def test_graphs_are_drawn_as_graphs(
    opened: Callable[..., Any], graphs: dict[str, Any], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(graphs["page"])) as page:
        assert page.query_selector("svg.drawing[aria-label*='nodes']")
        assert "ROC-AUC" not in page.inner_text("#metric-table")
    data, out = str(home / "graphs.jsonl"), str(home / "graph-answers.csv")
    assert cli.run(["predict", graphs["folder"], data, "-o", out, "--quiet"]) == 0
    assert cli.run(["report", graphs["folder"], out]) == 2
    assert "--data" in capsys.readouterr().err
    assert cli.run(["report", graphs["folder"], out, "--data", data, "-o", str(home / "g.html")]) == 0
    with opened(home / "g.html") as page:
        assert len(page.query_selector_all("#row-table svg.drawing")) == 90


def test_a_run_has_a_page_too(opened: Callable[..., Any], explained: Any, shared_cache: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(shared_cache))
        path = report([explained.folder], tmp_path / "run.html")
    with opened(path) as page:
        value = explained.summary["splits"]["test"]["accuracy"]
        assert f"{value:.3f}" in page.inner_text("#verdict")


def test_a_comparison_shows_tables_curves_and_what_is_not_run(opened: Callable[..., Any], tmp_path: Path) -> None:
    config = {"dataset": {"name": "good-motif", "domain": "basis", "shift": "covariate"}}
    lines = []
    for method, seed, value in (("erm", 0, 0.5), ("erm", 1, 0.6), ("gsat", 0, 0.7), ("gsat", 1, 0.9)):
        one = {"id": f"{method}{seed}", "dataset": "good-motif", "domain": "basis", "shift": "covariate"}
        one |= {"train_graphs": 100, "method": method, "model": "gin", "preset": "default", "seed": seed, "epochs": 2}
        one |= {"budget": "full", "selection": "ood_val", "metric": "accuracy", "ood_test": value, "id_test": 0.9}
        one |= {"precision_at_10": value / 2, "curves": {"ood_test": [0.1, value]}, "config": config}
        lines.append(json.dumps(one))
    (tmp_path / "records.jsonl").write_text("\n".join(lines))
    path = report([tmp_path / "records.jsonl"])
    assert path == tmp_path / "report.html"
    with opened(path) as page:
        rows = page.query_selector_all("#part-0-table tbody tr")
        assert [row.query_selector_all("td")[1].inner_text() for row in rows] == ["80.00 ±14.14", "55.00 ±7.07"]
        head = page.query_selector_all("#part-0-table th button")[1]
        for order in (["80.00 ±14.14", "55.00 ±7.07"], ["55.00 ±7.07", "80.00 ±14.14"]):
            head.click()
            assert column(page, "part-0-table", 1) == order
        assert "gsat" in page.inner_text("p.verdict")
        titles = [one.text_content() for one in page.query_selector_all("svg.chart circle title")]
        assert any(one.endswith(": 2, 80") for one in titles)
        page.click("details:has-text('not run here') summary")
        assert "GIL" in page.inner_text("details:has-text('not run here')")


def test_answers_without_the_column_of_structures_ask_for_its_name(
    nitro: dict[str, Any], answers: Path, tmp_path: Path
) -> None:
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(answers.read_text().replace("smiles", "structure", 1))
    with pytest.raises(InputError, match=r"no column 'smiles'; .*--smiles COLUMN, or .*--data FILE"):
        report([nitro["folder"], renamed])
    assert report([nitro["folder"], renamed], smiles="structure").is_file()


def test_answers_of_another_model_are_noticed(nitro: dict[str, Any], answers: Path, home: Path, tmp_path: Path) -> None:
    fit_file(
        OwnFile(home / "nitro.csv", ("nitro",)),
        tmp_path / "other",
        Recipe("linear"),
        runs=tmp_path / "runs",
        hardware=QUIET,
        baseline=False,
    )
    with pytest.raises(InputError, match=r"other predicts other values .* of 5 rows differ"):
        report([tmp_path / "other", answers])
    assert report([nitro["folder"], answers], tmp_path / "same.html").is_file()
    with answers.open(newline="", encoding="utf-8") as file:
        rows = [{name: value for name, value in row.items() if name[:2] != "p_"} for row in csv.DictReader(file)]
    write(tmp_path / "slim.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    assert report([nitro["folder"], tmp_path / "slim.csv"]).is_file()


@pytest.mark.parametrize("given", ["model", "answers"])
def test_a_page_replaces_pages_but_no_other_file(
    given: str, nitro: dict[str, Any], answers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.html"
    own.write_text("<html><body>mine: goodformer</body></html>")
    words = ["report", nitro["folder"], *([str(answers)] if given == "answers" else []), "-o", str(own)]
    assert cli.run(words) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert "mine" in own.read_text()
    assert cli.run([*words, "--overwrite"]) == 0
    made = own.read_text()
    assert cli.run(words) == 0  # its own page
    own.write_text(re.sub('<meta name="generator".*', "", made))  # a page of an earlier version
    assert cli.run(words) == 0
    assert own.read_text() == made


def test_pages_of_records_and_runs_replace_no_other_file(explained: Any, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(json.dumps(explained.summary) + "\n")
    own = tmp_path / "report.html"
    for sources, out in (([tmp_path / "records.jsonl"], None), ([explained.folder], own)):
        own.write_text("mine")
        with pytest.raises(InputError, match="--overwrite"):
            report(sources, out)
    assert own.read_text() == "mine"


def test_a_page_that_fails_spoils_nothing(nitro: dict[str, Any]) -> None:
    def fail() -> Path:
        raise RuntimeError("no")

    page, notes = attempted(fail)
    assert page is None
    assert "no" in notes[0]


def test_without_evidence_or_with_damaged_evidence_the_error_says_what_to_do(
    nitro: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("model.json", EVIDENCE):
        (folder / name).write_bytes((Path(nitro["folder"]) / name).read_bytes())
    content = (folder / EVIDENCE).read_bytes()
    for damaged in (content[:200], b"not packed", gzip.compress(b"[1]"), gzip.compress(b'{"format": "other"}')):
        (folder / EVIDENCE).write_bytes(damaged)
        with pytest.raises(InputError, match=EVIDENCE):
            report([folder])
    os.remove(folder / EVIDENCE)
    with pytest.raises(InputError, match="no-report"):
        report([folder])
    with pytest.raises(InputError, match=r"\.html"):
        report([folder], tmp_path / "x.pdf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no finished run"):
        report([tmp_path / "empty"])
