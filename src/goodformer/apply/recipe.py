"""What is fitted to a user's data: which method, model and preset, and how long networks are trained."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer.config.members import (
    MEASURED,
    MOLECULES,
    blend_preset,
    gains_from_networks,
    split_overrides,
    with_members,
)
from goodformer.config.presets import configure, fit_steps, ignored_epochs, networks_of, presets
from goodformer.config.run import PARTS, RunConfig, parse_assignment
from goodformer.config.search import is_preset_file, read_preset
from goodformer.data.benchmark import Benchmark
from goodformer.data.readers.values import counted
from goodformer.errors import InputError
from goodformer.methods.members import BLEND, split_member
from goodformer.transforms.environments import MOLECULE

AUTO, GOODFORMER = "auto", "goodformer"
CHEMPROP = ("erm", "dmpnn")
"""Method and model of chemprop's network, which has a preset for molecules, too."""
READ_BY_ALL = ("selection", "eval_batch_size")
"""Settings of training that blends and methods fitted at once read, too."""
STEPS = 3000
"""Training steps by default: on few graphs that is many epochs."""
MOST_EPOCHS = 100
LEAST_PATIENCE = 10
PERFECT_EPOCHS, PERFECT_STEPS = 5, 80
"""A run ends after so many epochs, and so many steps, with a perfect metric. Explanations improve for longer than the
metric of an easy task. With the 400 molecules of ``examples/nitro.csv``, the marked part decided in 24 of 44 molecules
with a nitro group (``molecule-rules``) for a network that ended after 40 perfect steps, in 38 after 80, and in the same
38 after 200; for the blend it was 44 each time."""
LEAST_AVERAGE = 10
"""Smallest number of steps over which weights are averaged."""


@dataclass(frozen=True)
class Recipe:
    """What is fitted to a user's data.

    Attributes:
        method: Name of a method, ``METHOD:PRESET``, ``METHOD on MODEL``, or ``auto``, see `choose`.
        model: Name of a model; by default the one the method is published with.
        preset: Preset of the method to start from, or a preset file, which also names method and model; by default see
            `choose`.
        overrides: ``part.setting=value``, for example ``training.epochs=5``.
        seed: Seed of the run.
        members: Runs with different seeds that predict together; by default one, or what a blend says.
        networks: Whether networks are members of the blend that ``auto`` means for molecules; None decides by the data,
            see `wants_networks`.
    """

    method: str = AUTO
    model: str | None = None
    preset: str | Path | None = None
    overrides: Sequence[str] = ()
    seed: int = 0
    members: int | None = None
    networks: bool | None = None


def configure_fit(benchmark: Benchmark, dataset: Mapping[str, Any], recipe: Recipe) -> RunConfig:
    """Return the configuration of a run on a user's data: a preset, with training adapted to the number of graphs."""
    method, model, preset, overrides = choose(benchmark, recipe)
    if recipe.members is not None:
        method, overrides = with_members(method, recipe.members, overrides)
    plain = configure(dataset, method, model, preset, seed=recipe.seed, overrides=overrides)
    if recipe.networks not in (None, bool(networks_of(plain))):
        named = (
            "none of the named members is a network" if recipe.networks else "some of the named members are networks"
        )
        raise InputError(f"{named}; name others, or leave the choice of networks out.")
    given = {".".join(parse_assignment(line)[0]) for line in overrides}
    fitting = enough_training(benchmark.splits["train"], plain, given)
    return plain.with_overrides([line for line in fitting if line.partition("=")[0] not in given])


def choose(benchmark: Benchmark, recipe: Recipe) -> tuple[str, str | None, str, list[str]]:
    """Return method, model, preset and settings of a recipe.

    A preset file names them, and settings may, as in ``preset=fast``. A method may have its preset or model beside it,
    as in ``forest:shared`` and ``erm on gin``. If nothing is named, molecules are fitted with a blend, with networks or
    without (`wants_networks`), and other graphs with GOODFormer. A preset that is left open suits the data if the
    method has such a preset: GOODFormer reads codes of environments if the graphs are molecules or the labels measured
    values, and chemprop's network reads properties of atoms if the labels are classes of molecules.
    """
    method, model, preset, overrides = _read_file(recipe)
    said = {line.partition("=")[0].strip(): line.partition("=")[2].strip() for line in overrides}
    method, preset = said.get("method", said.get("method.name", method)), said.get("preset", preset)
    model = said.get("model", said.get("model.name", model))
    method, model, preset = named_row(method, model, preset)
    measured, molecular = benchmark.task.measured, benchmark.features == MOLECULE
    if method == AUTO and model is None and preset is None and molecular:
        method = BLEND
        preset = None if "method.of" in said else blend_preset(measured, wants_networks(benchmark, recipe))
    elif recipe.networks is not None:
        cause = "name no method, model or preset" if molecular else "these are other graphs"
        raise InputError(f"whether networks take part can be chosen only for the default blend of molecules; {cause}.")
    elif method == AUTO and model not in (None, GOODFORMER):
        raise InputError(f"the model {model} needs a method; name one, for example erm.")
    elif method == AUTO:
        method = GOODFORMER
    if preset is None:
        of = said.get("method.of", GOODFORMER) if method == BLEND else method
        ours = (of == GOODFORMER and model in (None, GOODFORMER)) or (of, model) == CHEMPROP
        kind = MEASURED if measured else MOLECULES if molecular else ""
        preset = kind if ours and kind in presets(of) else "default"
    return method, model, preset, overrides


