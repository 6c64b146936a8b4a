"""Searches for settings: real studies, with a quick objective where training is not the point."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from goodformer import GraphClassifier, InputError, cli
from goodformer.apply import tune as room
from goodformer.apply.fit import OwnFile
from goodformer.apply.recipe import Recipe, configure_fit
from goodformer.config.presets import configure, presets
from goodformer.config.run import Hardware, RunConfig
from goodformer.config.search import read_preset, search_space, setting_names, value_of
from goodformer.engine.run import train
from goodformer.engine.store import AlreadyTrained, Run
from goodformer.engine.training import TrainingDiverged
from goodformer.errors import CannotWrite
from goodformer.methods import METHODS
from tests.apply.molecules import molecules, write_table

pytestmark = pytest.mark.usefixtures("own_cache")
DATA = {"name": "table", "path": "mine.csv", "target": ["nitro"]}


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> room.Search:
    path = tmp_path_factory.mktemp("tune") / "mine.csv"
    write_table(path)
    return room.Search(OwnFile(path, ("nitro",), split="random"), "erm", "gin", overrides=("training.epochs=8",))


def parabola(settings: Mapping[str, Any], report: room.Reporter, search: room.Search) -> float:
    """Best at a learning rate of 0.001 and no dropout; grows with the epochs."""
    rate, dropped = settings["training.learning_rate"], settings["model.dropout_rate"]
    score = 1 - abs(rate - 0.001) * 50 - 0.1 * dropped
    for epoch in range(1, 9):
        report(epoch, score * epoch / 8)
    return score


@pytest.mark.parametrize(
    ("method", "preset"), [(name, preset) for name in METHODS if name != "blend" for preset in presets(name)]
)
def test_every_range_names_a_setting_and_holds_the_preset(method: str, preset: str) -> None:
    config = configure(DATA, method, preset=preset)
    space = search_space(config)
    assert space
    for name, one in space.items():
        part, _, setting = name.partition(".")
        assert part == "training" or setting in setting_names(config, name)
        assert one.holds(value_of(config, name)), name
        config.with_overrides([f"{name}={json.dumps(one.choices[-1] if one.choices else one.high)}"])


@pytest.mark.parametrize(
    ("method", "preset", "fixed"),
    [("goodformer", "paper", "method.budget_weight"), ("forest", "tuned", "method.min_leaf"), ("erm", "default", None)],
)
def test_what_a_preset_turns_off_stays_off(method: str, preset: str, fixed: str | None) -> None:
    usual, own = search_space(configure(DATA, method)), search_space(configure(DATA, method, preset=preset))
    assert set(usual) - set(own) == ({fixed} if fixed else set())


def test_every_method_with_own_settings_is_in_the_file() -> None:
    tree = yaml.safe_load(Path(room.__file__).parents[1].joinpath("config/settings/search.yaml").read_text())
    assert set(METHODS) - set(tree["methods"]) == {"erm", "linear", "gaussian-process", "blend"}


def test_a_search_finds_prunes_and_continues(
    search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "objective", parabola)
    told: list[str] = []
    report = room.tune(search, tmp_path, 8, told.append)
    assert report["trials"] == len(told) == 8
    (first,) = (one for one in report["best"] if one["trial"] == 1)
    assert first["settings"]["training.learning_rate"] == 0.001  # the preset itself
    report = room.tune(search, tmp_path, 30, told.append)
    assert report["trials"] == len(told) == 30
    assert report["pruned"] == sum("pruned" in line for line in told) > 5
    assert report["best"][0]["score"] > 0.96  # the preset: dropout 0.5, so 0.95
    scores = [one["score"] for one in report["best"]]
    assert scores == sorted(scores, reverse=True)
    assert max(report["importances"], key=report["importances"].__getitem__) == "training.learning_rate"
    assert (tmp_path / "search.png").stat().st_size > 5_000
    assert room.tune(search, tmp_path, 30, told.append)["trials"] == 30
    assert len(told) == 31
    assert "30 finished trials" in told[-1]
    assert "--trials" in told[-1]


def test_two_processes_share_a_search(search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process adds trials while one of this process is running."""
    inside: list[int] = []

    def joined(settings: Mapping[str, Any], report: room.Reporter, search: room.Search) -> float:
        if not inside:
            inside.append(1)
            room.tune(search, tmp_path, 3)  # opens the file again, as another process does
        return parabola(settings, lambda epoch, score: None, search)

    monkeypatch.setattr(room, "objective", joined)
    report = room.tune(search, tmp_path, 4)
    assert report["trials"] == 4
    assert len({json.dumps(one["settings"], sort_keys=True) for one in report["best"]}) == 4


