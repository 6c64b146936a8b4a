from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from goodformer.config.presets import configure
from goodformer.config.run import Hardware, RunConfig, TrainingConfig, parse_assignment, read_yaml
from goodformer.errors import InputError
from tests.engine.tiny import tiny_config


def test_defaults_are_filled_in_so_equal_configs_are_equal() -> None:
    short = RunConfig(dataset="good-motif", model="gin", method="erm")
    full = RunConfig(
        dataset={"name": "good-motif", "domain": "basis", "graphs": 30_000},
        model={"name": "gin", "layers": 3, "inputs": []},
        method={"name": "erm"},
        training=TrainingConfig(),
        seed=0,
    )
    assert short == full
    assert short.id == full.id
    assert short.model["dim"] == 300


def test_labels_do_not_enter_the_id_and_all_else_does() -> None:
    config = tiny_config()
    assert config.with_overrides(["preset=paper", "budget=small"]).id == config.id
    changed = [["seed=1"], ["training.epochs=9"], ["model.dim=8"], ["dataset.seed=1"], ["method=goodformer"]]
    assert len({config.id, *(config.with_overrides(change).id for change in changed)}) == 6


def test_a_setting_that_came_later_leaves_the_ids_of_recorded_runs_alone() -> None:
    config = RunConfig(dataset="good-motif", model="gin", method="erm")
    assert config.id == "146048fc1dfe"
    assert config.with_overrides(["training.batches=random"]).id == config.id


def test_every_recorded_run_is_found_by_its_settings() -> None:
    """A changed id would lose the record of a run that took hours."""
    files = (Path(__file__).parents[2] / "results").glob("*.jsonl")
    records = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    runs = [record for record in records if "config" in record]
    assert len(runs) > 200
    assert [RunConfig.from_dict(run["config"]).id for run in runs] == [run["id"] for run in runs]


OLD = ("training.milestones=[]", "training.drop_last=false")
"""What the presets of GNNs set since these ids were written down."""
IDS = {
    ("good-motif", "erm", "default", "full", *OLD): "6f07aa672636",
    ("good-hiv", "gsat", "default", "full", *OLD): "8bbfb82e1303",
    ("good-sst2", "vrex", "default", "quick", *OLD): "b96bf8881b11",
    ("drugood", "ciga", "default", "full", "model=gps", "model.inputs=laplacian:4"): "62963bce1949",
    (
        *("good-motif", "irm", "default", "compare", "dataset.domain=size", "training.learning_rate=1e-4"),
        "training.drop_last=false",
    ): "c4fcb6927229",
}


@pytest.mark.parametrize(("words", "expected"), IDS.items())
def test_ids_do_not_change(words: tuple[str, ...], expected: str) -> None:
    name, method, preset, budget, *overrides = words
    assert configure({"name": name}, method, preset=preset, budget=budget, overrides=overrides).id == expected


def test_milestones_that_training_does_not_reach_are_left_out() -> None:
    config = RunConfig(dataset="good-motif", model="gin", method="erm", training={"epochs": 4})
    for milestones in ([150], [4, 150]):
        same = RunConfig(
            dataset="good-motif", model="gin", method="erm", training={"epochs": 4, "milestones": milestones}
        )
        assert same == config
        assert same.id == config.id
    assert TrainingConfig(epochs=200, milestones=[180, 150, 150, 200]).milestones == [150, 180]
    assert config.with_overrides(["training.milestones=[3]"]).id != config.id
    with pytest.raises(InputError, match="greater than or equal to 1"):
        TrainingConfig(milestones=[0])


def test_another_seed_is_another_run_of_the_same_settings() -> None:
    config = tiny_config()
    first = config.id
    other = config.with_seed(7)
    assert other == config.with_overrides(["seed=7"])
    assert (other.id, config.id) == (config.with_overrides(["seed=7"]).id, first)
    assert other.id != first
    for seed in (-1, "1", True, 1.0):
        with pytest.raises(InputError, match="seed"):
            config.with_seed(seed)


def test_many_configurations_take_little_time() -> None:
    configure({"name": "good-motif"})
    start = time.process_time()
    for number in range(500):
        configure({"name": "good-motif", "seed": number}, "gsat", budget="compare", overrides=["model.dim=16"])
    assert time.process_time() - start < 0.7  # twice the target, for a busy machine


