"""Every step of ``docs/adding.md`` works: outside the package, as an installed plugin, and inside the package."""

from __future__ import annotations

import json
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
FILES = dict(re.findall(r'^```\w+ title="(.*?)"\n(.*?)^```', PAGE, re.M | re.S))
SEVERAL = "import json, sys; from goodformer import cli; sys.exit(max(map(cli.run, json.loads(sys.argv[1]))))"
"""Runs several command lines in one process, which imports torch once."""
TINY = ["--set", "dataset.graphs=120", "--set", "model.dim=8", "--set", "training.epochs=1", "--quiet"]


def commands(heading: str) -> list[list[str]]:
    """Return the command lines under a heading of the page."""
    (section,) = (part for part in re.split(r"^## ", PAGE, flags=re.M) if part.startswith(heading))
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S) for line in block.splitlines()]
    return [shlex.split(line) for line in lines]


def run(lines: list[list[str]], folder: Path, *path: Path) -> str:
    """Run command lines of the page in a folder, which is not on Python's path, and return their output."""
    if lines[0][0] == "python":
        command = [sys.executable, *lines[0][1:]]
    elif len(lines) == 1:
        command = [sys.executable, "-P", "-m", *lines[0]]
    else:
        assert all(line[0] == "goodformer" for line in lines)
        command = [sys.executable, "-P", "-c", SEVERAL, json.dumps([line[1:] for line in lines])]
    places = [*map(str, path), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, own_cache: Path) -> Path:
    """A folder with the files of the page."""
    for name in ("groupdro.py", "groupdro.yaml", "rings.py", "pyproject.toml"):
        (tmp_path / name).write_text(FILES[name])
    return tmp_path


def test_a_module_of_your_own(folder: Path) -> None:
    out = run([*commands("A method in your own module"), *commands("A data set")], folder)
    assert "eta, step size of the weights q." in out
    assert "Rings with and without a chord" in out
    rows = [line.strip().split("  ")[0] for line in out.splitlines()]
    assert rows.index("ERM") < rows.index("groupdro on GraphGPS")
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
    run([["python", "-m", *install, *options]], folder)
    assert "method groupdro" in run([show], place, site)
    compare = ["goodformer", "compare", "--dataset", "good-motif", "--methods", "groupdro", "--seeds", "1", *TINY]
    data = str(ROOT / "examples" / "nitro.csv")
    fit = ["goodformer", "fit", data, "--target", "nitro", "--method", "groupdro", "--epochs", "1", "--quiet"]
    out = run([["goodformer", "methods"], compare, [*fit, "--set", "model.dim=8", "-o", "model"]], place, site)
    assert "worst environment" in out
    assert len(list(place.glob("runs/good-motif-*-groupdro-gin-*/summary.json"))) == 1
    assert '"groupdro"' in (place / "model" / "model.json").read_text()


def test_a_file_inside_the_package(tmp_path: Path, own_cache: Path) -> None:
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "old_run"))
    package = tmp_path / "src" / "goodformer"
    outside = ("from goodformer import METHODS\n", 'METHODS.add("groupdro", GroupDRO)\n')
    assert all(FILES["groupdro.py"].count(text) == 1 for text in outside)
    inside = FILES["groupdro.py"].replace(outside[0], "").replace(f"\n\n{outside[1]}", "")
    (package / "methods" / "groupdro.py").write_text(inside)
    run(
        [["python", "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "src/goodformer/methods"]],
        tmp_path,
    )
    line = FILES["src/goodformer/methods/__init__.py"]
    registry = package / "methods" / "__init__.py"
    registry.write_text(registry.read_text().replace("    },\n)", f"{line}    }},\n)"))
    show, contract = commands("Inside goodformer")
    assert "eta, step size" in run([show], tmp_path, tmp_path / "src")
    contract[-1] = "(groupdro and multiclass) or one_way"
    assert "passed" in run([contract], tmp_path, tmp_path / "src", tmp_path)