@pytest.mark.parametrize("reason", [KeyboardInterrupt, CannotWrite, SystemExit])
def test_a_stopped_trial_is_continued_and_what_is_done_is_kept(
    reason: type[BaseException], search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped search ends as one that was never stopped: the trial keeps its number and its settings."""
    seen: list[Mapping[str, Any]] = []

    def stopped(settings: Mapping[str, Any], report: room.Reporter, search: room.Search) -> float:
        seen.append(settings)
        report(1, 0.5)
        if len(seen) == 3:
            raise reason
        return parabola(settings, lambda epoch, score: None, search)

    monkeypatch.setattr(room, "objective", stopped)
    with pytest.raises(reason):
        room.tune(search, tmp_path / "one", 5)
    assert json.loads((tmp_path / "one" / "search.json").read_text())["trials"] == 2
    assert read_preset(tmp_path / "one" / "best.yaml")[0] == "erm"
    report = room.tune(search, tmp_path / "one", 5)
    assert seen[3] == seen[2]
    assert sorted(one["trial"] for one in report["best"]) == [1, 2, 3, 4, 5]
    whole = room.tune(search, tmp_path / "two", 5)
    assert [one["settings"] for one in report["best"]] == [one["settings"] for one in whole["best"]]


def test_a_killed_process_leaves_its_trial_to_the_next(
    search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two values of a trial: the others are drawn as if nothing had happened."""
    monkeypatch.setattr(room, "objective", parabola)
    whole = room.tune(search, tmp_path / "whole", 3)
    suggest, count = room.suggest, [0]

    def dying(*words: Any) -> Any:
        count[0] += 1
        if count[0] == len(search.space()) * 2 + 3:
            os._exit(9)
        return suggest(*words)

    if (process := os.fork()) == 0:
        try:
            room.suggest = dying  # type: ignore[assignment]
            room.tune(search, tmp_path / "killed", 3)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    report = room.tune(search, tmp_path / "killed", 3)
    assert {**report, "folder": ""} == {**whole, "folder": ""}


def test_a_run_of_another_process_is_waited_for(
    search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def busy(settings: Mapping[str, Any], report: room.Reporter, search: room.Search) -> float:
        calls.append(1)
        if len(calls) < 3:
            raise AlreadyTrained("it is already being trained.")
        return parabola(settings, report, search)

    monkeypatch.setattr(room, "objective", busy)
    monkeypatch.setattr(room, "PATIENCE", 0.01)
    assert room.tune(search, tmp_path, 1)["trials"] == 1
    assert len(calls) == 3


def test_trials_of_other_places_are_judged_pruned_and_scored(search: room.Search, tmp_path: Path) -> None:
    """A place that trains in this process, epoch by epoch: stopped, diverged and finished runs end up in the study."""
    asked: list[RunConfig] = []

    def spread(
        root: Path, ask: room.Ask, judge: room.Judge, hardware: Hardware, load: Any
    ) -> Generator[room.Ended, None, None]:
        while (config := ask()) is not None:
            asked.append(config)
            if len(asked) == 2:
                yield config, room.DIVERGED, None
                continue
            run = train(config, root, hardware, load(config))
            stop = any(judge(config, run.epochs[:epoch]) for epoch in range(1, 9))
            yield config, room.STOPPED if stop else "finished", None

    short = replace(search, overrides=("training.epochs=8", "model.dim=8"))
    report = room.tune(short, tmp_path, 8, spread=spread)
    assert report["trials"] == len(asked) == 8
    assert report["pruned"] + len(report["best"]) == 8
    assert report["pruned"] >= 1
    for one in report["best"]:
        summary = Run(tmp_path / "runs" / one["run"]).summary or {}
        assert one["score"] == summary["splits"]["val"]["rocauc"]
        assert one["epochs"] == 8
    assert len(list((tmp_path / "runs").iterdir())) == len({one["run"] for one in report["best"]})


def test_a_failure_elsewhere_is_one_sentence_and_the_others_are_continued(search: room.Search, tmp_path: Path) -> None:
    def failing(root: Path, ask: room.Ask, *_: Any) -> Generator[room.Ended, None, None]:
        first, _ = ask(), ask()
        assert first is not None
        yield first, "failed", "its worker was lost."

    with pytest.raises(InputError, match="its worker was lost"):
        room.tune(search, tmp_path, 3, spread=failing)
    states = [trial.state.name for trial in room.open_study(search, tmp_path / "study.log")[0].get_trials()]
    assert states == ["FAIL", "RUNNING"]


def test_a_diverging_trial_is_pruned(search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(settings: Mapping[str, Any], report: room.Reporter, search: room.Search) -> float:
        raise TrainingDiverged("the loss is infinite.")

    monkeypatch.setattr(room, "objective", diverging)
    told: list[str] = []
    report = room.tune(search, tmp_path, 2, told.append)
    assert (report["trials"], report["pruned"], report["best"]) == (2, 2, [])
    assert told[0] == "trial 1: diverged"


def test_a_search_does_not_go_on_with_other_data(
    search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "objective", parabola)
    path = Path(shutil.copy(search.source.path, tmp_path / "mine.csv"))
    search = replace(search, source=replace(search.source, path=path))
    room.tune(search, tmp_path / "tuned", 1)
    before = len(room.loaded(search.source).splits["train"])
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows, *rows]) + "\n")
    assert len(room.loaded(search.source).splits["train"]) > before
    with pytest.raises(InputError, match="data have changed"):
        room.tune(search, tmp_path / "tuned", 2)