def test_yaml_brings_the_config_back(tmp_path: Path) -> None:
    config = tiny_config(seed=3, preset="paper")
    path = tmp_path / "run.yaml"
    path.write_text(config.to_yaml())
    assert RunConfig.from_yaml(path) == config


def test_overrides_read_values_as_yaml() -> None:
    config = tiny_config().with_overrides(
        ["model.dim=64", "training.learning_rate=1e-4", "training.clip_norm=2", "dataset.shift=concept", "seed=7"]
    )
    assert config.model["dim"] == 64
    assert config.training.learning_rate == 1e-4
    assert config.training.clip_norm == 2.0
    assert config.dataset["shift"] == "concept"
    assert config.seed == 7
    assert config.with_overrides(["training.clip_norm=null"]).training.clip_norm is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("'2021'", "2021"), ('"1e-4"', "1e-4"), ("2021", 2021), ("1E5", 1e5), ("-.5", -0.5), ("[1e-4, '1']", [1e-4, "1"])],
)
def test_a_number_in_quotes_is_text(text: str, value: object) -> None:
    """So a column of a table can be named that is a number."""
    assert parse_assignment(f"dataset.target={text}") == (["dataset", "target"], value)


def test_a_new_name_takes_its_own_defaults() -> None:
    config = tiny_config().with_overrides(["model.name=gps", "model.dim=32"])
    assert config.model["name"] == "gps"
    assert config.model["dim"] == 32
    assert "heads" in config.model
    assert tiny_config().with_overrides(["model=gin"]) == tiny_config()


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("model.dmi=64", "did you mean dim?"),
        ("modle.dim=64", "did you mean model.dim"),
        ("training.epoch=4", "did you mean epochs?"),
        ("training=4", "training"),
        ("model.dim.x=4", "unknown setting"),
        ("training.epochs=0", "greater than or equal to 1"),
        ("training.learning_rate=fast", "not accepted"),
        ("model.dropout_rate=1.5", "less than 1"),
        ("model.name=gim", "did you mean gin"),
        ("seed=-1", "greater than or equal to 0"),
        ("model.dim", "write it as name=value"),
        ("model.dim=[1", "not valid YAML"),
    ],
)
def test_a_bad_override_gets_one_sentence(assignment: str, words: str) -> None:
    with pytest.raises(InputError, match=r".") as caught:
        tiny_config().with_overrides([assignment])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"dataset": "good-motif", "model": "gin"},
        {"dataset": "good-motif", "model": "gin", "method": 3},
        {"dataset": "good-motif", "model": {"dim": 3}, "method": "erm"},
        {"dataset": "good-motif", "model": "gin", "method": "erm", "trainign": {}},
        {"dataset": "good-motif", "model": "gin", "method": "erm", "training": 4},
        {"dataset": "good-motif", "model": "gin", "method": "erm", "seed": "x"},
    ],
)
def test_bad_fields_are_input_errors(fields: dict[str, object]) -> None:
    with pytest.raises(InputError):
        RunConfig(**fields)


def test_every_setting_has_a_sentence() -> None:
    for model in (TrainingConfig, Hardware, RunConfig):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert field.description.endswith("."), name


def test_bad_hardware_and_training_are_input_errors() -> None:
    with pytest.raises(InputError, match="hardware: devices"):
        Hardware(devices=0)
    with pytest.raises(InputError, match="did you mean batch_size"):
        TrainingConfig(batchsize=3)


def test_folder_names_say_what_the_run_is() -> None:
    config = tiny_config(seed=4)
    assert config.folder_name == f"good-motif-basis-covariate-erm-gin-s4-{config.id}"
    biased = tiny_config(dataset={"name": "sp-motif", "bias": 0.7})
    assert "bias0.7" in biased.folder_name


def test_a_config_does_not_change() -> None:
    with pytest.raises(ValidationError):
        tiny_config().seed = 3


@pytest.mark.parametrize("text", ["[1, 2", "just words", b"\xff\xfe\x00"])
def test_bad_yaml_files_are_input_errors(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError):
        read_yaml(path)
    with pytest.raises(InputError, match="No such file"):
        read_yaml(tmp_path / "none.yaml")
