"""``goodformer explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.cli.fit import show_problems


def command(
    name: options.ModelName,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Your own rows: CSV, TSV, Parquet, SDF, JSON lines or a TU folder."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Without a file, graphs of the run's own data: train, id_val, id_test, val or test."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many graphs are drawn.")] = 6,
    k: Annotated[
        int | None, typer.Option(min=1, help="Edges to choose; by default as many as are true, or a third.")
    ] = None,
    smiles: Annotated[str | None, typer.Option(help="Column of the SMILES; by default as in training.")] = None,
    form: Annotated[
        str, typer.Option("--format", help="Tables of a file's scores as csv, tsv, parquet, json or jsonl.")
    ] = "csv",
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Another seed of the run: also say how far their explanations agree."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for pictures and scores.")] = Path(
        "explained"
    ),
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Show what decides: pictures with the deciding edges or atoms marked, and tables with the score of each.

    [bold]Examples[/bold]

      goodformer explain bace new.csv -o why --count 12
      goodformer explain mine graphs.jsonl --k 6 --format parquet
      goodformer explain 3f2a --split test --count 6 -o explained
      goodformer explain 3f2a --against 90bc --against 41de

    A line of graphs.jsonl is a graph, nodes counted from 0, x only where the model was trained on node features:

      {"edges": [[0, 1], [1, 2], [2, 0]], "num_nodes": 3}

    Fidelity says what the probability loses without the chosen edges, and with them alone, beside as many random edges.
    """
    with output.working():
        from goodformer.cli.locate import limit_threads
        from goodformer.registry import InputError

        limit_threads(threads)
        if data is None:
            report = _explain_split(name, runs, out, split or "test", count, k, weights, against or [])
        elif split or against:
            raise InputError("--split and --against are for the graphs of a run; leave them out, or the file.")
        else:
            report = _explain_rows(name, runs, data, out, count, k, form, smiles, weights, quiet)
    output.document(report) if as_json else _show(report)


def _explain_rows(
    name: str,
    runs: Path,
    data: Path,
    out: Path,
    count: int,
    k: int | None,
    form: str,
    smiles: str | None,
    weights: str,
    quiet: bool,
) -> dict[str, Any]:
    """Rows of a user's own file."""
    from goodformer.apply.explain import explain_file
    from goodformer.apply.trained import Trained

    with output.counting("rows", hidden=quiet) as watch:
        return explain_file(Trained.open(name, runs, weights), data, out, count, k, form, smiles, watch)


def _explain_split(
    name: str, runs: Path, out: Path, split: str, count: int, k: int | None, weights: str, against: list[str]
) -> dict[str, Any]:
    """Graphs of the data a run was trained on, and how far other seeds agree."""
    from goodformer.engine.store import Run
    from goodformer.explain.explanation import explain_agreement, explain_run
    from goodformer.registry import InputError

    if (Path(name) / "model.json").is_file():
        raise InputError(f"{name} is a fitted model, which has no graphs of its own; name a FILE of rows to explain.")
    run = Run.open(name, runs)
    others = [Run.open(other, runs) for other in against]
    report = explain_run(run, out, split, count, k=k, weights=weights)
    if others:
        found = explain_agreement([run, *others], out, split, k=k, weights=weights)
        report["agreement"] = {name: value for name, value in found.items() if name != "per_graph"}
    return report


def _show(report: dict[str, Any]) -> None:
    """One row a graph, and where the files are."""
    from goodformer.explain.explanation import CAPTIONS

    classes = report.get("classes", {})
    rows = [[row["graph"], row["label"], _said(row["predicted"], classes), _hits(row)] for row in report["graphs"]]
    heads = ["graph", "label", "predicted", "true edges among the best"]
    kept = [place for place in range(len(heads)) if any(row[place] is not None for row in rows)]
    output.table([heads[place] for place in kept], [[row[place] for place in kept] for row in rows])
    if report.get("unreadable"):
        show_problems(report)
    for note in report.get("notes", []):
        typer.echo(f"note: {note}")
    _show_fidelity(report.get("fidelity") or {})
    _show_agreement(report.get("agreement") or {})
    if report["picture"]:
        typer.echo(f"marked:  {CAPTIONS[report['explanation']]}\npicture: {report['picture']}")
    typer.echo(f"scores:  {report['scores']}")
    for table in report.get("tables", []):
        typer.echo(f"table:   {table}")


def _show_fidelity(fidelity: dict[str, Any]) -> None:
    """What the probability loses, beside random edges."""
    if fidelity.get("removed") is None:
        return
    lost = "probability lost without the chosen edges {removed:.3f} (random {random_removed:.3f}), "
    kept = "with them alone {kept:.3f} (random {random_kept:.3f})"
    typer.echo((lost + kept).format(**fidelity))


def _show_agreement(agreement: dict[str, Any]) -> None:
    """How alike the explanations of several seeds are."""
    if agreement.get("correlation") is not None:
        words = "over seeds, edge scores have rank correlation {correlation:.3f}, chosen edges overlap {overlap:.3f}"
        typer.echo((words + " (by chance {chance:.3f})").format(**agreement))


def _said(predicted: Any, classes: dict[str, list[str]]) -> str:
    """What was predicted by its name, several answers on one line."""
    from goodformer.explain.explanation import called

    return called(predicted, classes)


def _hits(row: dict[str, Any]) -> str | None:
    """How many of the m best edges are true, m being the number of true edges."""
    truth = row.get("truth")
    return f"{sum(truth[: sum(truth)])} of {sum(truth)}" if truth else None
