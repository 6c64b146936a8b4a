"""Damaged and hostile files: everything that is read from disk is refused in one sentence before anything is built."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer import files
from goodformer.config.run import RunConfig, parse_assignment
from goodformer.config.settings_file import configure_from
from goodformer.engine.run import train
from goodformer.engine.store import CONFIG, EPOCHS, SUMMARY, Run
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.report.records import read_records
from tests.apply.molecules import FITTED, molecules, untrained
from tests.engine.tiny import QUIET, tiny_config

DEEP = "[" * 100_000
Edit = Callable[[dict[str, Any]], Any]


def copied(folder: Path, target: Path, leave_out: tuple[str, ...] = ()) -> Path:
    """A copy of a folder whose files may be changed."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in leave_out:
            (target / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(folder)).write_bytes(path.read_bytes())
    return target


def edit(path: Path, change: Edit) -> None:
    """Change a JSON file as an older version, without checksums, may have written it."""
    value = files.unsealed(files.read_json(path), path)
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize("temperature", [-1, 0, float("nan"), float("inf"), 1e-300, 1e300, "1" * 5000])
def test_a_temperature_that_is_none_is_refused(temperature: Any, tmp_path: Path) -> None:
    folder = copied(FITTED, tmp_path / "model")
    edit(folder / "sureness.json", lambda value: value.update(temperature=temperature))
    with pytest.raises(InputError, match=r"sureness\.json"):
        FittedModel.load(folder)


SURENESS: list[Edit] = [
    lambda value: value.update(alpha=1.5),
    lambda value: value.update(shift=[float("inf")]),
    lambda value: value.update(notes=7),
    lambda value: value["task"].update(outputs=3),
    lambda value: value["task"].update(kind="multiclass", outputs=4),
    lambda value: value.clear(),
]
MODEL: list[Edit] = [
    lambda value: value.clear(),
    lambda value: value.update(model={}),
    lambda value: value.update(model={"name": ["gin"]}),
    lambda value: value.update(method=None),
    lambda value: value.update(about=[]),
    lambda value: value.update(members=[{}]),
    lambda value: value["model"].update(dim=10**9),
    lambda value: value["model"].update(layers=10**7),
    lambda value: value["model"].update(dim=60_000, layers=900),
    lambda value: value["model"].update(dim=-1),
    lambda value: value["model"].update(dim=1e400),
    lambda value: value["task"].update(outputs=0),
    lambda value: value["task"].update(outputs=10**12),
    lambda value: value["features"]["node"].update(sizes=[10**12]),
    lambda value: value["features"]["node"].update(sizes=[]),
    lambda value: value["features"]["edge"].update(kind="constant"),
    lambda value: value["about"]["meaning"].update(classes={"nitro": ["no"]}),
    lambda value: value["about"]["meaning"].update(classes={}),
]


@pytest.mark.parametrize(
    ("name", "change"),
    [*(("sureness.json", one) for one in SURENESS), *(("model.json", one) for one in MODEL)],
)
def test_damaged_descriptions_of_a_model_are_refused_at_once(name: str, change: Edit, tmp_path: Path) -> None:
    folder, start = copied(FITTED, tmp_path / "model"), time.monotonic()
    edit(folder / name, change)
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as caught:
        FittedModel.load(folder)
    assert len(str(caught.value)) < 600
    assert time.monotonic() - start < 20


def test_any_changed_digit_of_a_description_is_noticed(tmp_path: Path) -> None:
    model = untrained().fit_uncertainty(molecules()[0][:40], molecules()[0][:40])
    folder = model.save(tmp_path / "model")
    for name in ("model.json", "sureness.json"):
        content = (folder / name).read_bytes()
        for place in range(0, len(content) - 3, 97):
            (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :])
            try:
                same = torch.equal(FittedModel.load(folder).method.state_dict().popitem()[1].cpu(), torch.zeros(0))
            except InputError:
                continue
            assert not same
            assert files.unsealed(files.read_json(folder / name), name) == files.unsealed(json.loads(content), name)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", ["model.json", "sureness.json"])
def test_deep_nesting_in_a_model_is_refused(name: str, tmp_path: Path) -> None:
    folder = copied(FITTED, tmp_path / "model")
    (folder / name).write_text(DEEP)
    with pytest.raises(InputError, match="not JSON"):
        FittedModel.load(folder)


