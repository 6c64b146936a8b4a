"""The notebooks run from top to bottom, and the documentation shows them as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab import notebooks

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def _stem(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_stem)
@pytest.mark.timeout(1800)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    cells = [cell for cell in notebooks.executed(path)["cells"] if cell["cell_type"] == "code"]
    printed = ["".join("".join(one.get("text", "")) for one in cell["outputs"]) for cell in cells]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert printed[-1].strip().endswith(".html")
    pictures = [one for cell in cells for one in cell["outputs"] if "image/png" in one.get("data", {})]
    assert pictures
    if path.stem == "chemist":
        assert "metronidazole" in printed[2]
        assert "cannot be read" in printed[2]
    else:
        assert all(word in printed[1] for word in ("ERM", "GSAT", "GOODFormer"))
        assert "smoothed" in printed[3]


def test_there_are_two_notebooks_with_small_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["chemist", "researcher"]
    for path in NOTEBOOKS:
        assert path.stat().st_size < 200_000
        cells = [cell for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in cells), f"run python -m lab.notebooks {path.name} --run"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_stem)
def test_the_page_of_a_notebook_is_up_to_date(path: Path) -> None:
    text, pictures = notebooks.page(notebooks.read(path), path.stem)
    assert text == (ROOT / "docs" / f"notebook-{path.stem}.md").read_text(encoding="utf-8")
    for name, content in pictures.items():
        assert content == (ROOT / "docs" / "images" / name).read_bytes()


def test_outputs_that_are_kept_say_nothing_about_when_and_where(tmp_path: Path) -> None:
    cell = {
        "cell_type": "code",
        "metadata": {"execution": {"iopub.execute_input": "now"}},
        "source": ["1"],
        "execution_count": 1,
        "outputs": [{"output_type": "stream", "name": name, "text": [name]} for name in ("stdout", "stderr")],
    }
    found = notebooks.kept({"cells": [cell], "metadata": {"language_info": {"name": "python", "version": "3.11"}}})
    assert "now" not in json.dumps(found)
    assert [one["name"] for one in found["cells"][0]["outputs"]] == ["stdout"]
