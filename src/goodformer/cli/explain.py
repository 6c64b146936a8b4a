"""``goodformer explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goodformer.cli import options, output

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from goodformer.engine import Predictor, Run

Record = dict[str, Any]


def command(
    name: options.RunName,
    split: Annotated[str, typer.Option(help="Where graphs come from: train, id_val, id_test, val, test.")] = "test",
    count: Annotated[int, typer.Option(min=1, help="How many graphs, spread evenly over the split.")] = 6,
    graphs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own graphs instead, one JSON object a line.")
    ] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Edges to choose; by default as many as are true.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for picture and scores.")] = Path(
        "explained"
    ),
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    as_json: options.Json = False,
) -> None:
    """Show which edges decide: a picture of graphs and a JSON file with the score of every edge.

    [bold]Examples[/bold]

      goodformer explain 3f2a --split test --count 6 -o explained
      goodformer explain 3f2a --graphs mine.jsonl --k 6 --json

    A line of mine.jsonl is a graph, nodes counted from 0, x only where the model was trained on node features:

      {"edges": [[0, 1], [1, 2], [2, 0]], "num_nodes": 3}
    """
    with output.working():
        from goodformer.cli.locate import limit_threads
        from goodformer.engine import Run

        limit_threads(threads)
        run = Run.open(name, runs)
        predictor = run.predictor(weights)
        chosen = _own(graphs, predictor.recipe.features.node) if graphs else _taken(run, split, count)
        records = _explain(predictor, *chosen, k, out)
    report = {"run": run.folder.name, "picture": str(out / PICTURE), "scores": str(out / SCORES), "graphs": records}
    output.save_json(report, out / SCORES)
    output.document(report) if as_json else _show(report)


PICTURE, SCORES = "subgraphs.png", "edges.json"


def _explain(predictor: Predictor, graphs: list[Data], names: list[str], k: int | None, out: Path) -> list[Record]:
    """Predict, draw, and return what was found."""
    from goodformer.engine import files
    from goodformer.explain.draw import draw_subgraphs
    from goodformer.explain.record import edge_record
    from goodformer.registry import InputError

    answer = predictor.predict(graphs)
    if answer.edge_scores is None:
        method = predictor.recipe.method["name"]
        raise InputError(f"method {method} gives edges no score; explain a run of a method that does, e.g. goodformer.")
    files.make_folder(out)
    said = answer.classes.tolist()
    titles = [_title(*parts) for parts in zip(names, graphs, said, strict=True)]
    draw_subgraphs(graphs, answer.edge_scores, out / PICTURE, titles, k)
    return [
        {
            "graph": names[place],
            "label": _label(graph),
            "predicted": said[place],
            "probabilities": [round(value, 6) for value in answer.probabilities[place].tolist()],
            **edge_record(graph, answer.edge_scores[place]),
        }
        for place, graph in enumerate(graphs)
    ]


def _own(file: Path, features: Any) -> tuple[list[Data], list[str]]:
    """The user's graphs, called by their number in the file."""
    from goodformer.data.json_lines import read_graphs

    graphs = read_graphs(file, features)
    return graphs, [f"{file.name} {number}" for number in range(1, len(graphs) + 1)]


def _taken(run: Run, split: str, count: int) -> tuple[list[Data], list[str]]:
    """Graphs spread evenly over a split of the run's data set."""
    from goodformer.cli.locate import chosen_splits
    from goodformer.data import load_benchmark

    (known,) = chosen_splits([split])
    graphs = load_benchmark(**run.config.dataset).splits[known]
    places = [place * len(graphs) // min(count, len(graphs)) for place in range(min(count, len(graphs)))]
    return [graphs[place] for place in places], [f"{known} {place}" for place in places]


def _title(name: str, graph: Data, said: Any) -> str:
    """What a graph is and what was said of it."""
    label = _label(graph)
    return f"{name}: predicted {said}" if label is None else f"{name}: class {label}, predicted {said}"


def _label(graph: Data) -> Any:
    """The class, or the binary targets, of a graph; None where nobody knows."""
    if graph.get("y") is None:
        return None
    values = graph.y.flatten().tolist()
    return values[0] if len(values) == 1 else values


def _show(report: dict[str, Any]) -> None:
    """One row a graph, and where the files are."""
    rows = [[row["graph"], row["label"], row["predicted"], _hits(row)] for row in report["graphs"]]
    output.table(["graph", "label", "predicted", "true edges among the best"], rows)
    typer.echo(f"picture: {report['picture']}\nscores:  {report['scores']}")


def _hits(row: dict[str, Any]) -> str | None:
    """How many of the m best edges are true, m being the number of true edges."""
    truth = row.get("truth")
    return f"{sum(truth[: sum(truth)])} of {sum(truth)}" if truth else None
