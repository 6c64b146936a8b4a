"""The fitted model: trained weights, what they read, what their answers mean, and how certain they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from goodformer import files
from goodformer.data.features import check_features
from goodformer.data.graphs import GraphSet, check_several
from goodformer.data.hashes import hash_graphs
from goodformer.data.readers.attributes import Attributes
from goodformer.data.readers.values import counted
from goodformer.data.similarity import BITS
from goodformer.engine.evaluate import Metrics, eval_batches, evaluate, infer
from goodformer.engine.seeds import derive_seed
from goodformer.engine.store import CONFIG, MODEL, Run
from goodformer.engine.weights import DERIVED, WEIGHTS, ModelFile, load_weights, save_weights
from goodformer.errors import InputError, check_name
from goodformer.methods.base import SPREAD, Method, link
from goodformer.spec import REGRESSION, Encoding, FeatureSpec, Task
from goodformer.transforms import encode
from goodformer.transforms.environments import MOLECULE
from goodformer.uncertainty.domain import DOMAIN_SCORES, INSIDE, default_score
from goodformer.uncertainty.observe import FINGERPRINTED, observe, observe_batch, sample
from goodformer.uncertainty.training_rows import (
    TRAINING,
    Neighbour,
    TrainingRows,
    label_words,
    packed_bits,
    stored_places,
    unit,
)
from goodformer.uncertainty.uncertainty import DESCRIPTION, Uncertainty, check_validation

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from goodformer.data.readers.collection import Collection

MEANING = "meaning"
"""Entry of ``about`` in ``model.json`` that says what a model reads and what its answers mean."""


@dataclass(frozen=True)
class Predictions:
    """Predictions for B graphs, in the order of the graphs.

    Attributes:
        logits: Unnormalised scores, (B, C).
        probabilities: Of each class, or of each binary target, (B, C); calibrated if the model has uncertainty.
            Measured targets have none, (B, 0).
        classes: The most probable class, (B,), or 0 and 1 for each binary target, (B, C). Measured targets have none.
        edge_scores: For each graph one score per directed edge, in the order of its edges, larger = more invariant;
            None if the method does not score edges.
        domain_score: Share of reference graphs that are less unusual, (B,) in [0, 1]. This and the following are None
            for a model without uncertainty.
        reason: Why a graph lies outside the domain of the training graphs, (B,): a value of
            `goodformer.uncertainty.domain`, where ``INSIDE`` means that it does not.
        similarity: Tanimoto similarity to the nearest training molecule, (B,), if the domain score compares molecules.
        spread: Standard deviation of the members' probabilities or values, (B,); None if the method has no members.
        values: Predicted values of measured targets in their own units, (B, T); None for classes.
        hardness: How hard each value is to predict, (B, T), which scales its interval; None for classes.
    """

    logits: Tensor
    probabilities: Tensor
    classes: Tensor
    edge_scores: list[Tensor] | None
    domain_score: Tensor | None = None
    reason: Tensor | None = None
    similarity: Tensor | None = None
    spread: Tensor | None = None
    values: Tensor | None = None
    hardness: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def outside(self) -> Tensor | None:
        """Whether each graph lies outside the domain of the training graphs, (B,)."""
        return None if self.reason is None else self.reason != INSIDE

    @property
    def judged(self) -> NDArray[np.floating]:
        """What metrics are computed from, (B, C): logits, or predicted values of measured targets."""
        found: NDArray[np.floating] = (self.logits if self.values is None else self.values.double()).numpy()
        return found

    def subset(self, places: Sequence[int]) -> Predictions:
        """Return the predictions for some of the graphs."""
        chosen: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                value = value[list(places)]
            chosen[field.name] = [value[place] for place in places] if isinstance(value, list) else value
        return Predictions(**chosen)

    @classmethod
    def concat(cls, parts: Sequence[Predictions]) -> Self:
        """Join predictions of one model."""
        joined: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(part, field.name) for part in parts]
            if isinstance(values[0], list):
                joined[field.name] = [one for value in values for one in value]
            else:
                joined[field.name] = None if values[0] is None else torch.cat(values)
        return cls(**joined)


class FittedModel:
    """A trained method with everything needed to use it on new graphs.

    Args:
        method: The trained method.
        file: Its description.
        uncertainty: Calibration, domain score and conformal sets; see `fit_uncertainty`.
        smiles: Column of the SMILES in the training file; None if the model reads graphs.
        classes: For each target the names of its classes in the order of their codes, none for measured values; numbers
            by default.
        label_kind: What the class names were before they became text, as numpy's letter: U, i, u, f or b.
        standardise: How molecules are standardised, see `goodformer.data.molecule.STANDARDS`.
        reader: Version of `goodformer.data.molecule` that made the training graphs.
        attributes: Encoding of the attributes of networkx graphs, if they are the features.

    Attributes:
        training: The training rows, for `neighbours`; None if they are not stored.
    """

    def __init__(
        self,
        method: Method,
        file: ModelFile,
        uncertainty: Uncertainty | None = None,
        smiles: str | None = None,
        classes: Mapping[str, Sequence[str]] | None = None,
        label_kind: str = "U",
        standardise: str = "none",
        reader: int = 1,
        attributes: Attributes | None = None,
    ) -> None:
        self.method, self.file, self.uncertainty = method.eval(), file, uncertainty
        self._types = {name: value.dtype for name, value in _tensors(method)}  # as trained and stored
        self.to(method.device)
        self.task: Task = file.task
        self.features: FeatureSpec = file.features
        self.label_kind, self.standardise, self.reader = label_kind, standardise, reader
        self.attributes = attributes
        self.training: TrainingRows | None = None
        self.smiles = smiles if classes is not None else "smiles" if self.molecular else None
        if classes is None and self.task.kind == "multiclass":
            classes = {"label": tuple(str(code) for code in range(self.task.outputs))}
        self.classes = {
            target: tuple(names)
            for target, names in (
                classes or dict.fromkeys(target_names(self.task.outputs), () if self.task.measured else ("0", "1"))
            ).items()
        }

    @property
    def class_values(self) -> list[NDArray[Any]]:
        """The classes of each target in the type of the labels given to `fit`."""
        names = [np.array(names) for names in self.classes.values()]
        if self.label_kind == "b":
            return [one == "True" for one in names]
        return [one.astype(f"{self.label_kind}8") if self.label_kind in "iuf" else one for one in names]

    @property
    def molecular(self) -> bool:
        """Whether the model reads molecules."""
        return self.features == MOLECULE

    @property
    def members(self) -> int:
        """The number of methods that predict together; 1 unless the method is a blend."""
        return max(len(self.file.members), 1)

    # ------------------------------------------------------------------------------------------ on disk

    @classmethod
    def open(cls, name: str | Path, runs: str | Path = "runs", weights: str = "best") -> Self:
        """Load a fitted-model folder, or the weights of a run given by its folder or the start of its name or id."""
        files.settle(Path(name))
        if (Path(name) / MODEL).is_file():
            if weights != "best":
                raise InputError(f"{name} is a fitted model, which has one set of weights; leave --weights out.")
            return cls.load(name)
        if Path(name).is_dir() and not (Path(name) / CONFIG).is_file():
            raise InputError(f"{name} is neither a fitted model nor a run; give a folder that goodformer fit wrote.")
        return cls.of_run(Run.open(name, runs, models=True), weights)

    @classmethod
    def of_run(cls, run: Run, weights: str = "best") -> Self:
        """Load the weights of a run: those of the selected epoch (``best``) or of the latest one (``last``)."""
        return cls.load(run.weights(weights))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote; no code is executed."""
        place = Path(folder)
        files.settle(place)
        method, file = load_weights(place)
        uncertainty = Uncertainty.load(place, file.sha256) if (place / DESCRIPTION).is_file() else None
        meaning = file.about.get(MEANING)
        if meaning is None:
            return cls(method, file, uncertainty)
        if uncertainty is None:
            raise InputError(f"{place / DESCRIPTION} is missing; refit the model or restore the file.")
        if isinstance(meaning, dict) and isinstance(meaning.get("classes"), list):  # one list for all targets: v0.1
            meaning = {**meaning, "classes": dict.fromkeys(meaning.get("targets") or (), meaning["classes"])}
        try:
            read = TypeAdapter(_Meaning).validate_python(meaning)
        except ValidationError:
            raise InputError(f"{place / MODEL} has a damaged entry {MEANING!r}; refit the model.") from None
        named = [len(names) for names in read.classes.values()]
        each = {
            "multiclass": [file.task.outputs],
            "binary": [2] * file.task.outputs,
            REGRESSION: [0] * file.task.outputs,
        }
        if named != each[file.task.kind]:
            raise InputError(f"{place / MODEL} does not name every class; restore it from a copy, or refit the model.")
        found = cls(method, file, uncertainty, read.smiles, read.classes, read.kind, read.standardise, read.reader)
        found.attributes = read.attributes
        if read.training is not None and (place / TRAINING).is_file():
            found.training = TrainingRows.load(place, read.training)
        return found

    def save(self, folder: str | Path) -> Path:
        """Write weights, description and uncertainty into a folder that `load` reads.

        The SMILES column and the class names are written for models with uncertainty, that is, for those that were
        fitted to a user's data.
        """
        place, about = Path(folder), self.file.about
        state = self.method.state_dict()
        stored = {name: value.to(self._types[name]) for name, value in state.items()}
        with files.replacing(place, (MODEL, WEIGHTS, TRAINING, *DERIVED)) as new:
            if self.uncertainty:
                about = {**about, MEANING: self._described(new)}
            self.file = save_weights(new, self.file.model_copy(update={"about": about}), stored)
            if self.uncertainty:
                self.uncertainty.save(new, self.file.sha256)
        return place

    def _described(self, folder: Path) -> dict[str, Any]:
        """Return what inputs and outputs mean, and write the training rows into a folder."""
        meaning: dict[str, Any] = {"smiles": self.smiles, "classes": self.classes, "kind": self.label_kind}
        meaning |= {} if self.standardise == "none" else {"standardise": self.standardise}
        meaning |= {} if self.reader == 1 else {"reader": self.reader}
        meaning |= {} if self.attributes is None else {"attributes": asdict(self.attributes)}
        return meaning | ({} if self.training is None else {"training": self.training.save(folder)})

    def without_data(self) -> FittedModel:
        """Return this model without its training rows and without the name of its data file.

        It predicts the same probabilities or values. Of domain score and intervals, `Uncertainty.without_rows` says
        what is left. Members that compare with training graphs keep their counts (`keeps_graphs`).
        """
        bare = copy(self)
        bare.training = None
        bare.uncertainty = None if self.uncertainty is None else self.uncertainty.without_rows()
        about = {name: value for name, value in self.file.about.items() if name not in ("dataset", MEANING)}
        bare.file = self.file.model_copy(update={"about": about})
        return bare

    @property
    def keeps_graphs(self) -> bool:
        """Whether the weights hold counts of the substructures of training graphs."""
        return any(member.keeps_graphs for member in self.method.members)

    def to(self, device: str | torch.device) -> Self:
        """Move the weights to a device, where predictions are then computed.

        The CPU computes in double precision: in single precision, the other graphs of a batch change the fifth digit of
        a probability. Weights are stored as they were trained.
        """
        self.method.to(device)
        if self.precision is torch.double:
            self.method.double()
        else:
            self.as_trained(self.method)
        return self

    @property
    def precision(self) -> torch.dtype:
        """Type of the floating-point numbers in predictions, see `to`."""
        return torch.double if self.method.device.type == "cpu" else torch.float

    def as_trained(self, method: Method) -> Method:
        """Give every weight the type that it had in training."""
        for name, value in _tensors(method):
            value.data = value.data.to(self._types[name])
        return method

    # ------------------------------------------------------------------------------------------ on graphs

    @torch.no_grad()
    def predict(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 64, scores: bool = True) -> Predictions:
        """Predict graphs, which need no labels; encodings are computed here.

        Args:
            graphs: PyG graphs with ``edge_index`` and, unless the model has constant node features, ``x``; or networkx
                graphs, SMILES or RDKit molecules, which are read as in training.
            batch_size: Graphs per batch; it does not change the predictions.
            scores: Whether to score edges, too, even where that costs extra.
        """
        known = self.uncertainty
        ready = self.prepare(graphs, known.encodings if known and known.knows_domain else ())
        order: list[Tensor] = []
        logits: list[Tensor] = []
        by_edge: list[Tensor] = []
        unusual: list[Tensor] = []
        beyond: list[Tensor] = []
        spread: list[Tensor] = []
        for places, batch, prediction in infer(self.method, ready, batch_size, scores=scores):
            order.append(places)
            logits.append(prediction.logits.detach().float().cpu())
            if prediction.edge_scores is not None:
                by_edge += prediction.edge_scores.detach().float().cpu().split(ready.edge_ptr.diff()[places].tolist())
            if SPREAD in prediction.signals:
                spread.append(prediction.signals[SPREAD].detach().float().cpu())
            if known:
                seen = observe_batch(self.method, batch, prediction, known.embeds)
                unusual.append(known.unusual(seen))
                beyond.append(known.beyond(seen))
        back = torch.cat(order).argsort()  # from the order of batches to that of the graphs
        z = torch.cat(logits)[back]
        raw = torch.cat(unusual)[back] if unusual else None
        far = torch.cat(beyond)[back] if beyond else None
        disagreement = torch.cat(spread)[back] if spread else None
        return Predictions(
            z,
            **self._meaning(z),
            edge_scores=[by_edge[place] for place in back.tolist()] if by_edge else None,
            **self._domain(raw, far),
            spread=disagreement,
            hardness=known.hardness(z, raw, disagreement) if self.task.measured and known and raw is not None else None,
        )

    @property
    def knows_domain(self) -> bool:
        """Whether it can say which graphs are outside its domain."""
        return self.uncertainty is not None and self.uncertainty.knows_domain

    def _domain(self, unusual: Tensor | None, beyond: Tensor | None) -> dict[str, Any]:
        """Return what raw domain scores (B,) say, and the similarity that they stand for; nothing without a domain."""
        known = self.uncertainty
        if known is None or unusual is None or not known.knows_domain:
            return {}
        found = {"domain_score": known.domain_score(unusual, beyond), "reason": known.reason(unusual, beyond)}
        return {**found, "similarity": (1 - unusual).float()} if known.encodings else found

    def _meaning(self, z: Tensor) -> dict[str, Any]:
        """Return what logits (B, C) say: probabilities and classes, or values."""
        known = self.uncertainty
        if self.task.measured:
            none = z.new_zeros(len(z), 0)
            values = link(self.task, z.double()).float()
            return {"probabilities": none, "classes": none.long(), "values": values}
        plain = z.argmax(-1) if self.task.kind == "multiclass" else (z > 0).long()
        return {
            "probabilities": known.probabilities(z) if known else link(self.task, z),
            "classes": known.classes(z) if known else plain,
        }

    def empty(self) -> Predictions:
        """Return the predictions for no graph, with all that `predict` returns."""
        none = torch.zeros(0, self.task.outputs)
        row = none[:, 0]
        found = Predictions(none, **self._meaning(none), edge_scores=None, spread=row if self.members > 1 else None)
        if self.uncertainty:
            found = replace(found, **self._domain(row, row.long()), hardness=none if self.task.measured else None)
        return found

    @torch.no_grad()
    def probabilities(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 64) -> Tensor:
        """Return the probabilities of `predict`, or its values, (B, C), and compute nothing else."""
        batches = eval_batches(self.method, self.prepare(graphs), batch_size)
        parts = [(places, self.method(batch)) for places, batch in batches]
        logits = torch.cat([part.float().cpu() for _, part in parts])
        said = self._meaning(logits[torch.cat([places for places, _ in parts]).argsort()])
        return said["values" if self.task.measured else "probabilities"]

    @torch.no_grad()
    def edge_scores(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 64) -> list[Tensor] | None:
        """Return the edge scores of `predict` and compute nothing else; None if the method does not score edges."""
        ready = self.prepare(graphs)
        found: list[Tensor] = [torch.empty(0)] * len(ready)
        for places, batch in eval_batches(self.method, ready, batch_size):
            scores = self.method.edge_scores(batch)
            if scores is None:
                return None
            parts = scores.float().cpu().split(ready.edge_ptr.diff()[places].tolist())
            for place, part in zip(places.tolist(), parts, strict=True):
                found[place] = part
        return found

    def evaluate(self, graphs: Sequence[Data] | GraphSet, batch_size: int = 256) -> Metrics:
        """Return the metrics on labelled graphs, in single precision as in training."""
        ready = self.prepare(graphs).in_precision(torch.float)
        if "y" not in ready.graph:
            raise InputError("the graphs have no labels; attach y to every graph, or use predict.")
        return evaluate(self.as_trained(deepcopy(self.method)), ready, batch_size)

    def fit_uncertainty(
        self, train: Sequence[Any] | GraphSet, id_val: GraphSet, score: str | None = None, alpha: float = 0.05
    ) -> Self:
        """Fit calibration, domain score and conformal sets or intervals to held-out graphs, see `Uncertainty.fit`.

        The domain score is `default_score` of the features, unless another one of `DOMAIN_SCORES` is named.
        """
        check_validation(id_val)
        chosen = score or default_score(self.features)
        check_name("domain score", chosen, DOMAIN_SCORES)
        needed = DOMAIN_SCORES[chosen].encodings
        every = train if isinstance(train, GraphSet) else self._set_of(train)
        known = self.encoded(sample(every, FINGERPRINTED), needed) if needed else self.prepare(sample(every))
        ready = self.prepare(id_val, needed)
        self.uncertainty = Uncertainty.fit(self.method, known, ready, chosen, alpha).within(every)
        return self

    def refitted(
        self, graphs: GraphSet, seed: int = 0, threads: int = 1, networks: Mapping[int, Method] | None = None
    ) -> FittedModel:
        """Return the same model, every member except networks fitted again to these labelled graphs.

        Calibration and thresholds stay: they were fitted for members that knew fewer graphs and erred more. So do
        networks, and with them embeddings, unless others are given. The domain is then that of these graphs, as far as
        it does not depend on embeddings.

        Args:
            graphs: What the members learn.
            seed: Of the forests.
            threads: To grow them with.
            networks: Members that were trained on the same graphs, by their position; they replace the present ones.
        """
        new, trained = copy(self), networks or {}
        method = self.as_trained(deepcopy(self.method))
        device, ready = self.method.device, self.prepare(graphs).in_precision(torch.float)
        for number, member in enumerate(method.members):
            if member.at_once:
                batches = (ready.batch(chunk).to(device) for chunk in torch.arange(len(ready)).split(256))
                member.fit(batches, derive_seed(seed, "refit", number), threads)
        members = [trained.get(number, member) for number, member in enumerate(method.members)]
        new.method = method.rejoined(members).to(device).eval()
        whole = all(member.at_once or number in trained for number, member in enumerate(method.members))
        about = {**self.file.about, "refitted": len(graphs), "retrained": whole}
        task = next((network.task for network in trained.values()), self.task)  # has the environments of all graphs
        new.task, new.file = task, self.file.model_copy(update={"about": about, "task": task})
        new.to(device)
        if (known := self.uncertainty) is not None:
            ready = new.prepare(graphs, known.encodings)
            new.uncertainty = known.knowing(new.method, ready) if trained or known.encodings else known.within(ready)
        return new

    def coverage(self, splits: Mapping[str, GraphSet]) -> dict[str, dict[str, float | None]]:
        """Return how many labels the conformal sets or intervals hold on each split that nothing was fitted to."""
        known = self.uncertainty
        assert known is not None
        parts = {split: splits[split] for split in ("id_test", "val", "test") if len(splits[split])}
        return {
            split: known.coverage(observe(self.method, self.prepare(part, known.encodings), known.embeds))
            for split, part in parts.items()
        }

    def remember(self, rows: Collection, y: Tensor, first: int = 1) -> Self:
        """Store training rows for `neighbours`: fingerprints of molecules, the model's embeddings of other graphs.

        Args:
            rows: The training rows; a sample of them is stored if there are more than `training_rows.MOST`.
            y: Labels of all rows of the source, also of those that are no training rows, (R,) or (R, T).
            first: Number of the first row of the source.
        """
        places = stored_places(len(rows))
        some, classes = rows.subset(places), list(self.classes.items())
        labels = tuple(label_words(row, classes) for row in y[some.rows].view(len(some), -1).tolist())
        both = (self._fingerprints(some), None)
        bits, embedding = both if some.molecules is not None else reversed(both)
        hashes = _hashes(some) if some.molecules is None else None
        self.training = TrainingRows(some.rows + first, labels, len(rows), some.smiles, bits, embedding, hashes)
        return self

    def in_training(self, rows: Collection) -> Tensor | None:
        """Return whether rows are equal to a stored training row (G,); None if the model does not store them.

        Molecules are equal if their canonical SMILES are, other graphs if they are written in the same way.
        """
        stored = self.training
        if stored is not None and rows.molecules is None and stored.hashes is not None:
            return torch.isin(_hashes(rows), stored.hashes)
        if stored is None or stored.smiles is None or rows.molecules is None:
            return None
        from goodformer.data.readers.collection import from_smiles  # loads RDKit

        near = {stored.smiles[place] for place in stored.alike(self._fingerprints(rows))}  # few of them are parsed
        parsed = from_smiles(sorted(near)).molecules
        known = set() if parsed is None else set(parsed.canonical())
        return torch.tensor([one in known for one in rows.molecules.canonical()])

    def neighbours(self, items: Sequence[Any] | Collection, count: int = 3) -> list[list[Neighbour]]:
        """Return the training rows that are most similar to each item, best first; see `TrainingRows.measure`.

        Args:
            items: SMILES or graphs, as `read` accepts them, or a collection of them.
            count: Training rows per item.
        """
        if self.training is None:
            raise InputError("this model has no training rows to compare with; fit it again with goodformer fit.")
        from goodformer.data.readers.collection import Collection  # loads RDKit

        read = items if isinstance(items, Collection) else self.read(items)
        return self.training.nearest(self._fingerprints(read), count)

    def _fingerprints(self, rows: Collection) -> Tensor:
        """Return packed fingerprints of molecules, or embeddings of other graphs (G, D)."""
        if rows.molecules is not None:
            parts = torch.arange(len(rows)).split(4096)  # all bits together may not fit in memory
            return torch.cat([packed_bits(rows.molecules.subset(part.tolist()).fingerprints(BITS)) for part in parts])
        embedding = observe(self.method, self.prepare(rows.graphs)).embedding
        assert embedding is not None
        return unit(embedding).float()

    def read(self, items: Sequence[Any]) -> Collection:
        """Read SMILES, RDKit molecules, PyG or networkx graphs as the training graphs were read; see `collect`.

        Raises:
            InputError: An item cannot be read, or lacks the features that the model was trained with.
        """
        from goodformer.data.readers.collection import collect, listed  # loads RDKit

        made = collect(listed(items), self.features, self.standardise, self.attributes)
        if made.rejected:
            first = made.rejected[0]
            more = f" and {len(made.rejected) - 1} more" if len(made.rejected) > 1 else ""
            raise InputError(f"item {first.row} ({first.text!r}{more}) cannot be read: {first.reason}; leave it out.")
        return made

    def prepare(self, graphs: Sequence[Data] | GraphSet, encodings: Sequence[str] = ()) -> GraphSet:
        """Check graphs, read them if they are no `GraphSet`, and attach missing encodings: the method's and others."""
        if not isinstance(graphs, GraphSet):
            check_several(graphs, "graphs")
            graphs = graphs if hasattr(graphs, "__len__") else list(graphs)
        if not len(graphs):
            raise InputError("there is no graph to predict; give at least one.")
        ready = graphs if isinstance(graphs, GraphSet) else self._set_of(graphs)
        empty = (ready.sizes == 0).nonzero().flatten()
        if len(empty):
            raise InputError(f"graph {int(empty[0])} is empty; every graph needs at least one node.")
        check_features(ready, self.features, "the graphs to predict")
        return self.encoded(ready, (*self.method.encodings, *encodings)).in_precision(self.precision)

    def encoded(self, graphs: GraphSet, encodings: Sequence[str]) -> GraphSet:
        """Attach the encodings that graphs lack."""
        for text in encodings:
            attribute = Encoding.parse(text).attribute
            if attribute not in graphs.node:
                graphs = graphs.with_node(attribute, encode(text, graphs.structure(self.features)))
        return graphs

    def _set_of(self, graphs: Sequence[Any]) -> GraphSet:
        """Return a list of graphs as a set, PyG graphs with all their attributes."""
        if all(isinstance(graph, str) for graph in graphs):
            return self.read(graphs).graphs
        from torch_geometric.data import Data  # takes two seconds

        if not all(isinstance(graph, Data) for graph in graphs):
            return self.read(graphs).graphs
        from goodformer.data.readers.collection import check_given  # loads RDKit

        check_given(graphs, self.features)
        ready = GraphSet.from_list(list(graphs))
        unread = self.features.node.kind == "constant" and ready.node["x"].shape[1] == 1
        return ready.with_node("x", torch.ones(int(ready.node_ptr[-1]), 1)) if unread else ready


