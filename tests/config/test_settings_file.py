"""Settings from a file and what was typed."""

import json
from pathlib import Path

import pytest

from goodformer.config.presets import configure
from goodformer.config.settings_file import configure_from
from goodformer.errors import InputError


def test_a_file_may_say_a_little_or_everything(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: {name: good-motif, domain: size}\nmethod: erm\nmodel: gps\nseed: 3\n")
    config = configure_from(path)
    assert config == configure({"name": "good-motif", "domain": "size"}, "erm", "gps", seed=3)
    path.write_text(json.dumps(config.to_dict()))
    assert configure_from(path) == config


def test_typed_beats_the_file_and_overrides_beat_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: {name: good-motif}\nmethod: erm\nmodel: {name: gin, layers: 2}\ntraining: {epochs: 9}\n")
    typed = {"dataset": {"name": None, "domain": "size"}, "training": {"epochs": 4}, "seed": None}
    config = configure_from(path, typed, ["training.epochs=2"])
    assert (config.dataset["domain"], config.training.epochs, config.model["layers"]) == ("size", 2, 2)
    other = configure_from(path, overrides=["model=gps"])
    assert other.model == configure({"name": "good-motif"}, "erm", "gps").model
    assert other.training.learning_rate == 0.0002


def test_without_a_data_set_there_is_no_run() -> None:
    with pytest.raises(InputError, match="no data set"):
        configure_from(typed={"method": {"name": "erm"}})