def test_another_task_and_a_damaged_study_are_refused(
    search: room.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "objective", parabola)
    room.tune(search, tmp_path, 1)
    other = room.Search(search.source, "erm", "gin", overrides=("training.epochs=9",))
    with pytest.raises(InputError, match=r"other settings \(set\)"):
        room.tune(other, tmp_path, 1)
    (tmp_path / "study.log").write_text("[1, 2]\n[3]\n")
    with pytest.raises(InputError, match=r"study.log is damaged"):
        room.tune(search, tmp_path, 1)


def test_trials_are_judged_on_validation_and_the_best_can_be_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("mine.csv"))
    words = ["mine.csv", "--target", "nitro", "--split", "scaffold"]
    small = ["--method", "erm", "--model", "gin", "--set", "model.dim=16", "--epochs", "2", "--trials", "2"]
    assert cli.run(["tune", *words, *small, "-o", "what we found", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    for one in report["best"]:
        splits = (Run(tmp_path / "what we found" / "runs" / one["run"]).summary or {})["splits"]
        assert one["score"] == splits["val"]["rocauc"]
    epochs = Run(tmp_path / "what we found" / "runs" / report["best"][0]["run"]).epochs
    assert sum("test" in epoch for epoch in epochs) == 1  # measured after the selection, for the record
    assert cli.run([*shlex.split(report["next"])[1:], "--no-baseline", "-o", "model"]) == 0  # reuses the trained run
    fitted = json.loads((tmp_path / "model" / "report.json").read_text())
    assert fitted["run"] == report["best"][0]["run"]
    smiles, labels = molecules()
    classifier = GraphClassifier(preset=tmp_path / "what we found" / "best.yaml", split="random").fit(smiles, labels)
    assert classifier.model_.file.method["name"] == "erm"
    assert len(classifier.history_) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model: gin", "names no method"),
        ("method: erm\ncolour: red", "colour"),
        ("method: erm\ntraining: 3", "training in .* is 3"),
        ("- 1", "instead of settings"),
    ],
)
def test_a_bad_preset_file_gets_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_preset(tmp_path / "best.yaml")


def test_a_blend_and_an_empty_space_are_refused(search: room.Search) -> None:
    with pytest.raises(InputError, match="a blend cannot be tuned"):
        search_space(configure(DATA, "blend"))
    fixed = tuple(f"{name}=1" for name in ("model.radius", "method.min_leaf"))
    with pytest.raises(InputError, match="nothing is left"):
        room.Search(search.source, "forest", None, overrides=(*fixed, "model.table=64", "method.trees=9")).space()


def test_a_preset_file_gives_the_run_that_was_searched(search: room.Search, tmp_path: Path) -> None:
    settings = {"training.learning_rate": 0.002, "model.layers": 2}
    room.write_preset(tmp_path / "best.yaml", search.config(), {**settings, "training.epochs": 8}, "found")
    made = configure_fit(room.loaded(search.source), search.source.dataset, Recipe(preset=tmp_path / "best.yaml"))
    assert made.id == search.config(settings).id


@pytest.mark.parametrize("other", [Recipe("gsat"), Recipe(model="gps")])
def test_a_preset_file_and_another_method_contradict_each_other(
    search: room.Search, tmp_path: Path, other: Recipe
) -> None:
    room.write_preset(tmp_path / "best.yaml", search.config(), {}, "found")
    with pytest.raises(InputError, match=r"leave out --(method|model), or the file"):
        configure_fit(room.loaded(search.source), search.source.dataset, replace(other, preset=tmp_path / "best.yaml"))
