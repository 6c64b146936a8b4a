"""Settings that were added or renamed later leave the ids of older runs as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goodformer.config.history import ADDED, REMOVED, RENAMED, at_once, current, hashed
from goodformer.config.presets import configure
from goodformer.config.run import PARTS, RunConfig, TrainingConfig
from goodformer.errors import InputError
from goodformer.methods import METHODS

RECORDS = sorted(Path(__file__, "../../../results").resolve().glob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_record_keeps_its_id(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "config" in record:
            assert RunConfig.from_dict(record["config"]).id == record["id"]


@pytest.mark.parametrize(
    ("domain", "budget", "name"),
    [
        ("basis", "full", "7de9943f7b6a"),
        ("basis", "short", "7de9943f7b6a"),
        ("basis", "compare", "459832dd2b1a"),
        ("size", "full", "2327932e4966"),
        ("size", "short", "2327932e4966"),
        ("size", "compare", "ff436bb46d02"),
    ],
)
def test_the_default_keeps_its_id(domain: str, budget: str, name: str) -> None:
    assert configure({"name": "good-motif", "domain": domain}, budget=budget).id == name


def test_a_renamed_setting_is_read_and_hashed_under_its_old_name() -> None:
    config = configure({"name": "good-motif"})
    values = config.to_dict()
    del values["method"]["variant_path"]
    for old, new in ((-1.0, "reversed"), (0.0, "cut"), (1.0, "flowing"), (1, "flowing")):
        read = RunConfig.from_dict({**values, "method": {**values["method"], "variant_gradient": old}})
        assert read == config.with_overrides([f"method.variant_path={new}"])
        assert read == configure({"name": "good-motif"}, overrides=[f"method.variant_gradient={old}"])
        assert hashed("method", read.method)["variant_gradient"] == old
    assert "variant_path" in hashed("method", config.with_overrides(["method.variant_path=detached"]).method)
    with pytest.raises(InputError, match="variant_gradient"):
        RunConfig.from_dict({**values, "method": {**values["method"], "variant_gradient": -0.5}})


def test_a_removed_setting_is_dropped_if_it_asks_for_what_is_computed_now() -> None:
    config = configure({"name": "good-motif"})
    values = config.to_dict()
    read = RunConfig.from_dict({**values, "training": {**values["training"], "batches": "random"}})
    assert read == config
    assert read.id == config.id
    with pytest.raises(InputError, match="remove this setting"):
        config.with_overrides(["training.batches=by_size"])


def test_another_value_of_an_added_setting_makes_another_run() -> None:
    config = configure({"name": "good-motif"})
    assert config.with_overrides(["model.halves=together"]).id == config.id
    assert config.with_overrides(["model.halves=apart"]).id != config.id


def test_the_tables_name_settings_that_exist() -> None:
    for (part, name), added in ADDED.items():
        fields = TrainingConfig.model_fields if name is None else PARTS[part].settings(name)
        assert {setting: fields[setting].default for setting in added} == added
    for (part, name), removed in REMOVED.items():
        fields = TrainingConfig.model_fields if name is None else PARTS[part].settings(name)
        assert not removed.keys() & set(fields)
    for (part, name), renamed in RENAMED.items():
        fields = PARTS[part].settings(name)
        for old, (new, values) in renamed.items():
            assert new in fields
            assert old not in fields
            assert len(set(values.values())) == len(values)


def test_other_parts_are_left_alone() -> None:
    erm = {"name": "erm", "variant_gradient": 1.0}
    assert current("method", erm) == hashed("method", erm) == erm


def test_what_classes_say_of_themselves_is_known_without_importing_them() -> None:
    assert {name for name in METHODS if at_once(name)} == {name for name in METHODS if METHODS[name].at_once}
    assert at_once("forest")
    assert not at_once("no such method")
