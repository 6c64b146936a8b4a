"""A scikit-learn classifier and regressor for molecules and graphs, with any method and model."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from goodformer import files
from goodformer.apply.fit import WRITTEN, fit_benchmark
from goodformer.apply.recipe import Recipe, configure_fit, recipe_notes
from goodformer.apply.refit import check_refit, plan_refit, refitted
from goodformer.config.members import FAST, FAST_MEASURED, MEASURED, MOLECULES
from goodformer.config.run import Hardware
from goodformer.data.benchmarks.table import assemble
from goodformer.data.molecule import VERSION as READER
from goodformer.data.readers.collection import Collection, collect, listed
from goodformer.data.readers.labels import Labels, read_labels
from goodformer.data.readers.values import counted
from goodformer.data.splits.parts import places_of
from goodformer.data.splits.splitters import make_split
from goodformer.engine.store import MODEL
from goodformer.errors import InputError
from goodformer.explain.subgraph import Size
from goodformer.fitted import FittedModel, Predictions, target_names
from goodformer.spec import Task
from goodformer.uncertainty.training_rows import Neighbour

Array = NDArray[Any]


class GraphEstimator(BaseEstimator):
    """What the estimators for graphs have in common.

    ``X`` is a list, an array or a pandas column of SMILES, of RDKit molecules, of PyG ``Data``, or of networkx graphs.
    Besides those of scikit-learn there are the methods `explain` (which edges and atoms decide) and `domain_score` (how
    unlike the training graphs an input is).

    `fit` holds out two sets of graphs: a random one for calibration, and one that differs from the rest, as new
    data will, to choose the epoch. If no environments are given, the groups of the split serve as environments:
    scaffolds of molecules, sizes of other graphs.

    Args:
        method: Name of a method, see ``goodformer methods``; ``auto`` is a blend of methods on fingerprints for
            molecules and GOODFormer for other graphs.
        model: Name of a model; by default the one the method is published with.
        preset: Name of a preset of the method, by default one that suits the graphs; or a preset file, such as
            ``best.yaml`` of ``goodformer tune``, which also names method and model.
        settings: Further settings, ``{"method.variance_weight": 0.1, "training.learning_rate": 1e-3}``.
        epochs: Passes over the training graphs; by default enough for some thousand steps, with early stopping.
        members: Seeds to train; their weighted mean predicts. By default one, or what the method ``blend`` says.
        networks: Whether networks are part of the blend for molecules; by default from 2,000 training graphs, with
            measured values from 500, or if several members or settings of networks are given.
        refit: Whether to fit the model again to all graphs in the end; calibration keeps the held-out graphs apart.
        retrain: Whether this includes networks; by default for at most 5,000 graphs with measured values.
        split: How to choose the graphs that select the epoch: scaffold, size, cluster, random, or auto.
        validation: Share of the graphs in each held-out set.
        standardise: How molecules are standardised before they are read: none, parent (largest fragment, neutral) or
            tautomer (canonical); see `goodformer.data.molecule.STANDARDS`.
        node_attributes: Names of the networkx node attributes to use as features; by default all that every node has.
        edge_attributes: The same for edges.
        random_state: Seed of everything random; a numpy ``RandomState`` draws it, and None draws a new one each time.
        device: cpu, gpu or auto.
        verbose: Whether to show progress bars.

    Attributes:
        model_: The fitted model.
        history_: One record per epoch.
        split_: The split of each graph given to `fit`.
    """

    measured = False
    """Whether targets are measured values."""

    def __init__(
        self,
        method: str = "auto",
        model: str | None = None,
        *,
        preset: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        members: int | None = None,
        networks: bool | None = None,
        refit: bool = True,
        retrain: bool | None = None,
        split: str = "auto",
        validation: float = 0.1,
        standardise: str = "none",
        node_attributes: Sequence[str] | None = None,
        edge_attributes: Sequence[str] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.method, self.model, self.preset, self.settings = method, model, preset, settings
        self.epochs, self.members, self.refit, self.retrain = epochs, members, refit, retrain
        self.networks, self.split, self.validation = networks, split, validation
        self.standardise, self.node_attributes, self.edge_attributes = standardise, node_attributes, edge_attributes
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def fit(self, X: Sequence[Any], y: ArrayLike, env: ArrayLike | None = None) -> Self:
        """Train on graphs and their labels.

        Args:
            X: The graphs.
            y: The labels; see the class.
            env: The environment of each graph (a lab, a year, a batch), if known.
        """
        collection = collect(listed(X), None, self.standardise, named=(self.node_attributes, self.edge_attributes))
        if collection.rejected:
            first = collection.rejected[0]
            more = f" and {len(collection.rejected) - 1} more" if len(collection.rejected) > 1 else ""
            raise InputError(
                f"item {first.row} of X ({first.text!r}{more}) cannot be read: {first.reason}; leave it out."
            )
        labels, kind = self._encode(y, len(collection.graphs))
        if not 0 < self.validation < 0.5:
            raise InputError(f"validation = {self.validation} is out of range; give a share between 0 and 0.5.")
        if self.members is not None and not (isinstance(self.members, int) and 1 <= self.members <= 100):
            raise InputError(f"members = {self.members!r} is not accepted; give an integer from 1 to 100.")
        if not isinstance(self.networks, bool | np.bool_ | None):
            raise InputError(
                f"networks = {self.networks!r} is not accepted; give True, False, or None for the default."
            )
        check_refit(self.refit, self.retrain)
        shares = (self.validation, 0.0)
        strata = labels.strata
        seed = self._seed()
        split = make_split(self.split, collection, y=strata, seed=seed, outside=shares, inside=shares)
        if env is not None:
            given = np.asarray(env).reshape(-1)
            if any(one is None or str(one) == "nan" for one in given.tolist()):
                raise InputError("env contains None or NaN; give every graph an environment, or leave env out.")
            if len(given) != len(split):
                raise InputError(f"env has {len(given)} entries for {len(split)} graphs; give one per graph.")
            codes = np.unique(given, return_inverse=True)[1]
            split = replace(split, env=torch.from_numpy(codes.astype(np.int64)))
        self.split_ = split
        benchmark = assemble(collection, labels, split, "memory", split.by, {})  # its test splits are empty
        overrides = [f"{name}={value}" for name, value in (self.settings or {}).items()]
        if self.epochs is not None:
            overrides.append(f"training.epochs={self.epochs}")
        dataset = {"name": "memory", "fingerprint": benchmark.fingerprint}
        networks = None if self.networks is None else bool(self.networks)
        recipe = Recipe(self.method, self.model, self.preset, overrides, seed, self.members, networks)
        config = configure_fit(benchmark, dataset, recipe)
        for note in recipe_notes(recipe, benchmark, config):
            warnings.warn(note, UserWarning, stacklevel=2)
        with tempfile.TemporaryDirectory(prefix="goodformer-") as runs:
            hardware = Hardware(accelerator=self.device, progress=self.verbose)
            fitted, run = fit_benchmark(config, benchmark, runs, hardware)
            self.history_ = run.epochs
            plan = plan_refit(fitted, split, self.refit, self.retrain)
            fitted = refitted(fitted, run, config, benchmark, plan, hardware)
        fitted.smiles = None if collection.smiles is None else "smiles"
        fitted.classes, fitted.label_kind = dict(labels.classes), kind
        fitted.standardise, fitted.reader = self.standardise, READER
        fitted.attributes = collection.attributes
        places = places_of(split, collection, labels.y)
        known = torch.cat([places[one] for one in plan.splits]).sort().values
        self._set(fitted.remember(collection.subset(known), labels.y, 0))
        for note in () if fitted.uncertainty is None else fitted.uncertainty.notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def _seed(self) -> int:
        """Return the seed of a fit; as in scikit-learn, only an integer gives the same fit again."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _encode(self, y: ArrayLike, graphs: int) -> tuple[Labels, str]:
        """Return the labels of so many graphs, and numpy's letter for the type of their classes."""
        raise NotImplementedError

    def domain_score(self, X: Sequence[Any]) -> Array:
        """Return how unlike the training graphs inputs are (B,): the share of reference graphs less unusual."""
        return self._known_domain(self._predictions(X).domain_score).double().numpy()

    def outside(self, X: Sequence[Any]) -> Array:
        """Return whether inputs lie outside the domain of the training graphs (B,)."""
        return self._known_domain(self._predictions(X).outside).numpy()

    def _known_domain(self, found: torch.Tensor | None) -> torch.Tensor:
        """Return what a model says of its domain; raise an error if it knows none."""
        if found is None:
            raise InputError("this copy of a model has no domain score; use the model that it was exported from.")
        return found

    def spread(self, X: Sequence[Any]) -> Array:
        """Return the standard deviation of the members' probabilities or values (B,); zero if there is one member."""
        found = self._predictions(X)
        return np.zeros(len(found)) if found.spread is None else found.spread.double().numpy()

    def neighbours(self, X: Sequence[Any], count: int = 3) -> list[list[Neighbour]]:
        """Return the ``count`` graphs given to `fit` that are most similar to each input; see `FittedModel.neighbours`.

        ``row`` is the position in the list given to `fit`. Graphs that the model was not fitted to are not among them.
        """
        check_is_fitted(self)
        return self.model_.neighbours(_readable(X, self.model_), count)

    def explain(self, X: Sequence[Any], folder: str | Path, k: Size = None, overwrite: bool = False) -> dict[str, Any]:
        """Write pictures and edge scores into a folder; return the content of the file of scores.

        Other files of these names are replaced only if ``overwrite`` is true.
        """
        from goodformer.apply.explanation import explain_graphs  # loads Matplotlib

        check_is_fitted(self)
        collection = _readable(X, self.model_)
        written = collection.molecules if collection.as_written else None
        return explain_graphs(
            self.model_,
            collection.graphs,
            folder,
            k=k,
            smiles=None if written is None else written.smiles,
            molecules=None if written is None else written.binaries(),
            node_names=collection.names,
            overwrite=overwrite,
        )

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the fitted model, which ``goodformer predict`` and `load` read.

        Args:
            folder: Where to write it.
            overwrite: Whether to replace a model in the folder, with its card, its report and its page.
        """
        check_is_fitted(self)
        place = Path(folder)
        files.settle(place)
        earlier = (place / MODEL).is_file()
        if earlier and not overwrite:
            raise InputError(f"{place} holds a model; choose a new folder, or replace it with overwrite=True.")
        with files.replacing(place, WRITTEN if earlier else ()) as new:
            self.model_.save(new)
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a folder that `save` or ``goodformer fit`` wrote.

        The model is loaded whole. To fit it again, the estimator knows its method, model and preset, but no changed
        settings.
        """
        model = FittedModel.open(folder)
        if model.task.measured != cls.measured:
            what, other = (
                ("measured values", "GraphRegressor") if model.task.measured else ("classes", "GraphClassifier")
            )
            raise InputError(f"{folder} predicts {what}; load it with {other}.")
        name, network, preset = model.file.method["name"], model.file.model["name"], model.file.about.get("preset")
        if model.file.members:  # they have models of their own
            network = None
            if preset in (None, FAST, FAST_MEASURED, MOLECULES, MEASURED):
                name, preset = "auto", None
        estimator = cls(name, network, preset=preset, standardise=model.standardise)
        estimator._set(model)
        return estimator

    def _set(self, model: FittedModel) -> None:
        """Keep the fitted model."""
        self.model_ = model

    def _predictions(self, X: Sequence[Any]) -> Predictions:
        check_is_fitted(self)
        return self.model_.predict(_readable(X, self.model_).graphs, scores=False)

    def __sklearn_tags__(self) -> Any:
        """Declare that inputs are strings or graphs, not tables of numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """A graph classifier for data that shift; see `GraphEstimator` for its arguments.

    ``y`` holds one class per graph, of any type; or for T targets zeros and ones, or two words per target, (B, T), with
    NaN or None where a label is missing.

    Attributes:
        classes_: The classes, in the order of the columns of `predict_proba`; with several targets, a list of the two
            classes of each.
    """

    def predict(self, X: Sequence[Any]) -> Array:
        """Return the most probable class of each graph (B,), or of each of T targets (B, T)."""
        codes = self._predictions(X).classes.numpy()
        codes = codes.reshape(len(codes), -1)  # (B, T)
        found = [values[codes[:, place]] for place, values in enumerate(self.model_.class_values)]
        return found[0] if len(found) == 1 else np.stack(found, 1)

    def predict_proba(self, X: Sequence[Any]) -> Array:
        """Return calibrated probabilities: (B, C) of the classes, or (B, T) of the second class of each target."""
        shares = self._predictions(X).probabilities
        if self.model_.task.kind == "binary" and self.model_.task.outputs == 1:
            shares = torch.cat((1 - shares, shares), 1)
        return shares.double().numpy()

    def score(self, X: Sequence[Any], y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; with several targets its mean over them, where labels are missing over the known ones.

        Args:
            X: The graphs.
            y: Their labels, as in `fit`.
            sample_weight: Weights of the graphs.
        """
        return _over_targets(accuracy_score, np.asarray(y), self.predict(X), sample_weight)

    def _encode(self, y: ArrayLike, graphs: int) -> tuple[Labels, str]:
        return encode_labels(y, graphs)

    def _set(self, model: FittedModel) -> None:
        """Keep the fitted model and its classes as scikit-learn expects them."""
        super()._set(model)
        values = model.class_values
        self.classes_ = values[0] if len(values) == 1 else values


