"""The README and the documentation are correct: their Python runs, their commands, settings and links exist."""

import json
import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from goodformer import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]
SMALL = {
    "train": ["--set", "dataset.graphs=150", "--set", "model.dim=16", "--epochs", "1", "--quiet"],
    "compare": [
        "--methods",
        "erm",
        "--seeds",
        "1",
        "--set",
        "dataset.graphs=150",
        "--set",
        "training.epochs=1",
        "--quiet",
    ],
    "datasets": ["--set", "graphs=150"],
    "fit": ["--set", "model.dim=16", "--epochs", "1", "--quiet"],
}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def _stem(page: Path) -> str:
    return page.stem


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=_stem)
def test_python_of_a_page_runs_as_it_stands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python"))
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})
    if page.name == "README.md":
        assert (tmp_path / "found.png").stat().st_size > 10_000
        assert len(list(tmp_path.glob("runs/*/summary.json"))) == 1


def test_command_lines_run_on_small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    lines = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("goodformer ")]
    assert len(commands) >= 6
    for words in commands:
        trained = [path.name.rpartition("-")[2] for path in tmp_path.glob("runs/good-motif-*-erm-*")]
        named = [trained[0] if word == "RUN" else word for word in words]
        assert cli.run([*named, *SMALL.get(words[0], [])]) == 0, words
    assert (tmp_path / "explained" / "subgraphs.png").exists()
    assert (tmp_path / "explained" / "edges.json").exists()
    assert len((tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()) == 13
    assert (tmp_path / "why" / "subgraphs.png").exists()


def test_make_targets_exist() -> None:
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    targets = {words[1] for line in lines if (words := line.split()) and words[0] == "make"}
    assert {"run", "test"} <= targets
    known = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        if "://" not in target:
            place = page.parent / target if target else page
            assert place.exists(), target
            if anchor and place.suffix == ".md" and "api" not in place.parts:
                assert anchor in anchors(place), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_pages_are_known(page: Path) -> None:
    """Every ``goodformer`` line of a shell block names a command and options that its help lists."""
    from typer.main import get_command

    for block in blocks(page, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["goodformer"]:
                command = get_command(cli.app)
                while words[1:2] == ["--import"]:
                    del words[1:3]
                while len(words) > 1 and words[1] in getattr(command, "commands", {}):
                    command = command.commands[words.pop(1)]
                options = {name for parameter in command.params for name in parameter.opts}
                used = {word for word in words[1:] if word.startswith("-")}
                assert used <= options | {"-h", "--help"}, line


def test_settings_named_in_pages_exist() -> None:
    """A setting written as ``--set part.name=value`` is one that something has."""
    from goodformer.config.run import RunConfig, TrainingConfig
    from goodformer.data import DATASETS
    from goodformer.methods import METHODS
    from goodformer.models import MODELS

    parts = {"dataset": DATASETS, "method": METHODS, "model": MODELS}
    known = {f"{part}.{name}" for part, reg in parts.items() for key in reg for name in reg.settings(key)}
    known |= {f"training.{name}" for name in TrainingConfig.model_fields} | set(RunConfig.model_fields)
    for page in PAGES:
        for block in blocks(page, "sh"):
            named = re.findall(r"goodformer (?:train|compare).*", block)
            for setting in [name for line in named for name in re.findall(r"--set (\S+?)=", line)]:
                assert setting in known, f"{page.name}: {setting}"


def test_every_page_is_listed_on_the_home_page_and_in_the_navigation() -> None:
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if "docs" in page.parts]
    assert [page for page in pages if f": {page}\n" not in navigation] == []
    listed = {"index.md", *re.findall(r"\]\(([^)]+\.md)\)", home)}
    assert [page for page in pages if page not in listed and not page.startswith("api/")] == []


def test_every_package_is_in_the_reference() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    source = ROOT / "src" / "goodformer"
    modules = {path.stem for path in source.glob("*.py") if not path.stem.startswith("__")}
    packages = {path.parent.name for path in source.glob("*/__init__.py")} - {"cli"}
    assert [name for name in modules | packages if f"::: goodformer.{name}\n" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_in_pages_have_the_options_they_are_shown_with(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every ``python -m`` line of a shell block names a script of this repository and its options."""
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:2] == ["python", "-m"] and words[2].split(".")[0] in ("lab", "benchmarks"):
                with pytest.raises(SystemExit):
                    import_module(words[2]).main(["--help"])
                shown = capsys.readouterr().out
                assert [word for word in words[3:] if word.startswith("-") and word not in shown] == [], line


def test_public_names_are_in_the_reference() -> None:
    import goodformer

    overview = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    assert not [name for names in goodformer._HOMES.values() for name in names if f"`{name}`" not in overview]


class Seen(Exception):
    """Raised in place of training, with the settings it was asked for."""


def examples(text: str) -> list[list[str]]:
    """The words of every ``goodformer train`` line."""
    return [shlex.split(line)[1:] for line in re.findall(r"^\s*(goodformer train [^>#\n]*)", text, re.MULTILINE)]


TRAINED = [words for page in PAGES for block in blocks(page, "sh") for words in examples(block)]
TRAINED += [words for words in examples(cli.train.command.__doc__ or "") if words not in TRAINED]


@pytest.mark.parametrize("words", TRAINED, ids=shlex.join)
def test_documented_training_has_settings_that_are_accepted(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every documented line comes as far as training, with the settings it names."""
    from goodformer import configure

    def seen(config: object, *_: object) -> None:
        raise Seen(config)

    monkeypatch.setattr("goodformer.engine.run.train", seen)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "RUN").mkdir(parents=True)
    (tmp_path / "runs" / "RUN" / "config.json").write_text(json.dumps(configure({"name": "good-motif"}).to_dict()))
    for name in ("mine.yaml", "my.yaml"):
        (tmp_path / name).write_text(blocks(ROOT / "docs" / "training.md", "yaml")[0])
    with pytest.raises(Seen) as caught:
        cli.run(words)
    config = caught.value.args[0]
    for setting in [word for word in words if re.match(r"[a-z_]+\.[a-z_]+=", word)]:
        assert config.with_overrides([setting]) == config, setting


def test_a_wrong_value_in_a_documented_line_would_be_seen() -> None:
    assert len(TRAINED) > 15
    assert cli.run(["train", "good-motif", "--set", "training.epochs=0"]) == 2
