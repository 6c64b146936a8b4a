"""A browser, and small fitted models whose pages the tests open."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from goodformer.apply.fit import OwnFile, fit_file
from goodformer.apply.predict import predict_file
from goodformer.apply.recipe import Recipe
from goodformer.config.run import Hardware
from goodformer.fitted import FittedModel
from tests.apply.molecules import molecules

QUIET = Hardware(progress=False, tensorboard=False)
EVIL = '<img src=x onerror="boom()"> & "co"'
"""Text of a user that must stay text."""


@pytest.fixture(scope="session")
def opened(browser: Any) -> Callable[..., Any]:
    """Return a function that opens a page from disk; leaving it fails on errors and on requests to any other place."""

    @contextmanager
    def open_page(path: Path, width: int = 1280, scheme: str = "light") -> Iterator[Any]:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(10_000)
        wrong: list[str] = []
        address = path.resolve().as_uri()

        def answer(route: Any) -> None:
            if route.request.url.partition("#")[0] == address:
                route.continue_()
            else:
                wrong.append(f"request to {route.request.url}")
                route.abort()

        page.route("**/*", answer)
        page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        yield page
        assert not wrong
        page.close()

    return open_page


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a data cache of its own."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="session")
def nitro(home: Path) -> dict[str, Any]:
    """A model of molecules with one target, its report, and its baselines."""
    smiles, labels = molecules()
    rows = [(EVIL, one, "yes" if label else EVIL) for one, label in zip(smiles, labels, strict=True)]
    rows.insert(3, ("broken", f"c1ccc({EVIL}", "yes"))
    write(home / "nitro.csv", ("name", "smiles", "nitro"), rows)
    tiny = ["model.dim=16", "model.encoder_dim=8", "training.epochs=2"]
    source = OwnFile(home / "nitro.csv", ("nitro",))
    return fit_file(source, home / "nitro", Recipe(overrides=tiny), runs=home / "runs", hardware=QUIET)


@pytest.fixture(scope="session")
def answers(home: Path, nitro: dict[str, Any]) -> Path:
    """Predictions for new rows, one of which cannot be read."""
    new = ["CC[N+](=O)[O-]", "CCO", "c1ccccc1C(=O)O", "NCC(=O)NCC(=O)O", "nonsense", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"]
    write(home / "new.csv", ("id", "smiles"), [(f"{EVIL} {place}", one) for place, one in enumerate(new)])
    predict_file(FittedModel.load(nitro["folder"]), home / "new.csv", home / "answers.csv", 0.9)
    return home / "answers.csv"


@pytest.fixture(scope="session")
def several(home: Path) -> dict[str, Any]:
    """A quick model of molecules with two targets, one of them with missing labels."""
    smiles, labels = molecules()
    rows = [
        (one, label, "" if place % 5 == 0 else int("c1" in one))
        for place, (one, label) in enumerate(zip(smiles, labels, strict=True))
    ]
    write(home / "two.csv", ("smiles", "nitro", "aromatic"), rows)
    source = OwnFile(home / "two.csv", ("nitro", "aromatic"), split="random")
    return fit_file(source, home / "two", Recipe("linear"), runs=home / "runs", hardware=QUIET, baseline=False)


@pytest.fixture(scope="session")
def graphs(home: Path) -> dict[str, Any]:
    """A model of three classes of graphs that are not molecules."""
    lines = []
    for number in range(90):
        nodes, kind = 5 + number % 7, number % 3
        edges = [[node, node + 1] for node in range(nodes - 1)] + [[0, 2 + kind]] * (kind < 2)
        lines.append({"edges": edges, "num_nodes": nodes, "label": ("triangle", "square", "path")[kind]})
    (home / "graphs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = OwnFile(home / "graphs.jsonl", ("label",), split="random")
    tiny = ["model.dim=16", "training.epochs=1"]
    return fit_file(
        source, home / "graphs", Recipe("erm", overrides=tiny), runs=home / "runs", hardware=QUIET, baseline=False
    )


def write(path: Path, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