class GraphRegressor(RegressorMixin, GraphEstimator):
    """A graph regressor for data that shift; see `GraphEstimator` for its arguments.

    ``y`` holds one measured value per graph, or for T targets (B, T) with NaN or None where a value is missing.
    """

    measured = True

    def predict(self, X: Sequence[Any]) -> Array:
        """Return the value of each graph (B,), or of each of T targets (B, T)."""
        values = self._predictions(X).values
        assert values is not None
        found = values.double().numpy()
        return found[:, 0] if found.shape[1] == 1 else found

    def predict_interval(self, X: Sequence[Any], level: float = 0.9) -> Array:
        """Return lower and upper end of conformal intervals, (B, 2), or (B, T, 2) with several targets.

        For graphs like the held-out ones, at least a share ``level`` of the values is between the ends. The ends are
        infinite if `fit` held out too few graphs for this level.
        """
        answer = self._predictions(X)
        assert self.model_.uncertainty is not None
        assert answer.hardness is not None
        ends = self.model_.uncertainty.intervals(answer.logits, answer.hardness, level).numpy()
        return ends[:, 0] if ends.shape[1] == 1 else ends

    def score(self, X: Sequence[Any], y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R2; with several targets its mean over them, where values are missing over the known ones.

        Args:
            X: The graphs.
            y: Their values, as in `fit`.
            sample_weight: Weights of the graphs.
        """
        return _over_targets(r2_score, np.asarray(y, dtype=float), self.predict(X), sample_weight)

    def _encode(self, y: ArrayLike, graphs: int) -> tuple[Labels, str]:
        return encode_values(y, graphs), "f"


def _over_targets(metric: Any, y: Array, found: Array, weights: ArrayLike | None) -> float:
    """Return the mean of a metric over targets, each without the graphs whose label is missing."""
    own, said = y.reshape(len(y), -1), found.reshape(len(found), -1)
    each = []
    for place in range(said.shape[1]):
        known = np.array([not _missing(one) for one in own[:, place].tolist()])
        if not known.any():
            continue
        some = None if weights is None else np.asarray(weights)[known]
        each.append(metric(np.array(own[known, place].tolist()), said[known, place], sample_weight=some))
    if not each:
        raise InputError("y has no label; give at least one.")
    return float(np.mean(each))


def _missing(label: Any) -> bool:
    """Return whether a label is None or NaN."""
    return label is None or (isinstance(label, float) and math.isnan(label))


def encode_labels(y: ArrayLike, graphs: int) -> tuple[Labels, str]:
    """Return labels as codes with the names of their classes, and numpy's letter for the type of the names.

    Args:
        y: One class per graph of any type, or zeros, ones and NaN, or words (B, T).
        graphs: Number of graphs B.
    """
    values = np.asarray(y)
    if values.ndim == 0 or len(values) != graphs:
        raise InputError(f"y has {counted(values.size, 'label')} for {counted(graphs, 'graph')}; give one per graph.")
    if values.ndim == 2 and values.shape[1] > 1:
        names = [str(name) for name in getattr(y, "columns", target_names(values.shape[1]))]  # those of a DataFrame
        if values.dtype.kind not in "biuf" and not all(one is None or isinstance(one, Real) for one in values.flat):
            if any(isinstance(one, Real) and not _missing(one) for one in values.flat):
                raise InputError("y has targets of words and of numbers or booleans; write all of them as words.")
            return read_labels(dict(zip(names, values.T.tolist(), strict=True))), "U"
        several = torch.from_numpy(values.astype(np.float32))
        return Labels(several, Task("binary", len(names), "rocauc"), dict.fromkeys(names, ("0", "1"))), "i"
    flat = values.reshape(-1)
    flat = np.array(flat.tolist()) if flat.dtype.kind == "O" else flat  # pandas stores text as objects
    if flat.dtype.kind == "O":
        raise InputError("y contains None or values of several types; give one class per graph, all of one type.")
    if flat.dtype.kind == "f" and np.isnan(flat).any():
        raise InputError("y contains NaN; drop graphs without a label, or give several targets as columns.")
    if flat.dtype.kind == "f" and (flat != np.floor(flat)).any():
        raise InputError(
            "y contains continuous values; use GraphRegressor, or convert them to classes first, e.g. y > threshold."
        )
    classes, codes = np.unique(flat, return_inverse=True)
    if len(classes) < 2:
        raise InputError("y has a single class; give graphs of at least two classes.")
    called, one = {"label": tuple(str(name) for name in classes)}, torch.from_numpy(codes.astype(np.int64))
    if len(classes) == 2:
        return Labels(one[:, None].float(), Task("binary", 1, "rocauc"), called), classes.dtype.kind
    return Labels(one, Task("multiclass", len(classes), "accuracy"), called), classes.dtype.kind


def encode_values(y: ArrayLike, graphs: int) -> Labels:
    """Return measured values (B,) or (B, T) as labels; NaN and None are missing.

    Args:
        y: The values.
        graphs: Number of graphs B.
    """
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("y contains values that are not numbers; give numbers, or use GraphClassifier.") from None
    if values.ndim not in (1, 2) or len(values) != graphs:
        raise InputError(f"y has the shape {values.shape} for {counted(graphs, 'graph')}; give one row per graph.")
    table = values.reshape(graphs, -1)
    if not table.shape[1] or np.isinf(table).any():
        raise InputError("y has no column or contains infinite values; give finite numbers, or NaN for missing ones.")
    if table.shape[1] == 1 and np.isnan(table).any():
        raise InputError("y contains NaN; drop graphs without a value, or give several targets as columns.")
    for place, column in enumerate(table.T):
        if len(known := np.unique(column[~np.isnan(column)])) < 2:
            where = f"column {place} of y" if table.shape[1] > 1 else "y"
            only = f"the single value {known[0]:g}" if len(known) else "no value"
            raise InputError(f"{where} has {only}; give at least two different values.")
    names = target_names(table.shape[1])
    columns = {
        name: [None if math.isnan(one) else one for one in column]
        for name, column in zip(names, table.T.tolist(), strict=True)
    }
    return read_labels(columns, "regression")


def _readable(X: Sequence[Any], model: FittedModel) -> Collection:
    """Read the graphs of ``X`` as in training; raise if one cannot be read."""
    return model.read(X)