@dataclass(frozen=True)
class _Meaning:
    """The entry ``meaning`` of ``model.json``."""

    smiles: str | None
    classes: dict[str, tuple[str, ...]]
    kind: str = "U"
    standardise: Literal["none", "parent", "tautomer"] = "none"
    reader: int = 1
    attributes: Attributes | None = None
    training: str | None = None


def _hashes(rows: Collection) -> Tensor:
    """Return a hash of each graph, with nodes and edges in their order (G,)."""
    return torch.from_numpy(hash_graphs(rows.graphs).view(np.int64))


def describe_refit(about: Mapping[str, Any]) -> str:
    """Return what `FittedModel.refitted` fitted again, from the entries that it leaves; empty if it did not."""
    if not about.get("refitted"):
        return ""
    what = "the whole model was" if about.get("retrained") else "every member except networks was"
    return f"{what} fitted again to {counted(about['refitted'], 'row')}"


def target_names(targets: int) -> tuple[str, ...]:
    """Return names for targets that have none."""
    return ("label",) if targets == 1 else tuple(f"label_{place}" for place in range(targets))


def _tensors(method: Method) -> Iterator[tuple[str, Tensor]]:
    """Yield every weight and buffer of a method with its name."""
    yield from method.named_parameters()
    yield from method.named_buffers()
