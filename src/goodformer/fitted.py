"""A trained method that stands alone: graphs in, probabilities and edge scores out, saved without any code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import safetensors
import safetensors.torch
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor
from torch_geometric.data import Data

import goodformer
from goodformer import files
from goodformer.data.features import check_features
from goodformer.data.graphs import GraphSet
from goodformer.engine.evaluate import Metrics, evaluate, infer
from goodformer.engine.seeds import own_randomness
from goodformer.methods import METHODS
from goodformer.methods.base import Method, class_scores
from goodformer.models import MODELS
from goodformer.registry import InputError, Registry, first_mistake
from goodformer.spec import Encoding, FeatureSpec, Task
from goodformer.transforms import encode
from goodformer.uncertainty.observe import look
from goodformer.uncertainty.uncertainty import Sureness, remove_from, saved_in

T = TypeVar("T")
FORMAT, VERSION = "goodformer-predictor", 1
DESCRIPTION, WEIGHTS = "model.json", "weights.safetensors"


@dataclass(frozen=True)
class Recipe:
    """All that is needed to build a method before it has weights.

    Attributes:
        model: Name of the model and its settings.
        method: Name of the method and its settings.
        features: What nodes and edges carry.
        task: What is predicted.
    """

    model: dict[str, Any]
    method: dict[str, Any]
    features: FeatureSpec
    task: Task

    def build(self) -> Method:
        """The method with fresh weights, drawn from the global generators."""
        model = _built(MODELS, self.model, self.features)
        return _built(METHODS, self.method, model, self.task)


@dataclass(frozen=True)
class Predictions:
    """What is said of B graphs, in the order they were given.

    Attributes:
        logits: Unnormalised scores, (B, C).
        probabilities: Of each class, or of each binary target, (B, C).
        classes: The likeliest class, (B,), or 0 and 1 for each binary target, (B, C).
        edge_scores: For each graph a score of each of its edges in its own edge order, larger = more invariant; None
            where the method does not explain itself.
        calibrated: Probabilities that mean what they say on graphs like the training ones, (B, C); this and what
            follows is None where the predictor does not know how sure it is.
        domain_score: Share of validation graphs that are less unusual, (B,) in [0, 1].
        outside: Whether a graph is more unusual than nearly all graphs like the training ones, (B,).
    """

    logits: Tensor
    probabilities: Tensor
    classes: Tensor
    edge_scores: list[Tensor] | None
    calibrated: Tensor | None = None
    domain_score: Tensor | None = None
    outside: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)


class Predictor:
    """A trained method with what it takes to use it on new graphs, and, once `Sureness.fit` was asked, how sure."""

    def __init__(
        self,
        method: Method,
        recipe: Recipe,
        about: Mapping[str, Any] | None = None,
        sureness: Sureness | None = None,
    ) -> None:
        self.method, self.recipe, self.about = method.eval(), recipe, dict(about or {})
        self.sureness = sureness

    def predict(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 256) -> Predictions:
        """Probabilities and edge scores of graphs, which need no labels; encodings are attached here.

        Args:
            graphs: PyG graphs with ``x`` (unless nodes are all alike) and ``edge_index``, or a set of them.
            batch_size: Graphs predicted at once; the answer does not depend on it.
        """
        ready = self.prepare(graphs)
        order: list[Tensor] = []
        logits: list[Tensor] = []
        scores: list[Tensor] = []
        unusual: list[Tensor] = []
        for positions, batch, prediction in infer(self.method, ready, batch_size):
            order.append(positions)
            logits.append(prediction.logits.detach().float().cpu())
            if prediction.edge_scores is not None:
                scores += prediction.edge_scores.detach().cpu().split(ready.edge_ptr.diff()[positions].tolist())
            if self.sureness:
                unusual.append(self.sureness.unusual(look(self.method, batch, prediction, self.sureness.embeds)))
        back = torch.cat(order).argsort()  # from batch order to the caller's
        return self._predictions(
            torch.cat(logits)[back],
            [scores[place] for place in back.tolist()] if scores else None,
            torch.cat(unusual)[back] if unusual else None,
        )

    def evaluate(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 256) -> Metrics:
        """What the predictions are worth on graphs that carry labels."""
        ready = self.prepare(graphs)
        if "y" not in ready.graph:
            raise InputError("the graphs carry no labels; attach y to every graph, or use predict.")
        return evaluate(self.method, ready, batch_size)

    def prepare(self, graphs: Sequence[Data] | GraphSet) -> GraphSet:
        """The graphs as a checked set that carries the method's encodings."""
        ready = graphs if isinstance(graphs, GraphSet) else GraphSet.from_list(list(graphs))
        _check_set(ready)
        check_features(ready, self.recipe.features, "the graphs to predict")
        for text in self.method.encodings:
            attribute = Encoding.parse(text).attribute
            if attribute not in ready.node:
                ready = ready.with_node(attribute, encode(text, ready.edge_index, ready.node_ptr))
        return ready

    def to(self, device: str | torch.device) -> Self:
        """Move the weights to a device, where predictions are then computed."""
        self.method.to(device)
        return self

    def save(self, folder: str | Path) -> Path:
        """Write weights (safetensors) and description (JSON) into a folder, and how sure it is where it knows."""
        place = save_weights(Path(folder), self.recipe, self.method.state_dict(), self.about)
        if self.sureness:
            self.sureness.save(place, _checksum(_read_description(place)))
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote; nothing in the folder is ever executed."""
        description = _read_description(Path(folder))
        recipe = _read_recipe(Path(folder), description)
        with own_randomness():
            method = recipe.build()
        _fill(method, _read_weights(Path(folder), description), Path(folder))
        sureness = Sureness.load(folder, _checksum(description)) if saved_in(Path(folder)) else None
        return cls(method, recipe, description.get("about"), sureness)

    def _predictions(self, logits: Tensor, scores: list[Tensor] | None, unusual: Tensor | None) -> Predictions:
        task, sure = self.recipe.task, self.sureness
        classes = logits.argmax(-1) if task.kind == "multiclass" else (logits > 0).long()
        answer = Predictions(logits, class_scores(task, logits), classes, scores)
        if sure is None or unusual is None:
            return answer
        return replace(
            answer,
            calibrated=sure.probabilities(logits),
            domain_score=sure.domain_score(unusual),
            outside=sure.outside(unusual),
        )


def save_weights(folder: Path, recipe: Recipe, state: Mapping[str, Tensor], about: Mapping[str, Any]) -> Path:
    """Write a folder that `Predictor.load` reads; what older weights there were sure of goes with them."""
    files.make_folder(folder)
    remove_from(folder)
    content = safetensors.torch.save({name: value.detach().cpu().clone().contiguous() for name, value in state.items()})
    description = {
        "format": FORMAT,
        "version": VERSION,
        "goodformer": goodformer.__version__,
        **asdict(recipe),
        "about": dict(about),
        "weights": {"file": WEIGHTS, "sha256": hashlib.sha256(content).hexdigest()},
    }
    files.write_bytes(folder / WEIGHTS, content)
    files.write_json(folder / DESCRIPTION, description)
    return folder


def _built(registry: Registry[T], part: Mapping[str, Any], *more: Any) -> T:
    """What a part of a config describes."""
    return registry.build(part["name"], *more, **{name: value for name, value in part.items() if name != "name"})


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InputError(
            f"{folder} holds no saved model ({DESCRIPTION} is missing); give the folder best or last of a run."
        )
    description = files.read_json(path)
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise InputError(f"{path} was not written by goodformer; give the folder best or last of a run.")
    if description.get("version") != VERSION:
        raise InputError(f"{path} has version {description.get('version')!r}; this goodformer reads version {VERSION}.")
    return description


def _read_recipe(folder: Path, description: dict[str, Any]) -> Recipe:
    fields = {name: description.get(name) for name in Recipe.__dataclass_fields__}
    try:
        return TypeAdapter(Recipe).validate_python(fields)
    except ValidationError as error:
        raise InputError(f"{folder / DESCRIPTION} is damaged: {first_mistake(error)}") from None


def _checksum(description: dict[str, Any]) -> str | None:
    """The checksum of the weights a description belongs to."""
    return (description.get("weights") or {}).get("sha256")


def _read_weights(folder: Path, description: dict[str, Any]) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); restore it or train again.") from None
    if hashlib.sha256(content).hexdigest() != _checksum(description):
        raise InputError(f"{path} is truncated or belongs to another model; restore it or train again.")
    try:
        return dict(safetensors.torch.load(content))
    except safetensors.SafetensorError:
        raise InputError(f"{path} is not a safetensors file; restore it or train again.") from None


def _fill(method: Method, weights: dict[str, Tensor], folder: Path) -> None:
    try:
        method.load_state_dict(weights)
    except RuntimeError:
        raise InputError(f"the weights in {folder} do not fit the model they describe; train again.") from None


def _check_set(graphs: GraphSet) -> None:
    if not len(graphs):
        raise InputError("there is no graph to predict; give at least one.")
    empty = (graphs.sizes == 0).nonzero().flatten()
    if len(empty):
        raise InputError(f"graph {int(empty[0])} is empty; every graph needs at least one node.")
