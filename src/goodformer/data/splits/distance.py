"""How far the parts of a split lie apart: in size, classes, domains, structure and nearest neighbours.

Letters: G graphs, F columns, Q molecules compared with T training molecules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.readers.collection import Collection
from goodformer.data.readers.labels import labelled
from goodformer.data.splits.descriptors import contents, structure
from goodformer.data.splits.split import Split
from goodformer.data.splits.twins import same_graphs
from goodformer.spec import SPLITS

Bits = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating]
Places = dict[str, Tensor]

COMPARED, REFERENCE = 1_000, 5_000
"""At most so many molecules of a part are compared with at most so many of training."""
TOLD_APART = 3_000
"""At most so many graphs of each of two parts are told apart."""
FOLDS = 5
CLOSE, FAR = 0.6, 0.8
"""Up to which AUROC parts count as alike, and from which on as far apart."""


def distance_report(split: Split, collection: Collection, y: Tensor | None = None, seed: int = 0) -> dict[str, Any]:
    """How far train and each other part of a split are apart, as JSON values; None where that cannot be told.

    For each part: number of graphs, shares of the classes (of binary targets: the share of 1), mean size and its
    difference from train in standard deviations of train, number of domains and the share of them that train lacks,
    mean and median Tanimoto similarity of a molecule to its nearest training molecule, the AUROC with which a logistic
    regression tells the part from train by size, degrees and mean features (0.5 = alike), and the number of rows whose
    molecule, or whose graph as it is written, is also in train. Of many molecules
    1,000 of a part are compared with 5,000 of train, the same for every part: where train is larger, similarities are
    lower than to all of it, and only the difference between parts counts.

    Args:
        split: Which row is where.
        collection: The graphs.
        y: Labels of all rows; rows without any are not counted.
        seed: Decides what is compared where there is more than is needed.
    """
    places = _places(split, collection, y)
    used = sum(len(found) for found in places.values())
    table = _described(collection)
    train = places["train"]
    near = _Nearest(collection, train, seed)
    parts, twin = {}, same_graphs(collection)
    for name, found in places.items():
        parts[name] = _counted(split, collection, y, found)
        parts[name] |= _sizes_apart(collection, train, found)
        parts[name]["unseen_domains"] = _unseen(split, collection, train, found)
        parts[name] |= {"nearest_mean": None, "nearest_median": None, "auroc": None, "also_in_train": None}
        if name != "train":
            parts[name] |= near.similarity(found)
            parts[name]["auroc"] = told_apart(table[train.numpy()], table[found.numpy()], seed)
            parts[name]["also_in_train"] = int(np.isin(twin[found.numpy()], twin[train.numpy()]).sum())
    report = {"by": split.by, "rows": len(split), "left_out": len(split) - used, "parts": parts}
    return {**report, "sentence": _sentence(report, "graph" if collection.molecules is None else "molecule")}


def nearest_similarity(some: Bits, others: Bits) -> Floats:
    """Tanimoto similarity of each fingerprint (Q, F) to the nearest of the others (T, F): shared bits over all bits."""
    # Sums of zeros and ones are exact in float32, and a product of matrices is the fastest way to count shared bits.
    mine, theirs = some.astype(np.float32), others.astype(np.float32)
    shared = mine @ theirs.T  # (Q, T)
    either = mine.sum(1)[:, None] + theirs.sum(1)[None] - shared
    return np.where(either > 0, shared / np.maximum(either, 1), 1.0).max(1)  # two empty fingerprints are equal


def told_apart(some: Floats, others: Floats, seed: int = 0) -> float | None:
    """Cross-validated AUROC of a logistic regression that tells two tables of descriptors apart; None for few rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if min(len(some), len(others)) < 2 * FOLDS:
        return None
    generator = np.random.default_rng(seed)
    parts = [_sample(part, TOLD_APART, generator) for part in (some, others)]
    which = np.repeat([0, 1], [len(part) for part in parts])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, class_weight="balanced"))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    scores = cross_val_score(model, np.concatenate(parts), which, cv=folds, scoring="roc_auc")
    return round(float(scores.mean()), 4)


class _Nearest:
    """Compares molecules with a sample of the training molecules, whose fingerprints are computed once."""

    def __init__(self, collection: Collection, train: Tensor, seed: int) -> None:
        self.molecules, self.generator = collection.molecules, np.random.default_rng(seed)
        self.train = None if collection.molecules is None or not len(train) else self._bits(train, REFERENCE)

    def similarity(self, places: Tensor) -> dict[str, float]:
        """Mean and median similarity to the nearest training molecule; nothing where these are not molecules."""
        if self.train is None or not len(places):
            return {}
        found = nearest_similarity(self._bits(places, COMPARED), self.train)
        return {"nearest_mean": round(float(found.mean()), 4), "nearest_median": round(float(np.median(found)), 4)}

    def _bits(self, places: Tensor, most: int) -> Bits:
        assert self.molecules is not None
        return self.molecules.subset(_sample(places.numpy(), most, self.generator).tolist()).fingerprints()


