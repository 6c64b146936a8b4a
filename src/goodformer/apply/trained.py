"""A model as its user sees it: what it reads and what its answers are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from goodformer.data.molecule import FEATURES
from goodformer.engine.store import Run
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.spec import Task

MEANING = "meaning"


@dataclass(frozen=True)
class Meaning:
    """What goes into a model and what comes out, in the words of its user.

    Attributes:
        smiles: Column of the SMILES, None where the model reads graphs.
        classes: For each target the names of its classes in the order of their codes; of 0 and 1 where it is binary.
        kind: What the classes were before they became names: numpy's letter for text, integers, reals or truth values.
    """

    smiles: str | None
    classes: dict[str, tuple[str, ...]]
    kind: str = "U"

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of what is predicted."""
        return tuple(self.classes)

    @property
    def values(self) -> list[NDArray[Any]]:
        """The classes of each target as they were given."""
        return [self._as_given(np.array(names)) for names in self.classes.values()]

    def _as_given(self, names: NDArray[Any]) -> NDArray[Any]:
        if self.kind == "b":
            return names == "True"
        return names.astype(f"{self.kind}8") if self.kind in "iuf" else names

    @classmethod
    def of_task(cls, task: Task, smiles: str | None) -> Self:
        """The meaning of a task whose classes have no names but their numbers."""
        if task.kind == "multiclass":
            return cls(smiles, {"label": tuple(str(code) for code in range(task.outputs))})
        return cls(smiles, dict.fromkeys(target_names(task.outputs), ("0", "1")))


@dataclass(frozen=True)
class Trained:
    """A trained method with the meaning of its input and output."""

    predictor: FittedModel
    meaning: Meaning

    @classmethod
    def open(cls, name: str | Path, runs: str | Path = "runs", weights: str = "best") -> Self:
        """The model in a folder that `save` wrote, or of a trained run given by its folder or the start of its id."""
        if (Path(name) / "model.json").is_file():
            if weights != "best":
                raise InputError(f"{name} is a fitted model with weights of one kind only; leave --weights out.")
            return cls.of(FittedModel.load(name))
        if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
            raise InputError(f"{name} holds neither a model nor a run; give a folder that goodformer fit wrote.")
        return cls.of(FittedModel.of_run(Run.open(name, runs), weights))

    @classmethod
    def of(cls, predictor: FittedModel) -> Self:
        """A predictor with the meaning it was saved with, or the plain one of its task."""
        kept = predictor.file.about.get(MEANING)
        if kept is None:
            smiles = "smiles" if predictor.file.features == FEATURES else None
            return cls(predictor, Meaning.of_task(predictor.file.task, smiles))
        if predictor.sureness is None:
            raise InputError("the model has lost what says how sure it is (sureness.json); restore it or fit again.")
        try:
            return cls(predictor, TypeAdapter(Meaning).validate_python(_of_each_target(kept)))
        except ValidationError:
            raise InputError("the model does not say what it predicts (damaged model.json); fit it again.") from None

    def save(self, folder: str | Path) -> Path:
        """Write the model into a folder that `open` reads."""
        self.predictor.file.about[MEANING] = asdict(self.meaning)
        return self.predictor.save(folder)


def target_names(targets: int) -> tuple[str, ...]:
    """What targets are called that have no name."""
    return ("label",) if targets == 1 else tuple(f"label_{place}" for place in range(targets))


def _of_each_target(kept: Any) -> Any:
    """A saved meaning as it is written now; older models had one list of classes for all their targets."""
    if not isinstance(kept, dict) or not isinstance(kept.get("classes"), list):
        return kept
    rest = {name: value for name, value in kept.items() if name != "targets"}
    return {**rest, "classes": dict.fromkeys(kept.get("targets") or (), kept["classes"])}


def fresh_names(wanted: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Names for new columns; all get a prefix as often as one of them is taken, so that no input column is lost."""
    names, there = list(wanted), set(taken)
    while there & set(names):
        names = [f"goodformer_{name}" for name in names]
    return names
