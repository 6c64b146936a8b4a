"""What is needed to install, cite and release."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import goodformer

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DATA = (".yaml", ".typed", ".html", ".css", ".js", ".j2", ".svg")
"""Suffixes of files in the package that are not code."""
PINNED = {"runtime": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


def locked(name: str) -> dict[str, list[str]]:
    """Every requirement of a file with its hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line.split(" --hash=") for line in text.splitlines() if line and not line.startswith("#")]
    return {words[0].strip(): [word.strip() for word in words[1:]] for words in lines}


def pins(name: str) -> dict[str, str]:
    """Package and version of every requirement of a file that holds on this machine."""
    entries = [Requirement(line) for line in locked(name)]
    for one in entries:
        assert re.fullmatch(r"==[0-9][A-Za-z0-9.+]*", str(one.specifier))
    here = [one for one in entries if one.marker is None or one.marker.evaluate()]
    return {_plain(one.name): str(one.specifier)[2:] for one in here}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", PINNED)
def test_everything_declared_is_pinned(name: str) -> None:
    pinned = pins(name if name in ("runtime", "docs") else "dev") | pins("torch")
    declared = {_plain(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in PINNED[name]}  # type: ignore[index]
    assert declared <= set(pinned)


@pytest.mark.parametrize("name", ["runtime", "dev", "docs"])
def test_every_pinned_file_has_its_hash(name: str) -> None:
    found, asked = locked(name), (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
    assert len(found) > 50
    for line, hashes in found.items():
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), line
    assert "torch" not in pins(name)  # one version of it has several builds
    tops = {line.partition("==")[0]: line.partition("==")[2] for line in asked if "==" in line}
    assert {_plain(package): version for package, version in tops.items()}.items() <= pins(name).items()
    assert pins("runtime").items() <= pins(name).items()


def test_make_installs_nothing_without_hashes_but_torch() -> None:
    said = subprocess.run(["make", "-nB", "check", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [line for line in said.splitlines() if "pip" in line and " install " in line]
    free = [line for line in installs if "--require-hashes" not in line]
    assert len(installs) == 5
    assert [line.split()[-1] for line in free] == ["requirements/torch.txt", "."]
    assert "--no-deps" in free[1]


def test_malicious_releases_of_lightning_are_never_installed() -> None:
    (line,) = (line for line in PROJECT["dependencies"] if line.startswith("lightning"))
    accepted = Requirement(line).specifier
    assert not {"2.6.2", "2.6.3"} & set(accepted.filter(["2.6.2", "2.6.3", "2.6.6"]))
    assert pins("runtime")["lightning"] in accepted
    assert pins("runtime")["pytorch-lightning"] in accepted


@pytest.mark.parametrize("name", ["torch", "runtime", "dev"])
def test_the_environment_is_the_pinned_one(name: str) -> None:
    for package, wanted in pins(name).items():
        try:
            assert version(package).partition("+")[0] == wanted, package
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed; make test installs it")


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert PROJECT["version"] == goodformer.__version__ == citation["version"]


def test_the_paper_is_cited() -> None:
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Liao", "Zhang", "Sun", "Hu", "Li"]
    assert paper["year"] == 2026


def test_lazy_names_are_all_there() -> None:
    for name in goodformer._HOME_OF:
        assert getattr(goodformer, name) is not None
        assert name in dir(goodformer)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = goodformer.nonsense


@pytest.mark.parametrize("target", ["run", "test", "check", "lock", "audit", "bench", "docs", "clean", "help"])
def test_make_targets(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_clean_never_removes_runs_or_results(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    kept = [tmp_path / name / "kept.json" for name in ("runs", "results", "quickstart", "benchmarks", "docs")]
    gone = [tmp_path / name / "file" for name in (".venv", "site", "src/__pycache__", ".mypy_cache")]
    for path in (*kept, *gone, tmp_path / "tests" / "test.py"):
        path.parent.mkdir(parents=True)
        path.write_text("")
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in gone)


def test_ci_runs_check_and_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.findall(r"^make (\w+)$", script.read_text(), re.MULTILINE) == ["check", "test"]


def test_an_installed_wheel_fits_and_predicts(tmp_path: Path) -> None:
    """Package data are complete: settings files are read from the installed copy, far from the checkout."""
    source, target = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    build = ["-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(source)]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    data = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.suffix in DATA}
    assert data
    assert not [path for path in data if not (target / path).is_file()]

    own = {**os.environ, "PYTHONPATH": str(target), "GOODFORMER_CACHE": str(tmp_path / "cache")}
    place = "import goodformer; print(goodformer.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", place], env=own, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(target))
    fit = ["fit", str(ROOT / "examples" / "nitro.csv"), "--target", "nitro", "--method", "forest", "--no-baseline"]
    for words in (fit, ["predict", "model", str(ROOT / "examples" / "new.csv")]):
        done = subprocess.run(
            [sys.executable, "-m", "goodformer", *words],
            env=own,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 13