def test_deep_nesting_in_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(DEEP)
    for read in (RunConfig.from_yaml, configure_from):
        with pytest.raises(InputError, match="nested too deeply"):
            read(tmp_path / "a.yaml")
    with pytest.raises(InputError, match="not valid YAML"):
        parse_assignment(f"model.dim={DEEP}")


@pytest.mark.parametrize(
    "text",
    ["a: &a [1]\nb: [*a, *a]", "seed: !!bool yess", "seed: !!timestamp x", "seed: 2024-99-99", "? {a: 1}\n: 2", "\x00"],
)
def test_yaml_that_no_value_stands_for_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError):
        RunConfig.from_yaml(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    "line",
    [
        "training.clip_norm=.inf",
        "training.clip_norm=.nan",
        "training.epochs=1e12",
        "model.dim=10000000",
        "model.layers=100000",
        "training.batch_size=99999999999999999999",
        "seed=1e30",
    ],
)
def test_absurd_settings_are_refused(line: str) -> None:
    with pytest.raises(InputError, match=line.partition("=")[0].rpartition(".")[2]):
        tiny_config().with_overrides([line])


def test_a_model_that_does_not_fit_is_refused_before_it_is_built(tmp_path: Path, own_cache: Path) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=r"parameters, more than the limit.*GOODFORMER_LIMITS=parameters="):
        train(tiny_config(model={"name": "gin", "dim": 20_000, "layers": 900}), tmp_path, QUIET)
    assert time.monotonic() - start < 30
    assert list(tmp_path.iterdir()) == []


def test_a_limit_can_be_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = copied(FITTED, tmp_path / "model")
    for given, words in (("parameters=10", "more than the limit of 10"), ("nodes=x", "name=number"), ("no=1", "nodes")):
        monkeypatch.setenv("GOODFORMER_LIMITS", given)
        with pytest.raises(InputError, match=words):
            FittedModel.load(folder)
    monkeypatch.setenv("GOODFORMER_LIMITS", "parameters=10000000,nodes=5")
    FittedModel.load(folder)


@pytest.mark.parametrize("text", ["{}", "[]", "null", DEEP, '{"id": 1}', '{"id": NaN}'])
def test_a_damaged_summary_is_refused_and_written_anew(text: str, finished: Run, tmp_path: Path) -> None:
    run = Run(copied(finished.folder, tmp_path / finished.folder.name))
    (run.folder / SUMMARY).write_text(text)
    with pytest.raises(InputError, match="move it away"):
        _ = run.summary
    (run.folder / SUMMARY).unlink()
    again = train(tiny_config(), tmp_path, QUIET)
    assert again.summary is not None
    assert finished.summary is not None
    assert again.summary["ood_test"] == finished.summary["ood_test"]


@pytest.mark.parametrize(
    "line", ["7", "[]", '{"epoch": "1"}', '{"epoch": 1, "seconds": "x"}', '{"epoch": 1, "val": []}']
)
def test_damaged_epochs_are_refused(line: str, finished: Run, tmp_path: Path) -> None:
    run = Run(copied(finished.folder, tmp_path / finished.folder.name))
    (run.folder / EPOCHS).write_text(line + "\n")
    with pytest.raises(InputError, match=r"epochs\.jsonl"):
        _ = run.epochs


def test_changed_numbers_of_a_run_are_noticed(finished: Run, tmp_path: Path) -> None:
    run = Run(copied(finished.folder, tmp_path / finished.folder.name))
    for name, read in ((SUMMARY, "summary"), (EPOCHS, "epochs"), (CONFIG, "config")):
        path = run.folder / name
        text = path.read_text()
        place = text.index(": 0.") + 4 if name != CONFIG else text.index('"learning_rate": 0.01') + 20
        path.write_text(text[:place] + ("2" if text[place] == "1" else "1") + text[place + 1 :])
        with pytest.raises(InputError, match=name.replace(".", r"\.")):
            getattr(run, read)


@pytest.mark.parametrize("entry", [{"ood_test": "high"}, {"seed": []}, {"splits": 3}, {"config": [1]}, {"id": 4}])
def test_wrong_types_in_records_are_refused(entry: dict[str, Any], finished: Run, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text(json.dumps({**(finished.summary or {}), **entry}) + "\n")
    with pytest.raises(InputError, match=r"all\.jsonl"):
        read_records(tmp_path)
