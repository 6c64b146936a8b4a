"""What decides a prediction, for people and programs: pictures of graphs and a file with every score and its worth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer import files
from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.draw.subgraphs import draw_subgraphs
from goodformer.engine.store import Run
from goodformer.explain import posthoc
from goodformer.explain.agreement import agreement
from goodformer.explain.fidelity import Fidelity, fidelity
from goodformer.explain.record import edge_record, plain
from goodformer.fitted import FittedModel, Predictions
from goodformer.registry import InputError, unknown
from goodformer.spec import SPLITS, FeatureSpec

PICTURE, EDGES, SINGLE = "subgraphs", "edges.json", "graphs"
AGREEMENT = "agreement.json"
PICTURE_LIMIT = 12
READABLE = 60
"""Atoms up to which a molecule can be read in a picture of several."""
MOST_ATOMS = 400
"""Atoms of a molecule that can be looked at, and laid out without waiting for minutes."""
CAPTIONS = {"own": "found invariant subgraph", "post-hoc": "edges that matter to the prediction"}
"""What chosen edges are: what the method itself calls invariant, or what was found to matter afterwards."""


@dataclass(frozen=True)
class Explained:
    """Graphs with what was said of them and why.

    Attributes:
        graphs: The graphs.
        names: What each is called.
        answer: Predictions.
        scores: For each graph a score of each directed edge in its own edge order, larger = more decisive.
        source: ``own`` where the method scores edges itself, else ``post-hoc``.
        worth: How much predictions depend on the chosen edges; None where it was not measured.
        smiles: The SMILES of each graph, where they are given.
        classes: For each target what its classes, or 0 and 1, are called; empty where nobody says.
    """

    graphs: GraphSet
    names: list[str]
    answer: Predictions
    scores: list[Tensor]
    source: str
    worth: Fidelity | None = None
    smiles: Sequence[str] | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def record(self, place: int, k: int | None) -> dict[str, Any]:
        """What was found in one graph, as plain values."""
        graph = self.graphs[place]
        known = {
            "graph": self.names[place],
            **({} if self.smiles is None else {"smiles": self.smiles[place]}),
            "label": _label(graph),
            "predicted": self.answer.classes[place].tolist(),
            "probabilities": [round(value, 6) for value in self._shares[place].tolist()],
        }
        worth = {} if self.worth is None else {"fidelity": _worth(self.worth, place)}
        return {**known, **worth, **edge_record(graph, self.scores[place], k)}

    @property
    def _shares(self) -> Tensor:
        """Probabilities (B, C), calibrated where that was learnt."""
        return self.answer.probabilities if self.answer.calibrated is None else self.answer.calibrated

    def title(self, place: int) -> str:
        """What a graph is called, and what was said of it."""
        label, said = _label(self.graphs[place]), self.answer.classes[place].tolist()
        truth = "" if label is None else f"class {called(label, self.classes)}, "
        return f"{self.names[place]}: {truth}predicted {called(said, self.classes)}{self._sure(place)}"

    def _sure(self, place: int) -> str:
        """The probability of what was said, where it is one thing."""
        said, shares = self.answer.classes[place].flatten(), self._shares[place]
        if said.numel() > 1:
            return ""
        share = float(shares[int(said)]) if self.answer.classes.dim() == 1 else float((1 - shares, shares)[int(said)])
        return f" ({share:.2f})"


def called(value: Any, classes: Mapping[str, Sequence[str]]) -> str:
    """The name of a class, or of 0 and 1; those of several targets each after its target."""
    codes = value if isinstance(value, list) else [value]
    named = list(classes.items()) or [("", ())] * len(codes)
    words = [
        "?" if code is None else names[int(code)] if names else f"{code:g}"
        for code, (_, names) in zip(codes, named, strict=True)
    ]
    if len(words) == 1:
        return words[0]
    return ", ".join(f"{target} {word}".strip() for (target, _), word in zip(named, words, strict=True))


def explain_run(
    run: Run,
    folder: str | Path,
    split: str = "test",
    count: int = 6,
    k: int | None = None,
    weights: str = "best",
) -> dict[str, Any]:
    """Explain graphs of a run's data set, and write picture and scores into a folder.

    Of molecules only those of readable size are taken; where there are too few, the smallest of the others join them,
    but none of above `MOST_ATOMS` atoms beside any smaller one. Picture and report say how many were left out.

    Args:
        run: A trained run.
        folder: Where picture and scores go.
        split: Split the graphs are taken from.
        count: How many, spread evenly over the split.
        k: Undirected edges to choose; by default as many as are true, or a third where nobody knows.
        weights: ``best`` or ``last``.
    """
    predictor = FittedModel.of_run(run, weights)
    limits = (READABLE, MOST_ATOMS) if predictor.file.features == _molecular() else None
    graphs, names, note = _spread(run, split, count, limits)
    about = {"run": run.folder.name, **({"notes": [f"{note}."]} if note else {})}
    return explain_graphs(predictor, graphs, folder, names, k, about, picture_limit=count, note=note)


def explain_graphs(
    predictor: FittedModel,
    graphs: Sequence[Data] | GraphSet,
    folder: str | Path,
    names: Sequence[str] | None = None,
    k: int | None = None,
    about: dict[str, Any] | None = None,
    smiles: Sequence[str] | None = None,
    picture_limit: int = PICTURE_LIMIT,
    single_pictures: bool = False,
    classes: Mapping[str, Sequence[str]] | None = None,
    measure: bool = True,
    form: str = "png",
    note: str = "",
) -> dict[str, Any]:
    """Predict graphs, score their edges, measure what the scores are worth, and write pictures and scores.

    A method's own edge scores are taken where it has some, and found afterwards where not (`explain.posthoc`).

    Args:
        predictor: A trained method.
        graphs: The graphs; those of molecules are drawn as structural formulas.
        folder: Where ``subgraphs.png`` and ``edges.json`` go.
        names: What each graph is called; its number where not given.
        k: Undirected edges to choose; by default as many as are true, or a third where nobody knows.
        about: Entries to begin the report with.
        smiles: The SMILES of each graph, where they are molecules.
        picture_limit: How many graphs, the first ones, are drawn; all are scored.
        single_pictures: Whether each of these is drawn once more, alone, into the folder ``graphs``.
        classes: For each target what its classes, or 0 and 1, are called.
        measure: Whether fidelity is measured, which costs about 13 predictions of every graph.
        form: Format of pictures, ``png`` or ``svg``.
        note: What the picture does not show, written under molecules.

    Returns:
        What ``edges.json`` holds: the files, where scores come from (``explanation``: own or post-hoc), ``fidelity``,
        and for every graph its prediction, edges, best first, and nodes.
    """
    found = explain(predictor, graphs, names, k, smiles, classes, measure)
    place = Path(folder)
    files.make_folder(place)
    report = {
        **(about or {}),
        "method": predictor.file.method["name"],
        "explanation": found.source,
        "fidelity": None if found.worth is None else found.worth.summary(),
        **_draw(found, place, k, picture_limit, single_pictures, form, _as_molecules(predictor, found), note),
        "scores": str(place / EDGES),
        "graphs": [found.record(number, k) for number in range(len(found.graphs))],
    }
    _write(place / EDGES, report)
    return report


def explain(
    predictor: FittedModel,
    graphs: Sequence[Data] | GraphSet,
    names: Sequence[str] | None = None,
    k: int | None = None,
    smiles: Sequence[str] | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    measure: bool = True,
) -> Explained:
    """Predictions, edge scores and their fidelity in memory; see `explain_graphs`."""
    whole = graphs if isinstance(graphs, GraphSet) else GraphSet.from_list(list(graphs))
    called = list(names) if names is not None else [f"graph {number}" for number in range(len(whole))]
    for kind, given in (("names", called), ("SMILES", smiles)):
        if given is not None and len(given) != len(whole):
            raise InputError(f"got {len(given)} {kind} for {len(whole)} graphs; give one for each graph.")
    answer = predictor.predict(whole)
    scores, source = scores_of(predictor, whole, answer)
    worth = None
    if measure:
        worth = fidelity(lambda part: predictor.predict(part).probabilities, predictor.file.task, whole, scores, k)
    return Explained(whole, called, answer, scores, source, worth, smiles, classes or {})


def scores_of(
    predictor: FittedModel, graphs: GraphSet, answer: Predictions | None = None, algorithm: str = "occlusion"
) -> tuple[list[Tensor], str]:
    """A score of each directed edge of each graph, and whether they are the method's ``own`` or ``post-hoc``.

    Args:
        predictor: A trained method.
        graphs: The graphs.
        answer: What the predictor says of them, where that is known already.
        algorithm: How scores are found where the method has none, see `goodformer.explain.posthoc`.
    """
    said = predictor.predict(graphs) if answer is None else answer
    if said.edge_scores is not None:
        return said.edge_scores, "own"
    return posthoc.edge_scores(predictor.method, predictor.prepare(graphs), algorithm=algorithm), "post-hoc"


def explain_agreement(
    runs: Sequence[Run],
    folder: str | Path | None = None,
    split: str = "test",
    count: int = 200,
    k: int | None = None,
    weights: str = "best",
) -> dict[str, Any]:
    """Compare the explanations of runs of one config with different seeds.

    Args:
        runs: Two or more trained runs of the same data set, model and method.
        folder: Where ``agreement.json`` goes; nowhere if not given.
        split: Split the graphs are taken from.
        count: How many, spread evenly over the split.
        k: Undirected edges to choose; by default as many as are true, or a third where nobody knows.
        weights: ``best`` or ``last``.
    """
    _check_alike(runs)
    graphs, names, _ = _spread(runs[0], split, count)
    scores = [scores_of(FittedModel.of_run(run, weights), graphs)[0] for run in runs]
    found = agreement(graphs, scores, k)
    rows = zip(names, plain(found.correlation), plain(found.overlap), strict=True)
    report = {
        "runs": [run.folder.name for run in runs],
        **found.summary(),
        "per_graph": [{"graph": name, "correlation": rank, "overlap": common} for name, rank, common in rows],
    }
    if folder is not None:
        files.make_folder(Path(folder))
        files.write_json(Path(folder) / AGREEMENT, report)
    return report


def _check_alike(runs: Sequence[Run]) -> None:
    """Refuse runs whose explanations cannot be compared."""
    if len(runs) < 2:
        raise InputError(f"agreement was asked of {len(runs)} run; give two or more that differ in their seed.")
    first = runs[0]
    for run in runs[1:]:
        for part in ("dataset", "model", "method"):
            if getattr(run.config, part) != getattr(first.config, part):
                raise InputError(
                    f"runs {first.folder.name} and {run.folder.name} differ in their {part}; "
                    "give runs that differ in their seed only."
                )


def _as_molecules(predictor: FittedModel, found: Explained) -> Sequence[str | Data] | None:
    """What draws the graphs as structural formulas: SMILES, or their own codes; None where they are no molecules."""
    if found.smiles is not None:
        return found.smiles
    if "attr" not in found.graphs.edge:
        return None
    return list(found.graphs) if predictor.file.features == _molecular() else None


def _molecular() -> FeatureSpec:
    """What atoms and bonds carry."""
    from goodformer.data.molecule import FEATURES  # loads RDKit

    return FEATURES


def _draw(
    found: Explained,
    folder: Path,
    k: int | None,
    limit: int,
    single: bool,
    form: str,
    molecules: Sequence[str | Data] | None,
    note: str,
) -> dict[str, Any]:
    """Draw the first graphs together and, where asked, one by one; where the pictures are."""
    first = list(range(min(limit, len(found.graphs))))
    if not first:
        return {"picture": None}
    shown = {"picture": str(_picture(found, first, folder / f"{PICTURE}.{form}", k, molecules, note))}
    if not single:
        return shown
    width = len(str(first[-1]))
    alone = [folder / SINGLE / f"{place:0{width}d}.{form}" for place in first]
    drawn = [_picture(found, [place], path, k, molecules) for place, path in zip(first, alone, strict=True)]
    return {**shown, "pictures": [str(path) for path in drawn]}


def _picture(
    found: Explained,
    places: Sequence[int],
    path: Path,
    k: int | None,
    molecules: Sequence[str | Data] | None,
    note: str = "",
) -> Path:
    """Some of the graphs in one picture."""
    graphs, scores = [found.graphs[place] for place in places], [found.scores[place] for place in places]
    titles = [found.title(place) for place in places]
    if molecules is None:
        return draw_subgraphs(graphs, scores, path, titles, k, CAPTIONS[found.source])
    from goodformer.draw.molecules import draw_molecules

    indices = [graph.edge_index for graph in graphs]
    lines = [title.replace(": ", "\n", 1) for title in titles]
    caption = CAPTIONS[found.source].replace("edges", "bonds")
    return draw_molecules([molecules[place] for place in places], indices, scores, path, lines, k, caption, note)


def _write(path: Path, report: dict[str, Any]) -> None:
    """The report with one graph a line: thousands of graphs are read line by line, by people and programs."""
    head = json.dumps({**report, "graphs": []}, indent=2, allow_nan=False)
    rows = ",\n    ".join(json.dumps(row, allow_nan=False) for row in report["graphs"])
    text = f"{head.removesuffix('[]' + chr(10) + '}')}[\n    {rows}\n  ]\n}}\n"
    files.write_text(path, text)


def _spread(run: Run, split: str, count: int, limits: tuple[int, int] | None = None) -> tuple[GraphSet, list[str], str]:
    """Graphs spread evenly over a split of the run's data set, their names, and a sentence on what was left out.

    Args:
        run: A trained run.
        split: Name of the split.
        count: How many are wanted.
        limits: Nodes up to which they are readable and up to which they are taken at all; any number where not given.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    graphs = load_benchmark(**run.config.dataset).splits[split]
    pool = torch.arange(len(graphs)) if limits is None else readable(graphs.sizes, count, limits)
    left = len(graphs) - len(pool)
    note = (
        f"{left} of {len(graphs)} molecules left out, for they have above {limits[0]} atoms" if limits and left else ""
    )
    taken = min(count, len(pool))
    places = [int(pool[place * len(pool) // taken]) for place in range(taken)]
    return graphs.subset(places), [f"{split} {place}" for place in places], note


def readable(sizes: Tensor, count: int, limits: tuple[int, int]) -> Tensor:
    """The places, ascending, of all graphs of readable size, or, where they are too few, of the smallest of all.

    Args:
        sizes: Nodes of each graph (G,).
        count: How many are wanted.
        limits: Nodes up to which a graph is readable, and above which it is taken only where all are that large.
    """
    few, possible = (int((sizes <= limit).sum()) for limit in limits)
    taken = max(few, min(count, possible or len(sizes)))
    return sizes.argsort(stable=True)[:taken].sort().values


def _worth(worth: Fidelity, place: int) -> dict[str, float | None]:
    """Probabilities of what is predicted for one graph: whole, without its subgraph, and the subgraph alone."""
    parts = {"whole": worth.whole, "removed": worth.removed, "kept": worth.kept}
    return {name: plain(values[place : place + 1])[0] for name, values in parts.items()}


def _label(graph: Data) -> Any:
    """The class, or the binary targets, of a graph; None where nobody knows."""
    if graph.get("y") is None:
        return None
    values = [None if math.isnan(value) else value for value in torch.as_tensor(graph.y).flatten().tolist()]
    return values[0] if len(values) == 1 else values
