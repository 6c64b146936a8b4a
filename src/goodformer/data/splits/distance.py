"""Distance between the parts of a split: sizes, classes, domains, structure and nearest neighbours.

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
from goodformer.data.readers.values import counted, percent
from goodformer.data.similarity import tanimoto
from goodformer.data.splits.descriptors import contents, structure
from goodformer.data.splits.parts import places_of
from goodformer.data.splits.split import Split
from goodformer.data.splits.twins import same_graphs
from goodformer.spec import SPLIT_NAMES

Bits = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating]

COMPARED, REFERENCE = 1_000, 5_000
"""Largest number of molecules of a part, and of training, whose fingerprints are compared."""
SEPARATED = 3_000
"""Largest number of graphs of each part that the classifier sees."""
FOLDS = 5
CLOSE, FAR = 0.6, 0.8
"""AUROC below which parts resemble each other, and from which they differ much."""


def distance_report(split: Split, collection: Collection, y: Tensor | None = None, seed: int = 0) -> dict[str, Any]:
    """Compare each part of a split with training and return the result as JSON values; None means unknown.

    For each part: number of graphs; class shares (of binary targets: the share of 1); mean size and its difference
    from training in training standard deviations; number of domains and the share of them that training lacks; mean
    and median Tanimoto similarity of a molecule to its nearest training molecule; the AUROC with which a logistic
    regression on size, degrees and mean features separates the part from training (0.5 = alike); and the number of rows
    whose molecule (or identical graph) also occurs in training. At most 1,000 molecules of a part are compared with at
    most 5,000 of training. With a larger training part, similarities are underestimated equally for all parts.

    Args:
        split: The part and domain of each row.
        collection: The graphs.
        y: Labels of all rows; rows without any label are not counted.
        seed: Seed for the samples that are compared.
    """
    domain, places = split.domain[collection.rows], places_of(split, collection, y)  # (G,)
    train, twin = places["train"], same_graphs(collection)
    table = np.concatenate([structure(collection.graphs), contents(collection.graphs, collection.features)], 1)
    generator = np.random.default_rng(seed)
    reference = _fingerprints(collection, train, REFERENCE, generator)
    parts: dict[str, dict[str, Any]] = {}
    for name, found in places.items():
        domains = domain[found].unique()
        unseen = ~torch.isin(domains, domain[train])
        row: dict[str, Any] = {"graphs": len(found), "domains": len(domains), "classes": None}
        if y is not None and len(found):
            row["classes"] = _class_shares(y, y[collection.rows[found]])
        row |= _sizes(collection.graphs.sizes.double(), train, found)
        row["unseen_domains"] = round(float(unseen.double().mean()), 4) if len(domains) else None
        row |= {"nearest_mean": None, "nearest_median": None, "auroc": None, "also_in_train": None}
        if name != "train":
            bits = None if reference is None else _fingerprints(collection, found, COMPARED, generator)
            if bits is not None and reference is not None:
                near = nearest_similarity(bits, reference)
                row |= {
                    "nearest_mean": round(float(near.mean()), 4),
                    "nearest_median": round(float(np.median(near)), 4),
                }
            row["auroc"] = separation(table[train.numpy()], table[found.numpy()], seed)
            row["also_in_train"] = int(np.isin(twin[found.numpy()], twin[train.numpy()]).sum())
        parts[name] = row
    used = sum(map(len, places.values()))
    report = {"by": split.by, "rows": len(split), "left_out": len(split) - used, "parts": parts}
    what = "graph" if collection.molecules is None else "molecule"
    domains = f"{split.by}s" if split.by in ("scaffold", "cluster", "size") else "domains"
    return {**report, "given": list(split.given), "sentence": _sentence(parts, what, split.part_names, domains)}


def nearest_similarity(some: Bits, others: Bits) -> Floats:
    """Return the Tanimoto similarity of each fingerprint (Q, F) to the nearest of the others (T, F)."""
    return tanimoto(some, others).max(1)


def separation(some: Floats, others: Floats, seed: int = 0) -> float | None:
    """Return the cross-validated AUROC of a logistic regression that separates two tables; None for few rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if min(len(some), len(others)) < 2 * FOLDS:
        return None
    generator = np.random.default_rng(seed)
    parts = [_sample(part, SEPARATED, generator) for part in (some, others)]
    which = np.repeat([0, 1], [len(part) for part in parts])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, class_weight="balanced"))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    scores = cross_val_score(model, np.concatenate(parts), which, cv=folds, scoring="roc_auc")
    return round(float(scores.mean()), 4)


