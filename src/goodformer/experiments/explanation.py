"""What decides a prediction, for people and programs: a picture of graphs and a file with the score of every edge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from goodformer.data import load_benchmark
from goodformer.data.json_lines import read_graphs
from goodformer.engine import Predictions, Predictor, Run, files
from goodformer.explain.draw import draw_subgraphs
from goodformer.explain.record import edge_record
from goodformer.registry import InputError, unknown
from goodformer.spec import SPLITS

PICTURE, SCORES = "subgraphs.png", "edges.json"


def explain_run(
    run: Run,
    folder: str | Path,
    split: str = "test",
    count: int = 6,
    file: str | Path | None = None,
    k: int | None = None,
    weights: str = "best",
) -> dict[str, Any]:
    """Explain graphs of a run's data set, or those of a file, and write picture and scores into a folder.

    Args:
        run: A trained run.
        folder: Where picture and scores go.
        split: Split the graphs are taken from.
        count: How many, spread evenly over the split.
        file: Graphs to explain instead, see `goodformer.data.json_lines.read_graphs`.
        k: Undirected edges to choose in the picture; by default as many as are true.
        weights: ``best`` or ``last``.
    """
    predictor = run.predictor(weights)
    if file is None:
        graphs, names = _spread(run, split, count)
    else:
        graphs = read_graphs(file, predictor.recipe.features.node)
        names = [f"{Path(file).name} {number}" for number in range(1, len(graphs) + 1)]
    return explain_graphs(predictor, graphs, folder, names, k, about={"run": run.folder.name})


def explain_graphs(
    predictor: Predictor,
    graphs: Sequence[Data],
    folder: str | Path,
    names: Sequence[str] | None = None,
    k: int | None = None,
    about: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Predict graphs, draw what decided, and write picture and scores into a folder.

    Args:
        predictor: A trained method that scores edges.
        graphs: The graphs.
        folder: Where ``subgraphs.png`` and ``edges.json`` go.
        names: What each graph is called; its number where not given.
        k: Undirected edges to choose in the picture; by default as many as are true.
        about: Entries to begin the report with.

    Returns:
        What ``edges.json`` holds: both files, and for every graph its prediction and edges, best first.
    """
    answer = predictor.predict(list(graphs))
    if answer.edge_scores is None:
        method = predictor.recipe.method["name"]
        raise InputError(f"method {method} gives edges no score; explain a run of a method that does, e.g. goodformer.")
    called = list(names) if names is not None else [f"graph {number}" for number in range(len(graphs))]
    place = Path(folder)
    files.make_folder(place)
    titles = [_title(*parts) for parts in zip(called, graphs, answer.classes.tolist(), strict=True)]
    picture = draw_subgraphs(graphs, answer.edge_scores, place / PICTURE, titles, k)
    report = {
        **(about or {}),
        "picture": str(picture),
        "scores": str(place / SCORES),
        "graphs": [_record(*parts) for parts in zip(called, graphs, _rows(answer), strict=True)],
    }
    files.write_json(place / SCORES, report)
    return report


def _rows(answer: Predictions) -> Iterator[tuple[Any, list[float], Tensor]]:
    """Prediction, probabilities and edge scores, graph by graph."""
    assert answer.edge_scores is not None
    return zip(answer.classes.tolist(), answer.probabilities.tolist(), answer.edge_scores, strict=True)


def _record(name: str, graph: Data, row: tuple[Any, list[float], Tensor]) -> dict[str, Any]:
    """What was found in one graph."""
    said, probabilities, scores = row
    shares = [round(value, 6) for value in probabilities]
    known = {"graph": name, "label": _label(graph), "predicted": said, "probabilities": shares}
    return {**known, **edge_record(graph, scores)}


def _spread(run: Run, split: str, count: int) -> tuple[list[Data], list[str]]:
    """Graphs spread evenly over a split of the run's data set, and their names."""
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    graphs = load_benchmark(**run.config.dataset).splits[split]
    taken = min(count, len(graphs))
    places = [place * len(graphs) // taken for place in range(taken)]
    return [graphs[place] for place in places], [f"{split} {place}" for place in places]


def _title(name: str, graph: Data, said: Any) -> str:
    """What a graph is and what was said of it."""
    label = _label(graph)
    return f"{name}: predicted {said}" if label is None else f"{name}: class {label}, predicted {said}"


def _label(graph: Data) -> Any:
    """The class, or the binary targets, of a graph; None where nobody knows."""
    if graph.get("y") is None:
        return None
    values = [None if math.isnan(value) else value for value in graph.y.flatten().tolist()]
    return values[0] if len(values) == 1 else values
