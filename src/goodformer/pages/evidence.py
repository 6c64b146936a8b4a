"""What a page says about a fitted model, gathered once where the data are at hand and kept beside the model.

``evidence.json.gz`` holds a sample of the rows of every part with their labels, predictions and properties, the metrics
with their intervals, and the rows that are drawn with their explanations. A page is computed from it alone.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from goodformer import files
from goodformer.batch import Graph
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import Parsed
from goodformer.data.similarity import tanimoto
from goodformer.data.splits.descriptors import contents, named, structure
from goodformer.data.splits.distance import separation
from goodformer.engine import bootstrap, predictions
from goodformer.engine.store import PREDICTED, Run
from goodformer.errors import InputError
from goodformer.explain.explanation import explain, plain
from goodformer.fitted import FittedModel, Predictions
from goodformer.pages import EVIDENCE, statistics
from goodformer.spec import SPLIT_NAMES, SPLITS

Array = npt.NDArray[Any]

FORMAT = "goodformer evidence 2"
TRAINING, HELD_OUT = 2_000, 5_000
"""Largest number of training rows, and of rows of each other part, that are looked at."""
SHOWN, NEIGHBOURS = 8, 2
"""Rows drawn of each kind, and training rows drawn beside each."""
LARGEST = 150
"""Nodes of the largest graph that is drawn."""
DIGITS = 5


@dataclass(frozen=True)
class GraphRows:
    """Graphs with the rows that they come from, such as one part of a split.

    Attributes:
        graphs: The graphs with ``y``.
        rows: Where each comes from: its number in the file from 1, or a phrase.
        molecules: The molecules, if they are known as text.
        groups: Scaffold or domain of each, if it is known; such as ``c1ccccc1`` or ``12``.
    """

    graphs: GraphSet
    rows: Sequence[int | str]
    molecules: Parsed | None = None
    groups: Sequence[str] | None = None

    def subset(self, places: Sequence[int]) -> GraphRows:
        """Return some of the graphs."""
        molecules = None if self.molecules is None else self.molecules.subset(places)
        groups = None if self.groups is None else [self.groups[place] for place in places]
        graphs = self.graphs.subset(torch.tensor(list(places)))
        return GraphRows(graphs, [self.rows[place] for place in places], molecules, groups)


@dataclass(frozen=True)
class Seen:
    """A part with everything that is measured on it.

    Attributes:
        part: The rows.
        answer: Their predictions.
        y: Labels (G, T); NaN where missing.
        described: Properties of each graph (G,) by name.
        bits: Fingerprints of molecules (G, F), or None.
    """

    part: GraphRows
    answer: Predictions
    y: Array
    described: dict[str, Array]
    bits: Array | None


def gather(
    model: FittedModel,
    parts: Mapping[str, GraphRows],
    about: Mapping[str, Any],
    others: Mapping[str, Mapping[str, Array]] | None = None,
    seed: int = 0,
    names: Mapping[str, str] = SPLIT_NAMES,
    grouped: str = "",
    distance: Mapping[str, Mapping[str, Any]] | None = None,
    crossed: Mapping[str, Array] | None = None,
) -> dict[str, Any]:
    """Return the evidence on a model as JSON values.

    Args:
        model: A fitted model.
        parts: The parts of its data by name.
        about: Entries that the page shows as they are: settings, versions, curves, notes.
        others: For each baseline its logits (G, C), or measured values in `Task.units`, for the held-out parts.
        seed: Seed of the samples of large parts.
        names: Name of each part.
        grouped: What the groups of the parts are, such as ``scaffold``; empty if there are none.
        distance: Parts of `goodformer.data.splits.distance.distance_report`, if they are known already.
        crossed: For parts that a blend learnt its weights on, its cross-fitted logits, in the form of ``others``; the
            metrics of these parts are theirs.
    """
    random = np.random.default_rng(seed)
    seen, taken = {}, {}
    for name in SPLITS:
        if name in parts and len(parts[name].graphs):
            part, most = parts[name], TRAINING if name == "train" else HELD_OUT
            count = len(part.graphs)
            taken[name] = np.sort(random.permutation(count)[:most]) if count > most else np.arange(count)
            seen[name] = look(model, part.subset(taken[name].tolist()))
    if "train" not in seen:
        raise InputError("there are no training rows to compare with; give the data of the model.")
    near = {name: nearest(one, seen["train"], skip_same=name == "train") for name, one in seen.items()}
    compared = {
        baseline: {name: logits[name][taken[name]] for name in seen if name in logits}
        for baseline, logits in (others or {}).items()
    }
    tables, known = {name: columns(model, one, near[name][0][:, 0]) for name, one in seen.items()}, model.uncertainty
    return {
        "format": FORMAT,
        "about": dict(about),
        "task": {"kind": model.task.kind, "metric": model.task.metric},
        "targets": [{"name": name, "classes": list(classes)} for name, classes in model.classes.items()],
        "similarity": "Tanimoto similarity" if seen["train"].bits is not None else "distance",
        "totals": {name: len(parts[name].graphs) for name in seen},
        "metrics": {
            name: metrics(
                model,
                one,
                {other: own[name] for other, own in compared.items() if name in own},
                crossed[name][taken[name]] if crossed and name in crossed else None,
            )
            for name, one in seen.items()
        },
        "coverage": {
            name: known.coverages(one.answer.logits, one.answer.hardness, torch.from_numpy(one.y)) if known else []
            for name, one in seen.items()
            if name not in ("train", "id_val")
        },
        "separation": {
            name: {
                **apart(model, one, seen["train"], near[name][0], distance[name] if distance else None, seed),
                "drift": statistics.drift(_lists(seen["train"].described), _lists(one.described)),
            }
            for name, one in seen.items()
            if name != "train"
        },
        "names": dict(names),
        "grouped": grouped,
        "train_groups": training_groups(parts),
        "scale": _scale(model).tolist(),
        "widths": known.difficulty.sentence if model.task.measured and known else "",
        "parts": tables,
        "shown": shown(model, seen, near, tables),
    }


def look(model: FittedModel, part: GraphRows) -> Seen:
    """Predict and describe the rows of a part."""
    y = part.graphs.graph["y"].double()
    bits = None if part.molecules is None else part.molecules.fingerprints()
    described = describe(model, part)
    return Seen(
        part, model.predict(part.graphs, scores=False), (y[:, None] if y.dim() == 1 else y).numpy(), described, bits
    )


def describe(model: FittedModel, part: GraphRows) -> dict[str, Array]:
    """Return properties of each row by name: of molecules those that chemists use, of other graphs their shape."""
    return named(part.graphs, model.features) if part.molecules is None else part.molecules.descriptors()


def simple_table(part: GraphRows, model: FittedModel) -> Array:
    """Return size, degrees and mean features of each row (G, F), which tell parts apart in `goodformer split`, too."""
    return np.concatenate([structure(part.graphs), contents(part.graphs, model.features)], 1)


def apart(
    model: FittedModel, one: Seen, train: Seen, near: Array, known: Mapping[str, Any] | None, seed: int
) -> dict[str, float | None]:
    """Return how well a classifier tells a part from training, and the mean similarity to the nearest training row.

    Args:
        model: The model, which knows the features.
        one: The part.
        train: The training rows.
        near: Similarity or distance to the nearest training rows (G, count).
        known: The part's entry in the distance report of the whole split, whose numbers are shown if there is one.
        seed: Seed of the folds.
    """
    mean = bootstrap.plain(near[:, 0].mean()) if near.size else None
    if known is None:
        auroc = separation(simple_table(train.part, model), simple_table(one.part, model), seed)
        return {"auroc": auroc, "nearest": mean}
    return {"auroc": known["auroc"], "nearest": known["nearest_mean"] if one.bits is not None else mean}


def training_groups(parts: Mapping[str, GraphRows]) -> dict[str, int]:
    """Return how many training rows each group of a held-out part has; also those that are not sampled."""
    counts = Counter(parts["train"].groups or ())
    held = {group for name, part in parts.items() if name != "train" for group in part.groups or ()}
    return {group: counts[group] for group in sorted(held) if counts[group]}


def nearest(one: Seen, train: Seen, skip_same: bool = False, count: int = NEIGHBOURS) -> tuple[Array, Array]:
    """Return the similarity to the nearest training rows, best first, and their places, both (G, count).

    Molecules are compared by Tanimoto similarity of Morgan fingerprints, other graphs by the Euclidean distance of
    their properties in training standard deviations.

    Args:
        one: The rows.
        train: The training rows.
        skip_same: Whether the rows are the training rows, so that none is its own neighbour.
        count: Number of neighbours.
    """
    molecular = one.bits is not None and train.bits is not None
    mine: Any = one.bits
    theirs: Any = train.bits
    if not molecular:
        names = [name for name in train.described if name in one.described]
        theirs = np.stack([train.described[name] for name in names], 1)
        middle, spread = theirs.mean(0), np.maximum(theirs.std(0), 1e-9)
        mine = (np.stack([one.described[name] for name in names], 1) - middle) / spread
        theirs = (theirs - middle) / spread
    kept = min(count, len(theirs))
    values, places = np.empty((len(mine), kept)), np.empty((len(mine), kept), dtype=np.int64)
    for start in range(0, len(mine), 500):
        some = mine[start : start + 500]
        if molecular:
            closeness = tanimoto(some, theirs)
        else:
            squares = (some**2).sum(1)[:, None] + (theirs**2).sum(1)[None] - 2 * some @ theirs.T
            closeness = -np.sqrt(np.maximum(squares, 0))
        if skip_same:
            closeness[np.arange(len(some)), start + np.arange(len(some))] = -np.inf
        best = np.argsort(-closeness, axis=1, kind="stable")[:, :kept]
        places[start : start + 500] = best
        values[start : start + 500] = np.take_along_axis(closeness, best, 1)
    return (values if molecular else np.abs(values)), places


# Numbers --------------------------------------------------------------------------------------------------------------


def metrics(
    model: FittedModel, one: Seen, others: Mapping[str, Array], crossed: Array | None = None
) -> list[dict[str, Any]]:
    """Return the metrics of a part, see `goodformer.engine.bootstrap.metrics`.

    Args:
        model: A fitted model.
        one: The part.
        others: Logits (G, C) of each baseline, or measured values in `Task.units`.
        crossed: The same of the model itself, if its predictions are not to be judged.
    """
    factor = np.asarray(model.task.units) if model.task.measured else 1
    said = one.answer.judged if crossed is None else crossed * factor
    classes = one.answer.classes.numpy() if crossed is None else None
    scaled = {name: logits * factor for name, logits in others.items()}
    return bootstrap.metrics(model.task, list(model.classes), one.y, said, classes, scaled)


def _scale(model: FittedModel) -> Array:
    """Return the standard deviation of each measured target in training (T,); 1 for classes."""
    return np.array(model.task.scale or (1.0,) * len(model.classes))


def intervals(model: FittedModel, answer: Predictions, level: float) -> Array | None:
    """Return the ends of the intervals of measured values (G, T, 2); None for a model without uncertainty."""
    if model.uncertainty is None or answer.hardness is None:
        return None
    ends: Array = model.uncertainty.intervals(answer.logits, answer.hardness, level).numpy()
    return ends


def columns(model: FittedModel, one: Seen, near: Array | None = None) -> dict[str, Any]:
    """Return the rows of a part as columns: where they are from, labels, predictions and properties.

    ``label`` and ``predicted`` have one column per target. For classes, ``p`` has one column per target and class; for
    measured values, ``ends`` has lower and upper end of the 90 % interval of each target.
    """
    answer, count = one.answer, len(one.y)
    if model.task.measured:
        said = answer.judged
        ends = intervals(model, answer, 0.9)
        answers = {
            "predicted": [_rounded(column) for column in said.T],
            "p": [[] for _ in said.T],
            "ends": None if ends is None else [[_rounded(side) for side in target.T] for target in ends.swapaxes(0, 1)],
        }
    else:
        answers = {
            "predicted": answer.classes.reshape(count, -1).T.tolist(),
            "p": [[_rounded(kind) for kind in target.T] for target in class_shares(model, answer).swapaxes(0, 1)],
            "ends": None,
        }
    return {
        "row": list(one.part.rows),
        "smiles": None if one.part.molecules is None else list(one.part.molecules.smiles),
        "group": None if one.part.groups is None else list(one.part.groups),
        "label": [_rounded(column) for column in one.y.T],
        **answers,
        "domain_score": None if answer.domain_score is None else _rounded(answer.domain_score.numpy()),
        "outside": None if answer.outside is None else answer.outside.tolist(),
        "nearest": None if near is None else _rounded(near),
        "described": {name: _rounded(values) for name, values in one.described.items()},
    }


def class_shares(model: FittedModel, answer: Predictions) -> Array:
    """Return the probability of each class of each target (G, T, K)."""
    shares = answer.probabilities.double().numpy()
    return shares[:, None] if model.task.kind == "multiclass" else np.stack([1 - shares, shares], -1)


def _rounded(values: Array) -> list[float | None]:
    return [None if not math.isfinite(value) else round(value, DIGITS) for value in values.tolist()]


def _lists(described: Mapping[str, Array]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in described.items()}


# Drawn rows -----------------------------------------------------------------------------------------------------------


def shown(
    model: FittedModel,
    seen: Mapping[str, Seen],
    near: Mapping[str, tuple[Array, Array]],
    tables: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Return the most confident errors on held-out rows, and the rows furthest from training, with explanations."""
    held = [name for name in ("test", "val", "id_test") if name in seen]
    errors: list[tuple[float, str, int]] = []
    novel: list[tuple[float, float, str, int]] = []
    for name in held:
        one = seen[name]
        if model.task.measured:  # the largest errors, in training standard deviations
            wrong = np.nan_to_num(np.abs(one.answer.judged - one.y) / _scale(model))
        else:
            right = bootstrap.hits(model.task.kind, one.answer.judged, one.y, one.answer.classes.numpy())
            wrong = np.where(right == 0, class_shares(model, one.answer).max(-1), 0.0)  # (G, T)
        worst = wrong.max(1)
        fits = (one.part.graphs.sizes <= LARGEST).numpy()
        errors += [(worst[place], name, int(place)) for place in np.flatnonzero((worst > 0) & fits)]
        if name != "id_test":
            score = one.answer.domain_score
            far = np.zeros(len(one.y)) if score is None else score.double().numpy()
            away = near[name][0][:, 0] * (-1 if one.bits is not None else 1)
            novel += [(far[place], float(away[place]), name, int(place)) for place in np.flatnonzero(fits)]
    ordered = {
        "errors": [(name, place) for _, name, place in sorted(errors, key=lambda row: -row[0])],
        "novel": [(name, place) for *_, name, place in sorted(novel, key=lambda row: (-row[0], -row[1]))],
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for kind, candidates in ordered.items():
        different: dict[tuple[Any, ...], tuple[str, int]] = {}  # the first of rows that look the same
        for name, place in candidates:
            different.setdefault(tuple(values[place] for values in seen[name].described.values()), (name, place))
            if len(different) == SHOWN:
                break
        rows = list(different.values())
        parts = [seen[name].part.subset([place]) for name, place in rows]
        items = explained(model, parts, measure=True)
        for item, (name, place) in zip(items, rows, strict=True):
            item |= {"part": name, **at(tables[name], place)}
            values, places = near[name]
            item["neighbours"] = neighbours(model, seen["train"], values[place], places[place])
        found[kind] = items
    return found


def at(table: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return one row of what `columns` returned."""
    one = {name: table[name] and table[name][place] for name in ("row", "smiles", "domain_score", "outside", "nearest")}
    one |= {name: [column[place] for column in table[name]] for name in ("label", "predicted")}
    one["ends"] = table["ends"] and [[side[place] for side in target] for target in table["ends"]]
    return {**one, "p": [[kind[place] for kind in target] for target in table["p"]]}


def explained(model: FittedModel, parts: Sequence[GraphRows], measure: bool = False) -> list[dict[str, Any]]:
    """Return what is needed to draw rows with their edge scores.

    Molecules known as text are read again, so that atoms are numbered as in the text that is drawn.

    Args:
        model: The model.
        parts: The rows, one in each part.
        measure: Whether to add the verdict on each row, which takes 22 predictions.
    """
    if not parts:
        return []
    smiles: Sequence[str | None] = [None] * len(parts)
    if parts[0].molecules is not None:
        read = model.read([part.molecules.smiles[0] for part in parts if part.molecules is not None])
        graphs, smiles = read.graphs, list(read.smiles or ())
    else:
        graphs = GraphSet.concat([part.graphs for part in parts])
    found = explain(model, graphs, measure=measure)
    return [
        {
            **drawn(found.graphs.batch([place]), smiles[place], model.molecular),
            "scores": plain(found.scores[place]),
            "source": found.source,
            "verdict": found.verdicts[place] if measure else None,
        }
        for place in range(len(parts))
    ]


def drawn(graph: Graph, smiles: str | None, molecular: bool) -> dict[str, Any]:
    """Return a graph as JSON values: its edges, its SMILES if known, otherwise the codes of a molecule."""
    found: dict[str, Any] = {"drawn_smiles": smiles, "nodes": int(graph.num_nodes or 0)}
    found["edges"] = graph.edge_index.tolist()
    if graph.get("edge_truth") is not None:
        found["truth"] = graph.edge_truth.bool().tolist()
    if molecular and smiles is None:
        found |= {"x": graph.x.long().tolist(), "attr": graph.edge_attr.long().tolist()}
    return found


def neighbours(model: FittedModel, train: Seen, values: Array, places: Array) -> list[dict[str, Any]]:
    """Return the nearest training rows with their labels."""
    found = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        part = train.part.subset([place])
        label = [None if math.isnan(one) else one for one in train.y[place].tolist()]
        one: dict[str, Any] = {"row": part.rows[0], "label": label, "closeness": round(value, 4)}
        if part.molecules is not None:
            read = model.read([part.molecules.smiles[0]])
            one |= drawn(read.graphs.as_given().batch([0]), (read.smiles or (None,))[0], True)
        elif int(part.graphs.sizes[0]) <= LARGEST:
            one |= drawn(part.graphs.batch([0]), None, model.molecular)
        found.append(one)
    return found


# On disk --------------------------------------------------------------------------------------------------------------


def save(folder: Path, evidence: Mapping[str, Any]) -> None:
    """Write evidence beside a model."""
    text = json.dumps(evidence, allow_nan=False, separators=(",", ":"))
    files.write_bytes(folder / EVIDENCE, gzip.compress(text.encode(), mtime=0))


def load(folder: Path) -> dict[str, Any]:
    """Read what `save` wrote."""
    path, advice = folder / EVIDENCE, "fit the model again"
    if not path.is_file():
        raise InputError(
            f"{folder} has no {EVIDENCE}, which a report is made from: goodformer fit writes it unless --no-report is "
            "given, Python and goodformer export do not; fit the model with goodformer fit."
        )
    try:
        found = json.loads(gzip.decompress(path.read_bytes()))
        if found["format"] != FORMAT or not {"parts", "metrics", "targets", "shown"} <= set(found):
            raise ValueError
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error):
        raise InputError(f"{path} is damaged or of another version; {advice}.") from None
    evidence: dict[str, Any] = found
    return evidence


def kept_logits(run: Run) -> dict[str, Array]:
    """Return the logits of a run, or its measured values in `Task.units`, for every row of its held-out parts.

    Nothing if they were not kept.
    """
    entry = (run.summary or {}).get("predictions")
    if not entry or not (run.folder / PREDICTED).is_file():
        return {}
    return {name: one.logits for name, one in predictions.read(run.folder / PREDICTED, entry["sha256"]).items()}


def curves(run: Run) -> dict[str, Any]:
    """Return metric and loss of each part over the epochs of a run."""
    metric = (run.summary or {}).get("metric", "accuracy")
    return {
        name: {part: [(epoch.get(part) or {}).get(name) for epoch in run.epochs] for part in SPLITS}
        for name in (metric, "loss")
    }