def _fingerprints(collection: Collection, places: Tensor, most: int, generator: np.random.Generator) -> Bits | None:
    """Return fingerprints of at most ``most`` molecules; None if there are none."""
    if collection.molecules is None or not len(places):
        return None
    return collection.molecules.subset(_sample(places.numpy(), most, generator).tolist()).fingerprints()


def _sample(values: npt.NDArray[Any], most: int, generator: np.random.Generator) -> npt.NDArray[Any]:
    """Return the values, or a random sample if there are more than ``most``."""
    return values if len(values) <= most else values[np.sort(generator.choice(len(values), most, replace=False))]


def _class_shares(y: Tensor, some: Tensor) -> list[float | None]:
    """Return the share of each class, or of 1 in each binary target."""
    if y.is_floating_point():
        shares = some.nanmean(0).tolist()
    else:
        shares = (some.bincount(minlength=int(y.max()) + 1) / len(some)).tolist()
    return [None if math.isnan(share) else round(share, 4) for share in shares]


def _sizes(sizes: Tensor, train: Tensor, found: Tensor) -> dict[str, float | None]:
    """Return the mean size and its difference from training in standard deviations (positive = larger graphs)."""
    if not len(found) or not len(train):
        return {"mean_size": None, "size_difference": None}
    spread = float(sizes[train].std(correction=0))
    difference = float(sizes[found].mean() - sizes[train].mean())
    return {
        "mean_size": round(float(sizes[found].mean()), 2),
        "size_difference": round(difference / spread, 3) if spread > 0 else 0.0 if difference == 0 else None,
    }


def _sentence(
    parts: Mapping[str, Mapping[str, Any]],
    what: str,
    names: Mapping[str, str] = SPLIT_NAMES,
    domains: str = "domains",
) -> str:
    """Summarise the report on graphs or molecules, whose parts and domains have names, in one sentence."""
    test = next((name for name in ("test", "val") if parts[name]["graphs"]), None)
    inside = next((name for name in ("id_test", "id_val") if parts[name]["graphs"]), None)
    if test is None or not parts["train"]["graphs"]:
        return f"Nothing to compare: {names['train']} or {names['test']} is empty."
    row, beside = parts[test], {} if inside is None else parts[inside]
    auroc, facts = row["auroc"], []
    if auroc is None:
        verdict = "has too few graphs to be compared with training"
    else:
        verdict = "resembles" if auroc < CLOSE else "differs from" if auroc < FAR else "differs strongly from"
        verdict = f"{verdict} training in size and composition"
        other = f"; {names[inside]}: {beside['auroc']:.2f}" if inside and beside["auroc"] is not None else ""
        facts.append(f"a simple classifier separates them with AUROC {auroc:.2f} (0.5 = alike{other})")
    if row["nearest_mean"] is not None:
        other = f" ({names[inside]}: {beside['nearest_mean']:.2f})" if inside and beside["nearest_mean"] else ""
        facts.append(f"mean Tanimoto similarity to the nearest training molecule {row['nearest_mean']:.2f}{other}")
    if row["size_difference"] is not None and abs(row["size_difference"]) >= 0.1:
        compared = "larger" if row["size_difference"] > 0 else "smaller"
        facts.append(f"graphs are {abs(row['size_difference']):.1f} standard deviations {compared}")
    if row["domains"] > 1 or row["unseen_domains"]:
        facts.append(f"{percent(row['unseen_domains'])} of its {domains} are unseen")
    shared = {f"{names[name]} row": part["also_in_train"] for name, part in parts.items() if part["also_in_train"]}
    if shared:
        twins = " and ".join(counted(number, name) for name, number in shared.items())
        facts.append(f"training contains the same {what} as {twins}")
    end = f": {', '.join(facts)}" if facts else ""
    return f"The {names[test]} split ({counted(row['graphs'], 'row')}) {verdict}{end}."
