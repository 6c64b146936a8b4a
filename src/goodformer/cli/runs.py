"""``goodformer runs``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output

app = typer.Typer(name="runs", invoke_without_command=True)

RUNS = Path("runs")
SCORES = ("id_test", "ood_val", "ood_test", "precision_at_10")
SHOWN = ("id", "data", "trained", "seed", "progress", "id_test", "ood_test", "precision_at_10")


@app.callback()
def _default(context: typer.Context, runs: options.Runs = Path("runs"), as_json: options.Json = False) -> None:
    """Records of training.

    [bold]Examples[/bold]

      goodformer runs
      goodformer runs show 3f2a
      goodformer runs export 3f2a -o results/mine.jsonl
      goodformer runs table
    """
    if context.invoked_subcommand is None:
        show_all(runs, as_json)


@app.command("list")
def show_all(runs: options.Runs = Path("runs"), as_json: options.Json = False) -> None:
    """List the runs in a folder.

    [bold]Example[/bold]

      goodformer runs list --runs quickstart --json
    """
    from goodformer.engine.store import list_runs

    _check_folder(runs)
    rows = [row for run in list_runs(runs) if (row := _brief_or_none(run)) is not None]
    if as_json:
        output.document(rows)
    elif not rows:
        typer.echo(f"no run in {runs}; train one with goodformer train.")
    else:
        columns = ["id", "data set", "method on model", "seed", "epochs", "ID test", "OOD test", "P@10"]
        output.table(columns, [[row[key] for key in SHOWN] for row in rows])


@app.command("show")
def show_one(name: options.RunName, runs: options.Runs = Path("runs"), as_json: options.Json = False) -> None:
    """Show a run: its settings, every epoch, its summary.

    [bold]Examples[/bold]

      goodformer runs show 3f2a
      goodformer runs show 3f2a --json
    """
    from goodformer.engine.store import Run

    run = Run.open(name, runs)
    if as_json:
        settings = run.config.to_dict()
        output.document({"folder": str(run.folder), "config": settings, "epochs": run.epochs, "summary": run.summary})
        return
    typer.echo(f"{run.folder}\n\n{run.config.to_yaml()}")
    _show_epochs(run.epochs, _metric(run.epochs))
    if run.summary:
        rows = [[key, _text(value)] for key, value in run.summary.items() if key not in ("config", "splits")]
        output.table(["summary", ""], rows)
    else:
        typer.echo("not finished; the command that started it continues it.")


@app.command("export")
def export(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Default: all finished.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Add the lines to this file.")] = None,
    runs: options.Runs = Path("runs"),
) -> None:
    """Write summaries of finished runs as JSON lines; a run already in the file is replaced.

    [bold]Examples[/bold]

      goodformer runs export -o results/mine.jsonl
      goodformer runs export 3f2a 77b0 > two.jsonl
    """
    import json

    from goodformer.engine.store import Run, export_results, list_runs
    from goodformer.registry import InputError

    _check_folder(runs)
    chosen = [Run.open(name, runs) for name in names] if names else list_runs(runs)
    unfinished = [run.folder.name for run in chosen if names and not run.finished]
    if unfinished:
        raise InputError(
            f"run {unfinished[0]} is not finished; give the command that started it again, which continues it, then "
            "export it."
        )
    if out:
        typer.echo(f"{out} now holds {export_results(chosen, out)} runs", err=True)
        return
    for run in chosen:
        if run.summary:
            typer.echo(json.dumps(run.summary))


@app.command("table")
def table(
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder with *.jsonl records.")] = options.RESULTS,
    write: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write between the markers of this page.")] = None,
) -> None:
    """Compute Markdown tables from committed records.

    [bold]Examples[/bold]

      goodformer runs table
      goodformer runs table --results results --write docs/results.md
    """
    from goodformer.report import tables

    found = tables.read_records(results)
    if not found:
        _check_results(results)
    if write:
        typer.echo(f"{write} {'rewritten' if tables.write(results, write) else 'is up to date'}", err=True)
    else:
        typer.echo(tables.markdown(found))


def _check_folder(runs: Path) -> None:
    """Refuse a folder that is not there, unless nobody asked for it."""
    from goodformer.registry import InputError

    if not runs.is_dir() and runs != RUNS:
        raise InputError(f"there is no folder {runs}; give the folder that holds the runs by --runs.")


def _check_results(results: Path) -> None:
    """Refuse a place that holds no record, unless nobody asked for it."""
    from goodformer.registry import InputError

    if results != options.RESULTS:
        there = f"{results} holds no record of a run" if results.exists() else f"there is no folder {results}"
        raise InputError(f"{there}; give the folder of the files that goodformer runs export -o FILE.jsonl wrote.")


def _brief_or_none(run: Any) -> dict[str, Any] | None:
    """One row of the list; a run whose files are damaged is named on stderr, so that it does not hide the others."""
    from goodformer.registry import InputError

    try:
        return _brief(run)
    except InputError as error:
        typer.echo(f"left out: {error}", err=True)
        return None


def _brief(run: Any) -> dict[str, Any]:
    """One row of the list."""
    config, summary = run.config, run.summary or {}
    shift = [str(config.dataset[key]) for key in ("domain", "shift", "bias") if key in config.dataset]
    own = [Path(config.dataset["path"]).name] if "path" in config.dataset else []
    return {
        "id": config.id,
        "folder": str(run.folder),
        "data": " ".join([config.dataset["name"], *shift, *own]),
        "trained": f"{config.method['name']} on {config.model['name']}",
        "preset": config.preset,
        "budget": config.budget,
        "seed": config.seed,
        "progress": f"{len(run.epochs)}/{config.training.epochs}",
        "finished": run.finished,
        **{key: summary.get(key) for key in SCORES},
    }


def _show_epochs(epochs: list[dict[str, Any]], metric: str) -> None:
    """One row an epoch: total loss, the metric of the five splits, seconds."""
    from goodformer.spec import SPLITS

    rows = [
        [row["epoch"], row["loss"]["total"], *(row.get(split, {}).get(metric) for split in SPLITS), row["seconds"]]
        for row in epochs
    ]
    if rows:
        output.table(["epoch", "loss", *SPLITS, "seconds"], rows, title=f"epochs, {metric}")


def _metric(epochs: list[dict[str, Any]]) -> str:
    """The name of the first metric of the records: that of the task."""
    return next(iter(epochs[0]["val"])) if epochs else ""


def _text(value: Any) -> str:
    """A value of a summary in one cell."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {output.cell(part)}" for key, part in value.items())
    return output.cell(value)
