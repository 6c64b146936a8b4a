"""``goodformer explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError


def command(
    name: options.ModelName,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Your own rows, in any format that predict reads."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Without a FILE, a split of the run's data: train, id_val, id_test, val or test."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of graphs to draw.")] = 6,
    k: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of edges to mark; default: the number of true edges if known, otherwise by the scores.",
        ),
    ] = None,
    share: Annotated[
        float | None, typer.Option(min=0.01, max=0.99, help="Share of the edges to mark, instead of --k.")
    ] = None,
    smiles: options.SmilesAsTrained = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the tables for a FILE: csv, tsv, parquet, json or jsonl.")
    ] = "csv",
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Run with another seed: measure how far explanations agree; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for pictures and scores.")] = Path(
        "explained"
    ),
    overwrite: options.Overwrite = False,
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Explain predictions: draw the edges or bonds with the highest scores, and write tables of all scores.

    [bold]Examples[/bold]

      goodformer explain bace new.csv -o why --count 12
      goodformer explain mine graphs.jsonl --k 6 --format parquet
      goodformer explain 3f2a --split test --count 6 -o explained
      goodformer explain 3f2a --against 90bc --against 41de

    Each line of graphs.jsonl is a graph. Nodes are numbered from 0; x is needed only if the model was trained with it:

      {"edges": [[0, 1], [1, 2], [2, 0]], "num_nodes": 3}

    The verdict on a graph compares its marked part with random parts of equal size: "decides" if the prediction falls
    without the part and stays with the part alone; "contributes" if only one of these holds; "no single part" if
    neither does, and then nothing is marked. Edges with equal scores are marked together.
    For measured values, the change of the predicted value takes the place of the drop in probability.
    """
    if k is not None and share is not None:
        raise InputError("--k and --share both set how much is marked; give one of them.")
    size = share if k is None else k
    with output.working():
        options.limit_threads(threads)
        if data is not None:
            from goodformer.apply.explain import explain_file
            from goodformer.fitted import FittedModel

            if split or against:
                raise InputError(
                    "--split and --against are for graphs of a run; leave them out, or leave out the file."
                )
            with output.counting("rows", hidden=quiet) as watch:
                fitted = FittedModel.open(name, runs, weights)
                report = explain_file(fitted, data, out, count, size, form, smiles, watch, overwrite)
        else:
            from goodformer.apply.explanation import explain_agreement, explain_run
            from goodformer.engine.store import MODEL, Run

            if (Path(name) / MODEL).is_file():
                raise InputError(f"{name} is a fitted model, which has no graphs of its own; name a FILE to explain.")
            run, others = Run.open(name, runs), [Run.open(other, runs) for other in against or []]
            report = explain_run(run, out, split or "test", count, size, weights, overwrite)
            if others:
                more: dict[str, Any] = {"k": size, "weights": weights, "overwrite": overwrite}
                found = explain_agreement([run, *others], out, split or "test", **more)
                report["agreement"] = {key: value for key, value in found.items() if key != "per_graph"}
    output.document(report) if as_json else _show(report)


def _show(report: dict[str, Any]) -> None:
    """Print one row per graph, fidelity, agreement, and the files."""
    from goodformer.explain.explanation import class_name

    rows = []
    for graph in report["graphs"]:
        truth = graph.get("truth")
        hits = f"{sum(truth[: sum(truth)])} of {sum(truth)}" if truth else None
        said = class_name(graph["predicted"], report["classes"])
        rows.append([graph["graph"], graph["label"], said, graph.get("verdict"), hits])
    heads = ["graph", "label", "predicted", "marked part", "true edges among the best"]
    kept = [place for place in range(len(heads)) if any(row[place] is not None for row in rows)]
    output.table([heads[place] for place in kept], [[row[place] for place in kept] for row in rows])
    output.problems(report)
    output.notes(report)
    fidelity, agreement = report["fidelity"] or {}, report.get("agreement") or {}
    if fidelity.get("removed") is not None:
        said = "the probability drops by"
        if not any(report["classes"].values()):
            said = "the predicted value changes, in training standard deviations, by"
        words = (
            "fidelity: {said} {removed:.3f} without the chosen edges "
            "(random: {random_removed:.3f}) and by {kept:.3f} with these edges alone (random: {random_kept:.3f})"
        )
        typer.echo(words.format(said=said, **fidelity))
    if agreement.get("correlation") is not None:
        words = "agreement between seeds: rank correlation of edge scores {correlation:.3f}, overlap of chosen edges "
        typer.echo((words + "{overlap:.3f} (by chance {chance:.3f})").format(**agreement))
    if report["picture"]:
        typer.echo(f"marked:  {report['marked']}\npicture: {report['picture']}")
    typer.echo(f"scores:  {report['scores']}")
    for table in report.get("tables", []):
        typer.echo(f"table:   {table}")
