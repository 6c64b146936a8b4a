"""The page in a real browser: paste, open, draw, hover, sort, download; every number is that of the JSON interface."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apply.molecules import untrained
from tests.serve.conftest import Site, of_graphs, running

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
        page.set_default_timeout(60_000)
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


def test_nothing_is_marked_where_no_part_decides(open_page: Any, two: Site) -> None:
    page = open_page(two)
    page.fill("#text", "c1ccccc1CC[N+](=O)[O-]\n")
    page.click("text=Predict")
    page.wait_for_selector("#why figure >> nth=1")
    for name, marked in (("nitro", True), ("other", False)):
        figure = page.locator(f"#why figure[data-model='{name}']")
        assert (figure.locator(".fact").inner_text() == "verdict no single part") != marked
        assert ("ec4a34" in figure.locator("img").get_attribute("src").lower()) == marked
        assert (figure.locator(".bar.strong").count() > 0) == marked
        assert (figure.locator(".key i").count() > 0) == marked  # otherwise a sentence without colours
        assert figure.locator(".key").inner_text()
        assert ("the marked bonds" in figure.inner_text()) == marked


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
    wanted = site.client.post("/predict?format=csv", content=bad.read_bytes()).json()["error"]
    advice = page.inner_text("#message").removeprefix(wanted.partition("?smiles=COLUMN")[0])
    option = page.locator("label:has(#column)").evaluate("label => label.firstChild.textContent.trim()")
    assert option in advice  # what programs write is nothing that a reader can type
    assert page.inner_text("details.options summary") in advice
    assert "?" not in advice


def test_an_error_removes_earlier_answers(open_page: Any, site: Site, tmp_path: Path) -> None:
    page = open_page(site, expect_errors=True)
    page.set_input_files("#file", NEW)
    page.wait_for_selector("#why figure")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    page.set_input_files("#file", tmp_path / "bad.csv")
    page.wait_for_selector("#message.bad")
    assert not page.is_visible("#table")
    assert not page.is_visible("#download")
    assert page.locator("#results td, #why figure, #notes li").count() == 0
    page.set_input_files("#file", NEW)
    page.wait_for_selector("#why figure")
    assert page.is_visible("#download")
    assert not page.inner_text("#message")


@pytest.fixture
def mixed(fitted: Any) -> Iterator[Site]:
    """A server with models of other graphs, of molecules, and of molecules in a column with another name."""
    other = untrained("gsat", classes={"active": ("low", "high")})
    other.smiles = "structure"
    with running({"motif": of_graphs(), "nitro": fitted, "other": other}) as found:
        yield found


@pytest.mark.parametrize("paste", [True, False])
def test_a_model_that_cannot_read_the_rows_does_not_silence_the_others(
    open_page: Any, mixed: Site, tmp_path: Path, paste: bool
) -> None:
    page = open_page(mixed, expect_errors=True)
    page.click("details.options summary")

    def ask(text: str, name: str) -> None:
        (tmp_path / name).write_text(text)
        if paste:
            page.fill("#text", text)
            page.click("text=Predict")
        else:
            page.set_input_files("#file", tmp_path / name)

    def failed() -> list[str]:
        return [line.partition(":")[0] for line in page.inner_text("#message").splitlines()]

    def answered() -> list[str]:
        return page.locator("th.group").all_inner_texts()[1:]

    ask("CCO\nCCN\n", "one.smi")
    page.wait_for_selector("#why figure >> nth=1")
    assert (answered(), failed()) == (["nitro", "other"], ["motif"])
    wanted = mixed.client.post("/predict?model=nitro", json={"smiles": ["CCO", "CCN"]}).json()["columns"]
    assert shown(page, "p_yes", "nitro") == wanted["p_yes"]

    ask("name,structure\nx,CCO\n", "two.csv")
    page.wait_for_selector("#why h2:has-text('x')")
    assert (answered(), failed()) == (["other"], ["motif", "nitro"])
    assert shown(page, "structure") == ["CCO"]

    page.fill("#column", "nowhere")
    ask("name,smiles\nx,CCO\n", "three.csv")
    page.wait_for_selector("#results", state="hidden")
    assert failed() == ["motif", "nitro", "other"]


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