def _read_file(recipe: Recipe) -> tuple[str, str | None, str | None, list[str]]:
    """Return what a recipe names; if its preset is a file, with what the file names."""
    file, overrides = recipe.preset, list(recipe.overrides)
    if file is None or not is_preset_file(file):
        return recipe.method, recipe.model, None if file is None else str(file), overrides
    method, model, preset, lines = read_preset(file)
    for kind, wanted, named in (("method", recipe.method, method), ("model", recipe.model, model)):
        if wanted not in (None, AUTO, named):
            raise InputError(f"{file} names the {kind} {named}, not {wanted}; leave out --{kind}, or the file.")
    return method, model, preset, [*lines, *overrides]


def named_row(method: str, model: str | None, preset: str | None) -> tuple[str, str | None, str | None]:
    """Return method, model and preset, also of a method that is named ``METHOD:PRESET`` or ``METHOD on MODEL``.

    A preset that only blends have means a blend.
    """
    name, its_model, its_preset = split_member(method)
    if (its_model and model) or (its_preset and preset):
        raise InputError(
            f"{method!r} names a {'model' if its_model and model else 'preset'} already; give one of them."
        )
    model, preset = its_model or model, its_preset or preset
    if name == AUTO and preset in set(presets(BLEND)) - set(presets(GOODFORMER)):
        name = BLEND
    return name, model, preset


def wants_networks(benchmark: Benchmark, recipe: Recipe) -> bool:
    """Return whether networks are members of the blend that molecules get.

    A recipe with several members or with settings of networks has networks.
    """
    about = network_settings(recipe)
    if recipe.networks is False and about:
        raise InputError(
            f"{about[0]} is a setting of networks, which were to be left out; remove it, or let networks take part."
        )
    if recipe.networks is not None:
        return recipe.networks
    return bool(about) or gains_from_networks(benchmark.task.measured, len(benchmark.splits["train"]))


def network_settings(recipe: Recipe) -> list[str]:
    """Return the names of what a recipe says of networks: several members, and settings that only networks read."""
    own, rest = split_overrides(recipe.overrides)
    several = [recipe.members, own.get("members")]
    names = ["members"] if any(isinstance(count, int) and count > 1 for count in several) else []
    for line in rest:
        part, *path = parse_assignment(line)[0]
        name = ".".join(path)
        known = PARTS[part].settings(GOODFORMER) if part in ("model", "method") else ()
        if name in known or (part == "training" and name not in READ_BY_ALL):
            names.append(f"{part}.{name}")
    return names


def recipe_notes(recipe: Recipe, benchmark: Benchmark, config: RunConfig) -> list[str]:
    """Return sentences on what a recipe leads to: epochs without effect, and networks that a setting brought."""
    measured, rows = benchmark.task.measured, len(benchmark.splits["train"])
    notes = [ignored_epochs(config, recipe.overrides)]
    free = (recipe.method, recipe.model, recipe.preset, recipe.networks) == (AUTO, None, None, None)
    brought = free and config.preset == blend_preset(measured, True) and not gains_from_networks(measured, rows)
    if brought and (about := network_settings(recipe)):
        why = f"networks take part because {about[0]} is a setting of networks"
        notes.append(f"{why}; the default for {counted(rows, 'training row')} has none.")
    return list(filter(None, notes))


def enough_training(train: Sized, config: RunConfig, given: Collection[str] = ()) -> list[str]:
    """Return settings that adapt training to the number of graphs; none if the user set the epochs.

    None, too, for methods that are fitted at once.

    The epochs of presets are meant for benchmarks with tens of thousands of graphs; a table of a thousand molecules
    needs more. Early stopping ends the run, so the learning rate is constant: a decaying rate would still be high at
    that point. Presets that name their number of steps, such as those with codes of environments, which are learnt
    fast, keep their decaying rate. A run also ends once the selection metric has been perfect for some time. Weights
    are averaged over at most one epoch, so that the average does not contain the first steps.

    Args:
        train: Training graphs.
        config: The run with the settings of its preset.
        given: Names of the settings of the user, such as ``training.epochs``.
    """
    networks = networks_of(config)
    if not networks or "training.epochs" in given:
        return []
    steps = max(math.ceil(len(train) / config.training.batch_size), 1)
    own = fit_steps(networks[0])
    epochs = min(max(math.ceil((own or STEPS) / steps), 3 if own else 10), MOST_EPOCHS)
    decay = min(config.training.average_decay, 1 - 1 / max(steps, LEAST_AVERAGE))
    return [
        f"training.epochs={epochs}",
        f"training.patience={max(epochs // 4, LEAST_PATIENCE)}",
        f"training.perfect_patience={max(math.ceil(PERFECT_STEPS / steps), PERFECT_EPOCHS)}",
        *([] if own else ["training.schedule=constant"]),
        f"training.average_decay={decay:.4g}",
    ]
