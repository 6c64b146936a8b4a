"""Registries: lazy imports, descriptions of settings, the catalogue in the cache, and plugins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field

from goodformer import cli, registry
from goodformer.config.presets import configure, default_model, presets
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.models import MODELS
from goodformer.registry import Registry, import_plugin
from goodformer.settings import Computed, Description, describe, settings_model, validate

ROOT = Path(__file__).parents[1]


def completed(value: str, settings: dict[str, Any]) -> str:
    return value or f"{settings.get('label')}!"


class Thing:
    """A thing.

    With details.
    """

    in_words = "Plain words."

    def __init__(
        self,
        part: object = None,
        *,
        label: Annotated[str, Field(min_length=1, description="Its label.")],
        width: Annotated[int, Field(ge=1, lt=9, description="Its width.")] = 4,
        rate: float = 0.5,
        kind: Literal["a", "b"] = "a",
        cut: Annotated[float | None, Field(gt=0)] = None,
        inputs: Sequence[str] = (),
        targets: str | tuple[str, ...] = "y",
        flag: bool = False,
        mark: Annotated[str, Computed("tests.test_registry:completed")] = "",
    ) -> None:
        self.settings = locals()


THINGS: Registry[Thing] = Registry("thing", {"thing": "tests.test_registry:Thing"})


# Settings -------------------------------------------------------------------------------------------------------------


def test_settings_are_read_from_the_constructor() -> None:
    found = describe(Thing)
    assert (found.about, found.in_words) == ("A thing.\n\nWith details.", "Plain words.")
    rows = {one.name: (one.type_text, one.range_text, one.default_text, one.help) for one in found.settings}
    assert rows == {
        "label": ("str", "", "required", "Its label."),
        "width": ("int", ">= 1, < 9", "4", "Its width."),
        "rate": ("float", "", "0.5", ""),
        "kind": ("a | b", "", "a", ""),
        "cut": ("float | none", "> 0", "None", ""),
        "inputs": ("list of str", "", "none", ""),
        "targets": ("str or list of str", "", "y", ""),
        "flag": ("bool", "", "False", ""),
        "mark": ("str", "", "", ""),
    }


def test_a_description_survives_json() -> None:
    found = describe(Thing)
    again = Description.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    values = {"label": "x", "inputs": "one", "targets": ["a", "b"], "cut": 2}
    checked = [validate(settings_model("thing", one.settings), values, "thing", "model") for one in (found, again)]
    assert checked[0] == checked[1]
    assert checked[0]["inputs"] == ["one"]
    assert (checked[0]["targets"], checked[0]["cut"], checked[0]["mark"]) == (("a", "b"), 2.0, "x!")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "label"),
        ({"label": ""}, "label"),
        ({"label": "x", "width": 9}, "less than 9"),
        ({"label": "x", "widht": 3}, "did you mean width"),
        ({"label": "x", "kind": "c"}, "a, b"),
        ({"label": "x", "cut": 0}, "greater than 0"),
        ({"label": "x", "inputs": [3]}, "inputs"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        THINGS.build("thing", **settings)


def test_build_passes_parts_and_checked_settings() -> None:
    made = THINGS.build("thing", "part", label="x", width="3")
    assert (made.settings["part"], made.settings["width"], made.settings["kind"]) == ("part", 3, "a")
    with pytest.raises(InputError, match="did you mean thing"):
        THINGS["thingg"]


@pytest.mark.parametrize("annotation", [dict, int | str, Annotated[int, AfterValidator(abs)], list[list[int]]], ids=str)
def test_what_cannot_be_described_is_refused(annotation: Any) -> None:
    def build(*, odd: Any = None) -> None: ...

    build.__annotations__["odd"] = annotation
    with pytest.raises(InputError, match="odd"):
        describe(build)


class Heir(Thing):
    def __init__(self, part: object = None, *, w=1.0) -> None: ...  # type: ignore[no-untyped-def]


def test_a_setting_without_annotation_is_refused_with_its_class() -> None:
    with pytest.raises(InputError, match=r"Heir.* w .*w: float"):
        describe(Heir)


def test_the_texts_of_a_base_class_are_not_those_of_a_class() -> None:
    found = describe(type("Child", (Thing,), {}))
    assert (found.about, found.in_words) == ("", "")
    assert len(found.settings) == len(describe(Thing).settings)


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mine() -> Iterator[Registry[Any]]:
    """The methods, from which ``mine`` is removed afterwards."""
    yield METHODS
    if "mine" in METHODS:
        METHODS.remove("mine")


def test_an_added_class_has_everything_a_registered_one_has(mine: Registry[Any]) -> None:
    mine.add("mine", "goodformer.methods.vrex:VREx", presets={"model": "gps", "presets": {"default": {}, "slow": {}}})
    assert list(mine)[-1] == "mine"
    assert mine.describe("mine") == mine.describe("vrex")
    assert (default_model("mine"), presets("mine")) == ("gps", ["default", "slow"])
    assert configure({"name": "good-motif"}, "mine").method == {"name": "mine", "variance_weight": 1.0}


def test_presets_may_lie_in_a_file(mine: Registry[Any], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("presets: {default: {always: {method: {variance_weight: 7}}}}\n")
    mine.add("mine", "goodformer.methods.vrex:VREx", presets=file)
    assert configure({"name": "good-motif"}, "mine").method["variance_weight"] == 7
    for text in ("modle: gps", "presets: {slow: {}}"):
        file.write_text(text)
        with pytest.raises(InputError, match="mine"):
            configure({"name": "good-motif"}, "mine")


def test_names_that_are_taken_or_cannot_be_typed_are_refused(mine: Registry[Any]) -> None:
    for name, word in (("erm", "erm"), ("a b", "a b"), ("x:y", "x:y"), ("", "letters")):
        with pytest.raises(InputError, match=word):
            mine.add(name, Thing)
    with pytest.raises(InputError, match="erm"):
        mine.remove("erm")
    for entry in (None, 3, Thing(label="x"), "goodformer.methods.erm"):
        with pytest.raises(InputError, match="mine"):
            mine.add("mine", entry)  # type: ignore[arg-type]
    mine.add("mine", "no_such_module:Thing")
    with pytest.raises(InputError, match="no_such_module"):
        mine["mine"]


# Catalogue ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder and a registry that has read no catalogue."""
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    registry._catalogue.cache_clear()
    yield tmp_path / "catalogue"
    registry._catalogue.cache_clear()


