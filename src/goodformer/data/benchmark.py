"""Benchmarks: five splits of graphs, their task and their shift."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from goodformer.data.cache import cached, checksum
from goodformer.data.cards import FEW
from goodformer.data.features import check_features
from goodformer.data.graphs import GraphSet
from goodformer.data.readers.labels import check_varies
from goodformer.errors import InputError
from goodformer.spec import SPLIT_NAMES, SPLITS, Features, FeatureSpec, Task
from goodformer.transforms import VERSIONS, encode, parse_encoding

HALVED = "GOOD's validation and test parts are each halved into an ID and an OOD part."
"""Note of the GOOD benchmarks without shift."""


@dataclass(frozen=True)
class Benchmark:
    """A data set for training and testing under a distribution shift; checks itself when created.

    Attributes:
        name: Name of the data set.
        domain: The attribute that shifts.
        shift: How it shifts.
        splits: One set of graphs for each name in `goodformer.spec.SPLITS`.
        task: The task.
        features: Node and edge features.
        num_envs: Number of training environments; ``env`` is below it in train, id_val and id_test.
        notes: How the data differ from the published data.
        recipe: Everything that decides the graphs, as JSON values. Encodings are cached under it; not if it is empty.
        domain_names: Name of each domain by number; empty if the number is the name.
        split_names: Name of each split; a user's validation and test rows are called OOD only if domains are held out.
    """

    name: str
    domain: str
    shift: str
    splits: Mapping[str, GraphSet]
    task: Task = field(default_factory=Task)
    features: FeatureSpec = field(default_factory=FeatureSpec)
    num_envs: int = 1
    notes: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict, repr=False)
    domain_names: Sequence[str] = field(default=(), repr=False)
    split_names: Mapping[str, str] = field(default_factory=lambda: SPLIT_NAMES)

    def __post_init__(self) -> None:
        if set(self.splits) != set(SPLITS):
            raise InputError(f"{self.name} has the splits {', '.join(self.splits)}; give exactly {', '.join(SPLITS)}.")
        for split, graphs in self.splits.items():
            if not isinstance(graphs, GraphSet):
                got = type(graphs).__name__
                raise InputError(f"{self.name}, split {split} is a {got}; make it with GraphSet.from_list(graphs).")
        if len(self.splits["train"]) == 0:
            raise InputError(f"{self.name} has no training graphs; give at least one of each class.")
        for split in SPLITS:
            graphs, where = self.splits[split], f"{self.name}, split {split}"
            _check_edges(graphs, where)
            check_features(graphs, self.features, where)
            _check_labels(graphs.graph.get("y"), self.task, where)
            _check_envs(graphs.graph.get("env"), self.num_envs if split in SPLITS[:3] else None, where)
        train, where = self.splits["train"], f"{self.name}, split train"
        _check_codes(train.node["x"], self.features.node, f"x of {where}")
        if self.features.edge.kind != "constant":
            _check_codes(train.edge["attr"], self.features.edge, f"edge_attr of {where}")
        _check_classes(train.graph["y"], self.task, self.name)
        object.__setattr__(self, "task", replace(_standardised(self.task, train.graph["y"]), num_envs=self.num_envs))

    def with_encodings(self, encodings: Sequence[str]) -> Benchmark:
        """Return the benchmark with encodings, each given as ``name:width``, attached to its graphs."""
        splits = dict(self.splits)
        for text in encodings:
            wanted = parse_encoding(text)
            if all(wanted.attribute in graphs.node for graphs in splits.values()):
                continue
            values = self._encoded(str(wanted))
            splits = {split: graphs.with_node(wanted.attribute, values[split]) for split, graphs in splits.items()}
        return replace(self, splits=splits)

    def merged(self, splits: Sequence[str]) -> Benchmark:
        """Return the benchmark whose training graphs are those of several splits; its other splits are empty.

        Graphs of val and test have no training environment, so each of these splits is a further one. Codes of nodes
        and edges that training lacks become the largest known one, as which models read them.
        """
        parts = {split: self.splits[split] for split in splits if len(self.splits[split])}
        further = [split for split in ("val", "test") if split in parts]
        for number, split in enumerate(further):
            env = torch.full_like(parts[split].graph["env"], self.num_envs + number)
            parts[split] = parts[split].with_graph("env", env)
        graphs = GraphSet.concat(list(parts.values()))
        node = {**graphs.node, "x": _known(graphs.node["x"], self.features.node)}
        edge = {name: _known(one, self.features.edge) if name == "attr" else one for name, one in graphs.edge.items()}
        known = GraphSet(node, edge, graphs.graph, graphs.node_ptr, graphs.edge_ptr)
        every = {**dict.fromkeys(SPLITS, self.splits["train"].subset(torch.arange(0))), "train": known}
        return replace(self, splits=every, num_envs=self.num_envs + len(further), recipe={})

    @property
    def fingerprint(self) -> str:
        """A digest of all graphs and labels, which identifies data without a name."""
        parts = [checksum(self.splits[split].tensors()) for split in sorted(self.splits)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    def _encoded(self, text: str) -> dict[str, Tensor]:
        """Return one encoding of every split, from the cache if the recipe is known."""

        def build() -> dict[str, Tensor]:
            return {split: encode(text, graphs.structure(self.features)) for split, graphs in self.splits.items()}

        if not self.recipe:
            return build()
        version = VERSIONS[parse_encoding(text).name]
        return cached({"recipe": dict(self.recipe), "encoding": text, "version": version}, build)

    def describe(self) -> dict[str, Any]:
        """Return statistics of every split; more than `FEW` domains or environments are counted, not listed."""
        return {split: _statistics(self.splits[split], self.task) for split in SPLITS}


def _statistics(graphs: GraphSet, task: Task) -> dict[str, Any]:
    """Return counts and means of one split as JSON values."""
    if len(graphs) == 0:
        return {"graphs": 0}
    y, sizes = graphs.graph["y"], graphs.sizes
    # the mean of measured values is their balance: where the values of a split lie
    shares = y.bincount(minlength=task.outputs) / len(y) if task.kind == "multiclass" else y.nanmean(0)
    return {
        "graphs": len(graphs),
        "mean_nodes": round(float(sizes.double().mean()), 2),
        "max_nodes": int(sizes.max()),
        "mean_edges": round(len(graphs.edge["index"][0]) / 2 / len(graphs), 2),
        "class_balance": [round(float(share), 4) for share in shares],
        "domains": _counts(graphs.graph.get("domain")),
        "envs": _counts(graphs.graph.get("env")),
    }


def _counts(values: Tensor | None) -> dict[str, int]:
    """Count each value; for many values, return their number and the largest and smallest count."""
    if values is None:
        return {}
    found, counts = values.unique(return_counts=True)
    if len(found) > FEW:
        return {"number": len(found), "largest": int(counts.max()), "smallest": int(counts.min())}
    return {str(int(value)): int(count) for value, count in zip(found, counts, strict=True)}


def _check_edges(graphs: GraphSet, where: str) -> None:
    """Raise an error unless edges join nodes of their graph and come in both directions with equal truth."""
    u, v = graphs.edge["index"]
    sizes = graphs.sizes[graphs.edge_graph]
    if len(u) == 0:
        return
    if int(torch.minimum(u, v).min()) < 0 or bool((torch.maximum(u, v) >= sizes).any()):
        raise InputError(f"{where} has an edge to a node that its graph does not have; number its nodes from 0.")
    truth = graphs.edge.get("truth", torch.zeros_like(u, dtype=torch.bool)).long()
    first, widest = graphs.node_ptr[:-1][graphs.edge_graph], int(sizes.max())
    there = ((first + u) * widest + v) * 2 + truth
    back = ((first + v) * widest + u) * 2 + truth
    if not np.array_equal(np.sort(there.numpy()), np.sort(back.numpy())):
        raise InputError(f"{where} has an edge or its truth in one direction only; store both directions.")


def _check_codes(codes: Tensor, spec: Features, where: str) -> None:
    """Raise an error for a training code without its own vector; other splits may exceed the range."""
    if spec.kind == "categorical" and bool((codes >= torch.tensor(spec.sizes)).any()):
        raise InputError(f"{where} contains a code outside 0 .. size - 1 of its column; enlarge the spec or recode.")


def _check_labels(y: Tensor | None, task: Task, where: str) -> None:
    """Raise an error unless labels have the type, shape and range of the task."""
    if y is None:
        raise InputError(f"{where} has no labels; attach y to every graph.")
    if task.kind == "multiclass":
        if y.is_floating_point() or y.dim() != 1:
            raise InputError(f"{where} has y of shape {tuple(y.shape)} and {y.dtype}; give one integer per graph.")
        if len(y) and not (int(y.min()) >= 0 and int(y.max()) < task.outputs):
            raise InputError(f"{where} has classes {int(y.min())} to {int(y.max())}; use 0 to {task.outputs - 1}.")
        return
    if not y.is_floating_point() or y.dim() != 2 or y.shape[1] != task.outputs:
        raise InputError(f"{where} has y of shape {tuple(y.shape)} and {y.dtype}; give floats (B, {task.outputs}).")
    if task.measured:
        if bool(y.isinf().any()):
            raise InputError(f"{where} has an infinite target; give finite numbers, or NaN for missing ones.")
        return
    if not bool((y.isnan() | (y == 0) | (y == 1)).all()):
        raise InputError(f"{where} has a binary target that is not 0, 1 or NaN (missing); recode y.")


def _check_envs(env: Tensor | None, num_envs: int | None, where: str) -> None:
    """Raise an error unless environments exist and, for training splits, are below their number."""
    if env is None or env.is_floating_point() or env.dim() != 1:
        raise InputError(f"{where} lacks an integer env for each graph; attach env (0 if there is only one).")
    if num_envs is not None and len(env) and not (int(env.min()) >= 0 and int(env.max()) < num_envs):
        raise InputError(f"{where} has env {int(env.min())} to {int(env.max())}; use 0 to {num_envs - 1}.")


def _check_classes(y: Tensor, task: Task, where: str) -> None:
    """Raise an error unless every class, both values of every binary target, or two measured values are in training."""
    if task.measured:
        for place, values in enumerate(y.T):
            check_varies(values, f"{place} of {where}")
        return
    if task.kind == "multiclass":
        missing = (y.bincount(minlength=task.outputs) == 0).nonzero().flatten().tolist()
    else:
        missing = (~((y == 0).any(0) & (y == 1).any(0))).nonzero().flatten().tolist()
    if missing:
        what = "class" if task.kind == "multiclass" else "both values of target"
        raise InputError(f"{where} lacks {what} {missing[0]} in training; add such graphs or remove it from the task.")


def _known(codes: Tensor, features: Features) -> Tensor:
    """Return codes at most as large as the features say; measurements are returned as they are."""
    if features.kind != "categorical":
        return codes
    return torch.minimum(codes, codes.new_tensor(features.sizes) - 1)


def _standardised(task: Task, y: Tensor) -> Task:
    """Return a task with mean and standard deviation of its measured targets in training, others unchanged."""
    if not task.measured or task.scale:
        return task
    columns = [values[~values.isnan()].double() for values in y.T]
    return replace(
        task,
        centre=tuple(float(one.mean()) for one in columns),
        scale=tuple(float(one.std(correction=0)) for one in columns),
    )
