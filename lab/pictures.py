"""Screenshots of pages for the documentation: ``python -m lab.pictures``.

Fits the model of the getting-started page to ``examples/nitro.csv``, predicts ``examples/new.csv``, and photographs the
pages of both, the page of all records and the web page in Debian's chromium. Takes some minutes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WIDTH, PHONE = 1280, 390
PORT = 8765


def run(*words: str | Path) -> None:
    """Run a goodformer command; a failure ends the program."""
    subprocess.run([sys.executable, "-m", "goodformer", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def browser() -> Iterator[Any]:
    """Start chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def served(model: Path) -> Iterator[str]:
    """Serve a model on this machine."""
    process = subprocess.Popen([sys.executable, "-m", "goodformer", "serve", str(model), "--port", str(PORT)])
    try:
        yield f"http://127.0.0.1:{PORT}/"
    finally:
        process.terminate()
        process.wait()


def opened(chromium: Any, address: str, width: int = WIDTH) -> Any:
    """Open a page, and wait for a server that is still starting."""
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
    for _ in range(60):
        try:
            page.goto(address)
            return page
        except Exception:  # the server does not listen yet
            time.sleep(1)
    raise SystemExit(f"{address} cannot be opened.")


def section(page: Any, first: str, last: str, out: Path) -> None:
    """Photograph a page from the top of one element to the top of another."""
    boxes = [page.locator(one).first.bounding_box() for one in (first, last)]
    size = page.viewport_size["width"]
    area = {"x": 0, "y": max(boxes[0]["y"] - 12, 0), "width": size, "height": boxes[1]["y"] - boxes[0]["y"]}
    page.screenshot(path=out, clip=area, full_page=True)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("pictures"), help="Folder for model, answers and pages.")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "images", help="Folder for the pictures.")
    words = parser.parse_args()
    work, out = words.work.absolute(), words.out.absolute()
    model, answers, new = work / "nitro", work / "answers.csv", ROOT / "examples" / "new.csv"
    if not model.exists():
        data = ROOT / "examples" / "nitro.csv"
        run("fit", data, "--target", "nitro", "--split", "scaffold", "-o", model, "--runs", work / "runs", "--quiet")
    run("predict", model, new, "-o", answers, "--quiet")
    run("report", model, answers, "-o", work / "answers.html")
    run("report", *sorted((ROOT / "results").glob("*.jsonl")), "-o", work / "runs.html")
    with browser() as chromium, served(model) as address:
        page = opened(chromium, (model / "report.html").as_uri())
        section(page, "body", "#shift", out / "report-model.png")
        section(page, "#shift", "#uncertainty", out / "report-shift.png")
        if page.locator("#groups").count():
            section(page, "#groups", "#errors", out / "report-scaffold.png")
        page = opened(chromium, (work / "answers.html").as_uri())
        section(page, "#rows", "#row-table tbody tr:nth-child(6)", out / "report-answers.png")
        page = opened(chromium, (work / "answers.html").as_uri(), PHONE)
        page.screenshot(path=out / "phone-answers.png")
        page.locator("#row-table").scroll_into_view_if_needed()
        page.screenshot(path=out / "phone-rows.png")
        page = opened(chromium, (work / "runs.html").as_uri())
        page.locator("h2", has_text="good-motif / basis / covariate, 18000").first.evaluate(
            "one => one.scrollIntoView()"
        )
        page.screenshot(path=out / "report-comparison.png")
        page = opened(chromium, address)
        page.set_input_files("#file", new)
        page.click("#ask button[type=submit]")
        page.hover("#table tbody tr:nth-child(3)")
        page.wait_for_selector("#why svg")
        page.screenshot(path=out / "serve.png")


if __name__ == "__main__":
    main()