def _sample(values: npt.NDArray[Any], most: int, generator: np.random.Generator) -> npt.NDArray[Any]:
    """The values, or so many of them drawn at random."""
    return values if len(values) <= most else values[np.sort(generator.choice(len(values), most, replace=False))]


def _described(collection: Collection) -> Floats:
    """What each graph looks like (G, F)."""
    return np.concatenate([structure(collection.graphs), contents(collection.graphs, collection.features)], 1)


def _places(split: Split, collection: Collection, y: Tensor | None) -> Places:
    """The graphs of each part that have a label, as places within the collection."""
    part = split.part[collection.rows]  # (G,)
    if y is not None:
        part = torch.where(labelled(y[collection.rows]), part, torch.full_like(part, -1))
    return {name: (part == number).nonzero().flatten() for number, name in enumerate(SPLITS)}


def _counted(split: Split, collection: Collection, y: Tensor | None, found: Tensor) -> dict[str, Any]:
    """Graphs, domains and classes of a part."""
    domains = len(split.domain[collection.rows[found]].unique())
    known = None if y is None or not len(found) else _class_shares(y, y[collection.rows[found]])
    return {"graphs": len(found), "domains": domains, "classes": known}


def _class_shares(y: Tensor, some: Tensor) -> list[float | None]:
    """Shares of the classes, or of 1 in each binary target."""
    if y.is_floating_point():
        shares = some.nanmean(0).tolist()
    else:
        shares = (some.bincount(minlength=int(y.max()) + 1) / len(some)).tolist()
    return [None if math.isnan(share) else round(share, 4) for share in shares]


def _sizes_apart(collection: Collection, train: Tensor, found: Tensor) -> dict[str, float | None]:
    """Mean size, and how far it is from that of train."""
    sizes = collection.graphs.sizes.double()
    if not len(found) or not len(train):
        return {"mean_size": None, "size_difference": None}
    spread = float(sizes[train].std(correction=0))
    difference = float(sizes[found].mean() - sizes[train].mean())
    return {
        "mean_size": round(float(sizes[found].mean()), 2),
        "size_difference": round(difference / spread, 3) if spread > 0 else 0.0 if difference == 0 else None,
    }


def _unseen(split: Split, collection: Collection, train: Tensor, found: Tensor) -> float | None:
    """Share of the domains of a part that train does not have."""
    domain = split.domain[collection.rows]
    own = domain[found].unique()
    return round(float((~torch.isin(own, domain[train])).double().mean()), 4) if len(own) else None


def _sentence(report: Mapping[str, Any], what: str) -> str:
    """The report on graphs or molecules in one sentence."""
    parts = report["parts"]
    test, inside = (
        next(((n, parts[n]) for n in names if parts[n]["graphs"]), None)
        for names in (("test", "val"), ("id_test", "id_val"))
    )
    if test is None or not parts["train"]["graphs"]:
        return "There is nothing to compare: train or test is empty."
    name, row = test
    facts = [_fact_auroc(row, inside), _fact_nearest(row, inside), _fact_size(row), _fact_domains(row)]
    facts.append(_fact_twins(parts, what))
    return f"{name} {_verdict(row['auroc'])} train: {', '.join(fact for fact in facts if fact)}."


def _verdict(auroc: float | None) -> str:
    if auroc is None:
        return "has too few graphs to be told from"
    return "is much like" if auroc < CLOSE else "differs from" if auroc < FAR else "lies far from"


def _fact_auroc(row: Mapping[str, Any], inside: tuple[str, Mapping[str, Any]] | None) -> str:
    if row["auroc"] is None:
        return ""
    beside = f", {inside[0]} {inside[1]['auroc']:.2f}" if inside and inside[1]["auroc"] is not None else ""
    return f"a simple classifier tells them apart with AUROC {row['auroc']:.2f} (0.5 = alike{beside})"


def _fact_nearest(row: Mapping[str, Any], inside: tuple[str, Mapping[str, Any]] | None) -> str:
    if row["nearest_mean"] is None:
        return ""
    beside = f" ({inside[0]} {inside[1]['nearest_mean']:.2f})" if inside and inside[1]["nearest_mean"] else ""
    return f"the nearest training molecule has a Tanimoto similarity of {row['nearest_mean']:.2f} on average{beside}"


def _fact_size(row: Mapping[str, Any]) -> str:
    difference = row["size_difference"]
    if difference is None or abs(difference) < 0.1:
        return ""
    return f"graphs are {abs(difference):.1f} standard deviations {'larger' if difference > 0 else 'smaller'}"


def _fact_domains(row: Mapping[str, Any]) -> str:
    return (
        f"{row['unseen_domains']:.0%} of its domains are unseen" if row["domains"] > 1 or row["unseen_domains"] else ""
    )


def _fact_twins(parts: Mapping[str, Mapping[str, Any]], what: str) -> str:
    """Rows that a model may know by heart."""
    there = [f"{part['also_in_train']:,} rows of {name}" for name, part in parts.items() if part["also_in_train"]]
    return f"train also has the {what} of {' and '.join(there)}" if there else ""
