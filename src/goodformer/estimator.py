"""Any method on any model behind scikit-learn's verbs: molecules or graphs in, classes out."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from goodformer.apply.fit import enough_training, fit_benchmark
from goodformer.apply.trained import Meaning, Trained, target_names
from goodformer.config.presets import configure
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks.table import assemble
from goodformer.data.cache import checksum
from goodformer.data.readers.collection import Collection, collect
from goodformer.data.readers.labels import Labels, read_labels
from goodformer.data.readers.values import counted
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import make_split
from goodformer.fitted import Predictions
from goodformer.registry import InputError
from goodformer.spec import Task

Array = NDArray[Any]


class GraphClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of graphs that keeps working when the data shift.

    ``X`` is a sequence of SMILES, of PyG ``Data``, or of networkx graphs. Beside the verbs of scikit-learn there are
    `explain` (which edges and atoms decide) and `domain_score` (how unlike the training graphs an input is).

    Of the graphs given to `fit`, a share is kept back twice: a random one to calibrate probabilities, and one that
    differs from the rest, as new data will, to choose the epoch. Where environments are unknown, they are the groups of
    the split: scaffolds of molecules, sizes of other graphs.

    Args:
        method: Name of a method, see ``goodformer methods``.
        model: Name of a model; the one the method is published with where not given.
        preset: Settings of the method by name.
        settings: Further settings, ``{"method.variance_weight": 0.1, "training.learning_rate": 1e-3}``.
        epochs: Passes over the training graphs; where not given, as many as make some thousands of steps, fewer if
            validation stops improving.
        split: How the graphs that choose the epoch are chosen: scaffold, size, cluster, random, or auto.
        validation: Share of the graphs kept back for either purpose.
        random_state: Seed of everything random.
        device: cpu, gpu or auto.
        verbose: Whether to show progress bars.

    Attributes:
        classes_: The classes, in the order of the columns of `predict_proba`; where there are several targets, a list
            of the two classes of each.
        model_: The trained model.
        history_: One record an epoch.
        split_: Where each graph given to `fit` went.
    """

    def __init__(
        self,
        method: str = "goodformer",
        model: str | None = None,
        *,
        preset: str = "default",
        settings: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        split: str = "auto",
        validation: float = 0.1,
        random_state: int = 0,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.method, self.model, self.preset, self.settings = method, model, preset, settings
        self.epochs, self.split, self.validation = epochs, split, validation
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def fit(self, X: Sequence[Any], y: ArrayLike, env: ArrayLike | None = None) -> Self:
        """Train on graphs and their labels.

        Args:
            X: The graphs.
            y: A class a graph, of any type; or for T targets zeros and ones, or words of two kinds each, (B, T), NaN
                or None where a label is missing.
            env: The environment of each graph (a lab, a year, a batch), where it is known.
        """
        collection = _readable(X)
        labels, kind = encode_labels(y, len(collection.graphs))
        self.split_ = self._split(collection, labels, env)
        benchmark = _benchmark(collection, labels, self.split_)
        config = self._config(benchmark)
        with _folder() as runs:
            hardware = Hardware(accelerator=self.device, progress=self.verbose)
            predictor, run = fit_benchmark(config, benchmark, runs, hardware)
            self.history_ = run.epochs
        smiles = None if collection.smiles is None else "smiles"
        self.model_ = Trained(predictor, Meaning(smiles, dict(labels.classes), kind))
        self.classes_ = _classes(self.model_.meaning)
        return self

    def predict(self, X: Sequence[Any]) -> Array:
        """The likeliest class of each graph (B,), or that of each of T targets (B, T)."""
        codes = self._said(X).classes.numpy()
        codes = codes.reshape(len(codes), -1)  # (B, T)
        found = [values[codes[:, place]] for place, values in enumerate(self.model_.meaning.values)]
        return found[0] if len(found) == 1 else np.stack(found, 1)

    def predict_proba(self, X: Sequence[Any]) -> Array:
        """Calibrated probabilities: (B, C) of the classes, or (B, T) of the second class of each target."""
        said = self._said(X)
        shares = said.probabilities if said.calibrated is None else said.calibrated
        if self._task.kind == "binary" and self._task.outputs == 1:
            shares = torch.cat((1 - shares, shares), 1)
        return shares.double().numpy()

    def domain_score(self, X: Sequence[Any]) -> Array:
        """How unlike the training graphs each input is (B,): the share of validation graphs that are less unusual."""
        scores = self._said(X).domain_score
        assert scores is not None
        return scores.double().numpy()

    def outside(self, X: Sequence[Any]) -> Array:
        """Whether each input lies outside the domain of the training graphs (B,)."""
        flags = self._said(X).outside
        assert flags is not None
        return flags.numpy()

    def explain(self, X: Sequence[Any], folder: str | Path, k: int | None = None) -> dict[str, Any]:
        """Write pictures and scores of what decides each prediction into a folder; what the file of scores holds."""
        from goodformer.explain.explanation import explain_graphs

        collection = self._read(X)
        graphs = list(collection.graphs)
        names = self.model_.meaning.classes
        return explain_graphs(self.model_.predictor, graphs, folder, k=k, smiles=collection.smiles, classes=names)

    def save(self, folder: str | Path) -> Path:
        """Write the model where ``goodformer predict`` and `load` find it."""
        check_is_fitted(self)
        return self.model_.save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A fitted classifier from a folder that `save` or ``goodformer fit`` wrote."""
        model = Trained.open(folder)
        recipe = model.predictor.file
        classifier = cls(recipe.method["name"], recipe.model["name"])
        classifier.model_, classifier.classes_ = model, _classes(model.meaning)
        return classifier

    @property
    def _task(self) -> Task:
        return self.model_.predictor.file.task

    def _read(self, X: Sequence[Any]) -> Collection:
        check_is_fitted(self)
        return _readable(X, self.model_)

    def _said(self, X: Sequence[Any]) -> Predictions:
        graphs = self._read(X).graphs
        return self.model_.predictor.predict(graphs)

    def _split(self, collection: Collection, labels: Labels, env: ArrayLike | None) -> Split:
        """Parts for training, calibration and the choice of the epoch, and the environments."""
        if not 0 < self.validation < 0.5:
            raise InputError(f"validation = {self.validation} is not accepted; give a share between 0 and 0.5.")
        shares = (self.validation, 0.0)
        split = make_split(self.split, collection, y=labels.y, seed=self.random_state, outside=shares, inside=shares)
        if env is None:
            return split
        given = np.asarray(env).reshape(-1)
        if any(one is None or str(one) == "nan" for one in given.tolist()):
            raise InputError("env holds None or NaN; give every graph an environment, or no env at all.")
        if len(given) != len(split):
            raise InputError(f"env has {len(given)} entries for {len(split)} graphs; give one a graph.")
        codes = np.unique(given, return_inverse=True)[1]
        return replace(split, env=torch.from_numpy(codes.astype(np.int64)))

    def _config(self, benchmark: Benchmark) -> RunConfig:
        """The settings of the run: those of the preset, as much training as the data need, and what the user set."""
        given = [f"{name}={value}" for name, value in (self.settings or {}).items()]
        if self.epochs is not None:
            given.append(f"training.epochs={self.epochs}")
        dataset = {"name": "memory", "fingerprint": fingerprint(benchmark)}
        plain = configure(dataset, self.method, self.model, self.preset, seed=self.random_state, overrides=given)
        enough = enough_training(len(benchmark.splits["train"]), plain, given)
        return plain.with_overrides([*enough, *given])

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn should know: inputs are strings or graphs, not tables of numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags


def _classes(meaning: Meaning) -> Array | list[Array]:
    """The classes as scikit-learn has them: an array, or a list of them where there are several targets."""
    return meaning.values[0] if len(meaning.values) == 1 else meaning.values


def encode_labels(y: ArrayLike, graphs: int) -> tuple[Labels, str]:
    """Labels as codes with the names of their classes, and numpy's letter for what the names were.

    Args:
        y: A class a graph of any type, or zeros, ones and NaN, or words (B, T).
        graphs: Number of graphs B.
    """
    values = np.asarray(y)
    if values.ndim == 0 or len(values) != graphs:
        raise InputError(f"y has {counted(values.size, 'label')} for {counted(graphs, 'graph')}; give one a graph.")
    if values.ndim == 2 and values.shape[1] > 1:
        return _several_targets(values)
    flat = values.reshape(-1)
    flat = np.array(flat.tolist()) if flat.dtype.kind == "O" else flat  # what pandas calls an object may be words
    if flat.dtype.kind == "O":
        raise InputError("y holds None or values of several kinds; give one class a graph, all of one kind.")
    if flat.dtype.kind == "f" and np.isnan(flat).any():
        raise InputError("y holds NaN; drop graphs without a label, or give several targets as columns.")
    if flat.dtype.kind == "f" and (flat != np.floor(flat)).any():
        raise InputError("y holds measurements rather than classes; cut them into classes first, e.g. y > threshold.")
    classes, codes = np.unique(flat, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only ({len(classes)} different values); give graphs of at least two.")
    return _one_target(classes, torch.from_numpy(codes.astype(np.int64))), classes.dtype.kind


def _one_target(classes: Array, codes: Tensor) -> Labels:
    """One target: binary where there are two classes."""
    names = tuple(str(name) for name in classes)
    if len(classes) == 2:
        return Labels(codes[:, None].float(), Task("binary", 1, "rocauc"), {"label": names})
    return Labels(codes, Task("multiclass", len(classes), "accuracy"), {"label": names})


def _several_targets(values: Array) -> tuple[Labels, str]:
    """Binary targets as numbers with NaN or None where a label is missing, or as words, two for each target."""
    names = target_names(values.shape[1])
    if values.dtype.kind not in "biuf" and not all(one is None or isinstance(one, Real) for one in values.flat):
        return read_labels(dict(zip(names, values.T.tolist(), strict=True))), "U"
    y = torch.from_numpy(values.astype(np.float32))
    return Labels(y, Task("binary", y.shape[1], "rocauc"), dict.fromkeys(names, ("0", "1"))), "i"


def fingerprint(benchmark: Benchmark) -> str:
    """A digest of all graphs and labels, which names data that have no other name."""
    parts = [checksum(benchmark.splits[split].tensors()) for split in sorted(benchmark.splits)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def _readable(X: Sequence[Any], model: Trained | None = None) -> Collection:
    """The graphs of ``X``, all of which must be readable."""
    if isinstance(X, str) or hasattr(X, "columns"):
        kind = "one text" if isinstance(X, str) else "a table with columns"
        raise InputError(f"X is {kind}; give a list of SMILES or graphs, or the column that holds them.")
    features = None if model is None else model.predictor.file.features
    collection = collect(list(X), features)
    if collection.rejected:
        first = collection.rejected[0]
        more = f" and {len(collection.rejected) - 1} more" if len(collection.rejected) > 1 else ""
        raise InputError(f"item {first.row} of X ({first.text!r}{more}) cannot be read: {first.reason}; leave it out.")
    return collection


def _benchmark(collection: Collection, labels: Labels, split: Split) -> Benchmark:
    """The graphs as a benchmark whose test parts are empty."""
    return assemble(collection, labels, split, "memory", split.by, {})


@contextmanager
def _folder() -> Any:
    """A folder for the run that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="goodformer-") as folder:
        yield Path(folder)
