"""The first thing a user runs, in small."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from goodformer import quickstart
from goodformer.data import load_benchmark


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A quick start on so few graphs that nothing is learnt."""
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(quickstart, "DATASET", {**quickstart.DATASET, "graphs": 300})
    short = tuple(
        quickstart.Contestant(one.title, one.method, one.model, epochs=1, overrides=(*one.overrides, "model.dim=16"))
        for one in quickstart.CONTESTANTS
    )
    monkeypatch.setattr(quickstart, "CONTESTANTS", short)
    return tmp_path / "quickstart"


def test_it_ends_in_a_table_and_a_picture_and_repeats_at_once(small: Path) -> None:
    report = quickstart.run(small, progress=False)
    assert [row[0] for row in report["rows"]][:2] == [one.title for one in quickstart.CONTESTANTS]
    assert report["rows"][-1][2:4] == ["93.3", "93.3"]
    assert imread(report["picture"]).shape[0] > 300
    assert set(report["summaries"]) == {"erm", "goodformer"}
    before = {path: path.stat().st_mtime_ns for path in small.glob("*/summary.json")}
    assert quickstart.run(small, progress=False) == report
    assert before == {path: path.stat().st_mtime_ns for path in small.glob("*/summary.json")}
    assert len(before) == 2


def test_the_ceiling_is_that_of_labels_drawn_anew_and_pages_say_so() -> None:
    """A label drawn anew is right by chance one time in three, so fewer than one in ten are wrong."""
    graphs = load_benchmark("good-motif", graphs=6000).splits["train"].graph
    assert float((graphs["y"].flatten() == graphs["motif"]).float().mean()) == pytest.approx(
        quickstart.CEILING, abs=0.02
    )
    assert "drawn anew" in quickstart._ceiling_row()[0]
    root = Path(__file__).parents[2]
    for page in (root / "README.md", *(root / "docs").rglob("*.md")):
        text = " ".join(page.read_text().split()).lower()
        for sentence in re.findall(r"one label in ten[^:.,]*", text):
            assert "drawn anew among three classes" in sentence, page


def test_the_budget_cuts_graphs_and_the_contestants_name_their_epochs() -> None:
    configs = {one.method: one.config(seed=0) for one in quickstart.CONTESTANTS}
    assert {config.dataset["graphs"] for config in configs.values()} == {20_000}
    assert {config.budget for config in configs.values()} == {"quickstart"}
    assert {method: config.training.epochs for method, config in configs.items()} == {"erm": 5, "goodformer": 3}


def test_committed_records_of_erm_are_those_of_today() -> None:
    """The label of a budget may change; what is computed, and so the id of the run, may not."""
    erm = next(one for one in quickstart.CONTESTANTS if one.method == "erm")
    assert erm.config(seed=0).id == "40709a40b7a5"
