"""What a recipe leads to: method, model, preset, networks and the length of training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from goodformer.apply.recipe import Recipe, configure_fit, enough_training, recipe_notes, wants_networks
from goodformer.config.members import MANY_CLASSES, MANY_VALUES, blend_preset
from goodformer.config.presets import configure, member_configs, member_name
from goodformer.config.run import RunConfig
from goodformer.errors import InputError
from goodformer.transforms.environments import MOLECULE

TABLE = {"name": "good-motif"}


@pytest.mark.parametrize(
    ("graphs", "epochs", "patience", "perfect", "decay"),
    [(249, 100, 25, 20, 0.9), (1300, 100, 25, 5, 0.9524), (8000, 24, 10, 5, 0.99), (60_000, 10, 10, 5, 0.99)],
)
def test_small_tables_get_more_epochs_and_a_shorter_average(
    graphs: int, epochs: int, patience: int, perfect: int, decay: float
) -> None:
    """Batches of 64: 4, 21, 125 and 938 steps an epoch; weights are averaged over 10 to 100 steps."""
    plain = configure(TABLE)
    made = plain.with_overrides(enough_training(range(graphs), plain)).training
    assert (made.epochs, made.patience, made.schedule, made.average_decay) == (epochs, patience, "constant", decay)
    assert made.perfect_patience == perfect


@pytest.mark.parametrize(
    ("method", "model", "preset", "epochs", "schedule"),
    [
        ("goodformer", None, "molecules", 40, "cosine"),
        ("blend", None, "molecules", 40, "cosine"),
        ("blend", None, "no-forest", 40, "cosine"),
        ("goodformer", None, "measured", 100, "cosine"),
        ("erm", "dmpnn", "molecules", 40, "cosine"),
        ("goodformer", None, "default", 100, "constant"),
    ],
)
def test_a_preset_names_its_steps_also_for_presets_that_change_it(
    method: str, model: str | None, preset: str, epochs: int, schedule: str
) -> None:
    """908 graphs in batches of 64: 15 steps an epoch, so 600 steps are 40 epochs."""
    plain = configure(TABLE, method, model, preset)
    made = plain.with_overrides(enough_training(range(908), plain)).training
    assert (made.epochs, made.schedule) == (epochs, schedule)


def test_epochs_of_the_user_leave_the_preset_alone() -> None:
    assert enough_training(range(249), configure(TABLE), {"training.epochs"}) == []


@pytest.mark.parametrize(
    ("measured", "rows", "recipe", "preset"),
    [
        (False, MANY_CLASSES - 1, Recipe(), "fast"),
        (False, MANY_CLASSES, Recipe(), "molecules"),
        (True, MANY_VALUES - 1, Recipe(), "fast-measured"),
        (True, MANY_VALUES, Recipe(), "measured"),
        (True, MANY_VALUES, Recipe(networks=False), "fast-measured"),
        (False, 100, Recipe(networks=True), "molecules"),
        (False, 100, Recipe(members=2), "molecules"),
        (True, 100, Recipe(overrides=["training.epochs=2"]), "measured"),
    ],
)
def test_networks_are_part_of_the_blend_for_many_rows_or_if_asked_for(
    measured: bool, rows: int, recipe: Recipe, preset: str
) -> None:
    benchmark = table_of(rows, measured)
    assert blend_preset(measured, wants_networks(benchmark, recipe)) == preset


def table_of(rows: int, measured: bool = False, features: str | None = MOLECULE) -> Any:
    """What a fit asks of a benchmark before it trains."""
    return SimpleNamespace(
        task=SimpleNamespace(measured=measured), splits={"train": range(rows)}, features=features, name="table"
    )


def configured(recipe: Recipe, features: str | None = MOLECULE) -> RunConfig:
    return configure_fit(table_of(100, features=features), TABLE, recipe)


def members(config: RunConfig) -> list[str]:
    return [
        member_name({"method": one.method["name"], "model": one.model["name"], "preset": one.preset})
        for one in member_configs(config)
    ]


def test_another_first_member_may_be_named() -> None:
    config = configured(Recipe(overrides=["method.of=erm"]))
    assert members(config)[0] == "erm"
    assert config.preset == "default"


@pytest.mark.parametrize(
    ("recipe", "method", "model", "preset"),
    [
        (Recipe("forest:shared"), "forest", None, "shared"),
        (Recipe("blend:fast"), "blend", None, "fast"),
        (Recipe("erm on dmpnn"), "erm", "dmpnn", "molecules"),
        (Recipe(preset="fast"), "blend", None, "fast"),
        (Recipe(preset="paper"), "goodformer", None, "paper"),
        (Recipe(preset="molecules"), "goodformer", None, "molecules"),
        (Recipe(overrides=["method=erm"]), "erm", None, "default"),
        (Recipe(overrides=["preset=fast"]), "blend", None, "fast"),
    ],
)
def test_methods_may_be_named_as_rows_of_tables(recipe: Recipe, method: str, model: str | None, preset: str) -> None:
    config = configured(recipe)
    assert (config.method["name"], config.preset) == (method, preset)
    assert model in (None, config.model["name"])


@pytest.mark.parametrize(
    ("recipe", "features", "words"),
    [
        (Recipe("forest:shared", preset="default"), MOLECULE, "names a preset already"),
        (Recipe("erm on dmpnn", model="gin"), MOLECULE, "names a model already"),
        (Recipe(model="gin"), MOLECULE, "the model gin needs a method; name one, for example erm"),
        (Recipe(networks=True), None, "these are other graphs"),
        (Recipe("erm", networks=False), MOLECULE, "name no method, model or preset"),
        (
            Recipe(networks=False, overrides=["training.epochs=3"]),
            MOLECULE,
            "training.epochs is a setting of networks",
        ),
        (Recipe(networks=True, overrides=["preset=fast"]), MOLECULE, "name no method, model or preset"),
        (Recipe(networks=False, overrides=["method.others=[gsat]"]), MOLECULE, "named members are networks"),
        (Recipe(networks=True, overrides=["method.of=linear"]), MOLECULE, "none of the named members is a network"),
        (Recipe("blend:fast", members=3), MOLECULE, "gaussian-process gives almost the same model for every seed"),
        (Recipe("linear:shared", members=2), MOLECULE, "linear gives almost the same model for every seed"),
        (Recipe("blend:fast", overrides=["method.of=dir"]), MOLECULE, "are of gaussian-process, not of dir"),
    ],
)
def test_choices_that_exclude_each_other(recipe: Recipe, features: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        configured(recipe, features)


@pytest.mark.parametrize(
    ("recipe", "rows", "cause"),
    [
        (Recipe(overrides=["training.sampling=balanced"]), 100, "training.sampling"),
        (Recipe(members=3), 100, "members"),
        (Recipe(members=1), 100, ""),
        (Recipe(overrides=["method.shift=false"]), 100, ""),
        (Recipe(overrides=["method.others=[linear]", "training.selection=id_val"]), 100, ""),
        (Recipe(overrides=["method.sharing=0.5"]), 100, ""),
        (Recipe(members=3), MANY_CLASSES, ""),
        (Recipe(members=3, networks=True), 100, ""),
        (Recipe("erm", members=3), 100, ""),
    ],
)
def test_a_note_says_what_brought_networks(recipe: Recipe, rows: int, cause: str) -> None:
    benchmark = table_of(rows)
    notes = recipe_notes(recipe, benchmark, configure_fit(benchmark, TABLE, recipe))
    assert [note.partition(" is a ")[0] for note in notes] == ([f"networks take part because {cause}"] if cause else [])


def test_members_of_the_default_may_be_named_without_bringing_networks() -> None:
    for networks in (None, False):
        config = configured(Recipe(overrides=["method.others=[linear]"], networks=networks))
        assert members(config) == ["gaussian-process:shared", "linear"]


def test_a_network_beside_members_without_epochs_is_trained_as_long_as_alone() -> None:
    blend = configured(Recipe("blend:fast", overrides=["method.others=[forest, 'goodformer:molecules']"]))
    alone = configured(Recipe("goodformer", preset="molecules"))
    assert members(blend) == ["gaussian-process:shared", "forest", "goodformer:molecules"]
    *_, network = member_configs(blend)
    assert (
        (network.training.epochs, network.training.patience)
        == (alone.training.epochs, alone.training.patience)
        > (1, 1)
    )
    short = configured(Recipe("blend:fast", overrides=["method.others=[gsat]", "training.epochs=3"]))
    assert member_configs(short)[1].training.epochs == 3


def test_epochs_without_effect_are_noted() -> None:
    recipe = Recipe("blend:fast", overrides=["training.epochs=5"])
    (note,) = recipe_notes(recipe, table_of(100), configured(recipe))
    assert note == "the number of epochs is ignored: blend is fitted at once."
