"""The page in a real browser: paste, open, draw, hover, sort, download; every number is that of the JSON interface."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import Site, running

ROOT = Path(__file__).parents[2]
NEW = ROOT / "examples" / "new.csv"
ROW = "tr[data-row='{}']"


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """A function that opens the page of a site; afterwards, no error was logged and no request left the server."""
    wrong: list[str] = []
    contexts = []

    def opened(site: Site, width: int = 1280, expect_errors: bool = False) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        if not expect_errors:
            page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        local = (site.address, "data:", "blob:")
        page.on("request", lambda asked: None if asked.url.startswith(local) else wrong.append(asked.url))
        page.goto(site.address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def shown(page: Any, column: str, model: str | None = None) -> list[Any]:
    """The values of a column of the table, top to bottom."""
    chosen = f"td[data-column='{column}']" + (f"[data-model='{model}']" if model else "")
    return [json.loads(value) for value in page.locator(chosen).evaluate_all("all => all.map(c => c.dataset.value)")]


def texts(page: Any, column: str) -> list[str]:
    return page.locator(f"td[data-column='{column}']").all_inner_texts()


def test_paste_and_read_the_numbers(open_page: Any, site: Site) -> None:
    page = open_page(site)
    page.fill("#text", "Cc1ncc([N+](=O)[O-])n1CCO metronidazole\nCCO\n<b>x</b>\n")
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#why figure")
    wanted = site.client.post(
        "/predict",
        content=b"Cc1ncc([N+](=O)[O-])n1CCO metronidazole\nCCO\n<b>x</b>\n",
        headers={"content-type": "text/plain"},
    ).json()
    for name in ("predicted", "p_yes", "p_no", "domain_score", "outside", "problem", "smiles", "name"):
        assert shown(page, name) == wanted["columns"][name], name
    assert [float(text) for text in texts(page, "p_yes") if text] == [
        round(v, 3) for v in wanted["columns"]["p_yes"][:2]
    ]
    verdicts = {True: "outside", False: "inside", None: ""}
    assert texts(page, "outside") == [verdicts[value] for value in wanted["columns"]["outside"]]
    assert texts(page, "smiles")[2] == "<b>x</b>"  # shown, not read as HTML
    assert page.locator("button.row").nth(2).is_disabled()
    assert "1 cannot be read" in page.inner_text("#summary")


def test_upload_hover_sort_and_download(open_page: Any, site: Site, tmp_path: Path) -> None:
    page = open_page(site)
    page.set_input_files("#file", NEW)
    page.wait_for_selector("#why figure")
    wanted = site.client.post("/predict?format=csv", content=NEW.read_bytes()).json()["columns"]
    assert shown(page, "p_yes") == wanted["p_yes"]

    # Hover a row: its atoms with their scores; hover an atom: its number.
    page.hover(ROW.format(1))
    page.wait_for_selector("#why h2:has-text('metronidazole')")
    graph = site.client.post("/explain", json={"smiles": [wanted["smiles"][1]]}).json()["graphs"][0]
    listed = page.locator("#why tr[data-atom]").evaluate_all(
        "rows => rows.map(r => [Number(r.dataset.atom), JSON.parse(r.querySelector('td.number').dataset.value)])"
    )
    assert dict(listed) == dict(enumerate(graph["node_scores"]))
    assert [score for _, score in listed] == sorted(graph["node_scores"], reverse=True)
    nitrogen = graph["elements"].index("N")
    page.locator(f"circle[data-atom='{nitrogen}']").hover()
    assert page.inner_text("#why .said") == f"atom {nitrogen}, N: {graph['node_scores'][nitrogen]:.3f}"
    assert page.locator("#why tr.pointed").get_attribute("data-atom") == str(nitrogen)
    box, image = page.locator(f"circle[data-atom='{nitrogen}']").bounding_box(), page.locator("#why img").bounding_box()
    middle = (box["x"] + box["width"] / 2 - image["x"]) * 420 / image["width"]
    assert middle == pytest.approx(graph["places"][nitrogen][0], abs=2)
    assert page.locator("#why img").evaluate("image => image.naturalWidth") == 420

    # Sort up and down; rows without a value come last.
    head = page.get_by_role("button", name="p_yes")
    known = sorted(value for value in wanted["p_yes"] if value is not None)
    head.click()
    assert shown(page, "p_yes") == [*known, None]
    head.click()
    assert shown(page, "p_yes") == [*known[::-1], None]
    assert page.locator("th[aria-sort='descending']").inner_text().startswith("p_yes")

    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == wanted["name"]
    assert [float(row["p_yes"]) if row["p_yes"] else None for row in rows] == wanted["p_yes"]
    assert rows[8]["problem"] == wanted["problem"][8]


def test_two_models_side_by_side(open_page: Any, two: Site) -> None:
    page = open_page(two)
    page.fill("#text", "CCO\nc1ccccc1O\n")
    page.click("text=Predict")
    page.wait_for_selector("#why figure >> nth=1")
    for name in ("nitro", "other"):
        wanted = two.client.post(f"/predict?model={name}", json={"smiles": ["CCO", "c1ccccc1O"]}).json()["columns"]
        assert shown(page, "predicted", name) == wanted["predicted"]
    assert page.locator("th.group").all_inner_texts() == ["", "nitro", "other"]
    assert page.locator("#why figcaption b").all_inner_texts() == ["nitro", "other"]
    assert page.locator("#models li").count() == 2


def test_only_the_keyboard(open_page: Any, site: Site) -> None:
    page = open_page(site)
    page.focus("#text")
    page.keyboard.type("CCO\nCCN\n")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Predict"
    page.keyboard.press("Enter")
    page.wait_for_selector("#why h2:has-text('Row 1')")
    page.locator("button.row").nth(1).focus()
    page.wait_for_selector("#why h2:has-text('Row 2')")
    page.locator("#why tr[data-atom='2']").focus()
    assert page.inner_text("#why .said").startswith("atom 2, N")


def test_a_drawing_is_predicted(open_page: Any, site: Site) -> None:
    page = open_page(site)
    page.click("#draw")
    page.wait_for_selector("#take:enabled")
    box = page.locator("#editor").bounding_box()
    page.mouse.click(box["x"] + 300, box["y"] + 200)  # a first bond: ethane
    page.wait_for_timeout(100)
    page.click("#take")
    page.wait_for_selector("#why figure")
    assert shown(page, "smiles") == ["CC"]


def test_errors_are_shown(open_page: Any, site: Site, tmp_path: Path) -> None:
    page = open_page(site, expect_errors=True)
    page.click("text=Predict")
    assert page.inner_text("#message")
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    page.set_input_files("#file", bad)
    page.wait_for_selector("#message.bad:has-text(\"'smiles'\")")
    assert (
        page.inner_text("#message") == site.client.post("/predict?format=csv", content=bad.read_bytes()).json()["error"]
    )


def test_the_token_is_asked_for(open_page: Any, fitted: Any) -> None:
    with running({"nitro": fitted}, token="secret") as site:
        page = open_page(site, expect_errors=True)
        page.fill("#token", "secret")
        page.press("#token", "Enter")
        page.wait_for_selector("#models li")
        page.fill("#text", "CCO")
        page.click("text=Predict")
        page.wait_for_selector("#why figure")
        assert shown(page, "smiles") == ["CCO"]


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(open_page: Any, two: Site, width: int) -> None:
    page = open_page(two, width)
    page.set_input_files("#file", NEW)
    page.wait_for_selector("#why figure >> nth=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
