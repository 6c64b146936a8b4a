"""Every step of ``docs/adding.md`` works: outside the package, as an installed plugin, and inside the package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
FILES = {title: text for title, text in re.findall(r'^```\w+ title="(.*?)"\n(.*?)^```', PAGE, re.M | re.S)}
GOODFORMER = [sys.executable, "-P", "-m", "goodformer"]
"""The installed command, which does not have the current folder on its path."""
TINY = ["--set", "dataset.graphs=120", "--set", "model.dim=8", "--set", "training.epochs=1", "--quiet"]


def commands(heading: str) -> list[list[str]]:
    """Return the command lines under a heading of the page."""
    (section,) = (part for part in re.split(r"^## ", PAGE, flags=re.M) if part.startswith(heading))
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S) for line in block.splitlines()]
    return [shlex.split(line) for line in lines]


def run(words: list[str], folder: Path, *path: Path) -> str:
    """Run a command line of the page in a folder and return its output."""
    python = {"goodformer": GOODFORMER, "python": [sys.executable]}
    places = [*map(str, path), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    command = [*python.get(words[0], words[:1]), *words[1:]]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, own_cache: Path) -> Path:
    """A folder with the files of the page."""
    for name in ("groupdro.py", "groupdro.yaml", "rings.py", "pyproject.toml"):
        (tmp_path / name).write_text(FILES[name])
    return tmp_path


def test_a_module_of_your_own(folder: Path) -> None:
    show, train, compare = commands("A method in your own module")
    assert "eta, step size of the weights q." in run(show, folder)
    run(train, folder)
    table = run(compare, folder)
    assert [line.split("  ")[0].strip() for line in table.splitlines() if "GraphGPS" in line or "ERM" in line] == [
        "ERM",
        "groupdro on GraphGPS",
    ]
    card, train = commands("A data set")
    assert "Rings with and without a chord" in run(card, folder)
    run(train, folder)
    trained = {path.parent.name.partition("-s0-")[0] for path in folder.glob("runs/*/summary.json")}
    assert trained == {
        "good-motif-basis-covariate-groupdro-gin",
        "good-motif-basis-covariate-erm-gin",
        "good-motif-basis-covariate-groupdro-gps",
        "rings-groupdro-gin",
    }


def test_an_installed_package(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    site, place = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    install, show = commands("As an installed package")
    assert install == ["pip", "install", "."]
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    run(["python", "-m", *install, *options], folder)
    assert "method groupdro" in run(show, place, site)
    assert "groupdro" in run(["goodformer", "methods"], place, site)
    compare = ["goodformer", "compare", "--dataset", "good-motif", "--methods", "groupdro", "--seeds", "1", *TINY]
    assert "groupdro" in run(compare, place, site)
    data = str(ROOT / "examples" / "nitro.csv")
    fit = ["goodformer", "fit", data, "--target", "mutagenic", "--method", "groupdro", "--epochs", "1", "--quiet"]
    run([*fit, "--set", "model.dim=8", "-o", "model"], place, site)
    assert '"groupdro"' in (place / "model" / "model.json").read_text()


def test_a_file_inside_the_package(tmp_path: Path, own_cache: Path) -> None:
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "old_run"))
    package = tmp_path / "src" / "goodformer"
    (package / "methods" / "groupdro.py").write_text(FILES["groupdro.py"].replace('METHODS.add("groupdro"', "# "))
    line = FILES["src/goodformer/methods/__init__.py"]
    registry = package / "methods" / "__init__.py"
    registry.write_text(registry.read_text().replace("    },\n)", f"{line}    }},\n)"))
    show, contract = commands("Inside goodformer")
    assert "eta, step size" in run(show, tmp_path, tmp_path / "src")
    assert "passed" in run(
        [*contract[:-1], "groupdro and multiclass", "-p", "no:xdist"], tmp_path, tmp_path / "src", tmp_path
    )