def imports(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows with every class that is described."""
    seen: list[object] = []
    monkeypatch.setattr(registry, "describe", lambda one: seen.append(one) or describe(one))
    return seen


def test_descriptions_are_read_once_and_then_from_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = imports(monkeypatch)
    fresh = registry._catalogue()
    assert len(seen) == sum(map(len, fresh.values())) > 20
    registry._catalogue.cache_clear()
    assert registry._catalogue() == fresh
    assert len(seen) == sum(map(len, fresh.values()))
    (file,) = cache.glob("*.json")
    assert file.stem == registry.sources_key()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"type": "int"', '"type": "code"'),
        lambda text: text.replace('"bounds": {"ge": 1}', '"bounds": {"ge": [1]}'),
        lambda text: text.replace('"shape"', '"form"'),
        lambda text: text.replace('"optional": false', '"optional": 0'),
    ],
)
def test_a_damaged_catalogue_is_replaced(cache: Path, damage: Any) -> None:
    fresh = registry._catalogue()
    (file,) = cache.glob("*.json")
    sound = file.read_text()
    file.write_text(damage(sound))
    assert file.read_text() != sound
    registry._catalogue.cache_clear()
    assert registry._catalogue() == fresh
    assert json.loads(file.read_text()) == json.loads(sound)


def test_a_cache_that_cannot_be_written_is_not_needed(cache: Path) -> None:
    cache.parent.joinpath("catalogue").write_text("a file where the folder should be")
    assert "erm" in registry._catalogue()["method"]
    assert cache.is_file()


def test_old_catalogues_are_removed(cache: Path) -> None:
    cache.mkdir()
    for number in range(registry.KEPT + 3):
        (cache / f"{number}.json").write_text("{}")
        os.utime(cache / f"{number}.json", (number, number))
    registry._catalogue()
    assert len(list(cache.glob("*.json"))) == registry.KEPT


def test_any_change_of_a_source_gives_another_key(tmp_path: Path) -> None:
    package = tmp_path / "goodformer"
    shutil.copytree(registry.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    keys = [registry.sources_key(), registry.sources_key(package)]
    assert keys[0] == keys[1]
    for name in ("methods/erm.py", "models/settings.py", "nn/gps.py", "data/benchmarks/motif.py", "spec.py"):
        with (package / name).open("a") as file:
            file.write("#")
        keys.append(registry.sources_key(package))
    (package / "methods" / "new.py").write_text("")
    keys.append(registry.sources_key(package))
    assert len(set(keys)) == len(keys) - 1


def test_a_changed_source_changes_the_description(tmp_path: Path) -> None:
    """As a user sees it: edit a file, and the next command shows the new text."""
    shutil.copytree(registry.PACKAGE, tmp_path / "goodformer", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "goodformer" / "methods" / "vrex.py"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "GOODFORMER_CACHE": str(tmp_path / "cache")}

    def shown() -> str:
        command = [sys.executable, "-m", "goodformer", "methods", "show", "vrex", "--json"]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]["settings"][0]["default"]

    assert shown() == 1.0
    source.write_text(source.read_text().replace(")] = 1.0", ")] = 2.5"))
    assert shown() == 2.5


def test_names_settings_and_configurations_need_no_torch() -> None:
    registry._catalogue()  # so that the cache has it
    code = (
        "import sys, goodformer.data, goodformer.models, goodformer.methods\n"
        "from goodformer.config.presets import configure\n"
        "configure({'name': 'good-motif'}).id, list(goodformer.methods.METHODS)\n"
        "assert not {'torch', 'numpy', 'rdkit', 'pyarrow'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Plugins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_library", ["needs no_such_library"]),
        ("1 / 0", ["ZeroDivisionError", "plugin_under_test.py, line 1"]),
        ("def (", ["SyntaxError", "plugin_under_test.py, line 1"]),
        ("raise SystemExit(3)", ["SystemExit", "plugin_under_test.py, line 1"]),
        (
            "import goodformer\ngoodformer.MODELS.add('half', dict)\n1 / 0",
            ["ZeroDivisionError", "plugin_under_test.py, line 3"],
        ),
        ("import goodformer\ngoodformer.METHODS.add('erm', dict)", ["'erm'", "another name"]),
    ],
)
def test_errors_of_a_plugin_are_one_sentence(
    text: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin_under_test.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(InputError, match="plugin_under_test") as caught:
        import_plugin("plugin_under_test")
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(", line ") == ("line" in words[-1])  # one place
    assert "half" not in MODELS
    sys.modules.pop("plugin_under_test", None)


def test_an_unknown_name_may_come_from_a_module_that_was_not_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    parts = {"dataset": {"name": "good-motif"}, "model": {"name": "gin"}, "method": {"name": "mine"}}
    (folder / "config.json").write_text(json.dumps(parts))
    for words in (["runs", "show", str(folder)], ["train", "good-motif", "--method", "mine"], ["methods", "show", "x"]):
        assert cli.run(words) == 2
        assert "--import" in capsys.readouterr().err
    assert cli.run(["runs", "--runs", str(folder.parent)]) == 0
    out, err = capsys.readouterr()
    assert "--import" in err
    assert "goodformer train" not in out


def test_a_module_that_does_not_exist() -> None:
    for name in ("no_such_module", "goodformer.no_such_module"):
        with pytest.raises(InputError, match=f"no module '{name}'"):
            import_plugin(name)


def test_the_environment_names_modules(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import goodformer\ngoodformer.METHODS.add('mine', 'goodformer.methods.erm:ERM')\n"
    )
    code = "import goodformer, sys; assert 'mine' in goodformer.METHODS, list(goodformer.METHODS)"
    env = {**os.environ, "GOODFORMER_IMPORT": "mine"}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, check=True)


def test_the_option_imports_a_module_for_this_command_and_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("GOODFORMER_IMPORT", "json")
    text = "import goodformer\ngoodformer.METHODS.add('mine', 'goodformer.methods.erm:ERM')\n"
    (tmp_path / "registers_mine.py").write_text(text)
    try:
        assert cli.run(["--import", "registers_mine", "methods", "show", "mine"]) == 0
        assert "method mine" in capsys.readouterr().out
        assert os.environ["GOODFORMER_IMPORT"] == "json,registers_mine"
    finally:
        METHODS.remove("mine")
    assert cli.run(["--import", "no_such_module", "methods"]) == 2
    assert "no_such_module" in capsys.readouterr().err
