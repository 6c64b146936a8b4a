"""``goodformer runs``."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError
from goodformer.spec import METRIC_NAMES

app = typer.Typer(name="runs", invoke_without_command=True)

RUNS = Path("runs")
SCORES = ("id_test", "ood_val", "ood_test", "precision_at_10")
SHOWN = {
    "id": "id",
    "data": "data set",
    "trained": "method on model",
    "seed": "seed",
    "progress": "epochs",
    "changed": "changed",
    "metric": "metric",
    "id_test": "ID test",
    "ood_test": "OOD test",
    "precision_at_10": "Precision@10",
}
"""Entries of a run in the list, and their headings."""


@app.callback()
def _default(context: typer.Context, runs: options.Runs = Path("runs"), as_json: options.Json = False) -> None:
    """List, show and export finished and unfinished runs.

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
    """List the runs in a folder, the latest first.

    [bold]Example[/bold]

      goodformer runs list --runs quickstart --json
    """
    from goodformer.engine.store import list_runs
    from goodformer.report.table import Table

    _check_folder(runs)
    rows, found = [], list_runs(runs)
    for run in found:
        try:
            rows.append(_brief(run))
        except InputError as error:  # a damaged run does not hide the others
            typer.echo(f"skipped {run.folder.name}: {error}", err=True)
    rows.sort(key=lambda row: row.pop("time"), reverse=True)
    if as_json:
        output.document(rows)
    elif not rows:
        skipped = f"none of the {len(found)} runs in {runs} can be read."
        typer.echo(skipped if found else f"no run in {runs}; train one with goodformer train.")
    else:
        heads = {key: head for key, head in SHOWN.items() if any(row[key] is not None for row in rows)}
        output.show(Table.of(list(heads.values()), [[row[key] for key in heads] for row in rows]))


@app.command("show")
def show_one(name: options.RunName, runs: options.Runs = Path("runs"), as_json: options.Json = False) -> None:
    """Show the settings, the epochs and the summary of a run.

    [bold]Examples[/bold]

      goodformer runs show 3f2a
      goodformer runs show 3f2a --json
    """
    from goodformer.engine.store import Run
    from goodformer.spec import SPLIT_NAMES, SPLITS

    run = Run.open(name, runs)
    if as_json:
        settings = run.config.to_dict()
        output.document({"folder": str(run.folder), "config": settings, "epochs": run.epochs, "summary": run.summary})
        return
    typer.echo(f"{run.folder}\n\n{run.config.to_yaml()}")
    if epochs := run.epochs:
        metric = next(iter(epochs[0].get("val", ())), "")  # that of the task comes first
        rows = []
        for row in epochs:
            scores = (row.get(split, {}).get(metric) for split in SPLITS)
            rows.append([row["epoch"], row.get("loss", {}).get("total"), *scores, row.get("seconds")])
        title = f"epochs, {METRIC_NAMES.get(metric, metric)}" if metric else "epochs"
        output.table(["epoch", "loss", *SPLIT_NAMES.values(), "seconds"], rows, title)
    if run.summary:
        rows = [[key, _text(value)] for key, value in run.summary.items() if key not in ("config", "splits")]
        output.table(["summary", ""], rows)
    else:
        typer.echo("not finished; repeat the command that started it to continue.")


@app.command("export")
def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs to export; default: all finished runs.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Add the lines to this file.")] = None,
    predictions: options.Predictions = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Write the records of finished runs as JSON lines; a run that the file already has is replaced.

    [bold]Examples[/bold]

      goodformer runs export -o results/mine.jsonl
      goodformer runs export -o results/mine.jsonl --predictions
      goodformer runs export 3f2a 77b0 > two.jsonl
    """
    import json

    from goodformer.engine.store import Run, export_results, list_runs

    _check_folder(runs)
    chosen = [Run.open(name, runs) for name in names] if names else list_runs(runs)
    unfinished = [run.folder.name for run in chosen if names and not run.finished]
    if unfinished:
        raise InputError(
            f"run {unfinished[0]} is not finished; repeat the command that started it to continue, then export the run."
        )
    if out:
        typer.echo(f"{out} now contains {export_results(chosen, out, predictions)} runs", err=True)
        return
    for run in chosen:
        if run.summary:
            typer.echo(json.dumps(run.summary))


@app.command("table")
def table(
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder with *.jsonl records.")] = options.RESULTS,
    write: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write between the markers of this page.")] = None,
) -> None:
    """Print Markdown tables of all records, one per benchmark.

    [bold]Examples[/bold]

      goodformer runs table
      goodformer runs table --results results --write docs/results.md
    """
    from goodformer.engine.store import NamedRecord
    from goodformer.report import results as page
    from goodformer.report.records import read_records

    found = read_records(results, NamedRecord)
    if not found and results != options.RESULTS:
        there = f"{results} contains no record of a run" if results.exists() else f"there is no folder {results}"
        raise InputError(f"{there}; give a folder of files that goodformer runs export -o FILE.jsonl wrote.")
    if write:
        output.page(write, page.write(results, write))
    else:
        typer.echo(page.markdown(found))


def _check_folder(runs: Path) -> None:
    """Refuse a missing folder, unless it is the default one."""

    if not runs.is_dir() and runs != RUNS:
        raise InputError(f"there is no folder {runs}; name the folder of runs with --runs.")


def _brief(run: Any) -> dict[str, Any]:
    """Return one row of the list."""
    from goodformer.engine.store import CONFIG, EPOCHS, SUMMARY

    config, summary = run.config, run.summary or {}
    shift = [str(config.dataset[key]) for key in ("domain", "shift", "bias") if key in config.dataset]
    data = " ".join([config.dataset["name"], *shift])
    if "path" in config.dataset:  # a user's file
        name, target = Path(config.dataset["path"]).name, config.dataset["target"]
        targets = target if isinstance(target, str) else ", ".join(target)
        data = f"{name}: {targets}; split {config.dataset['split']}"
    changed = 0.0
    for name in (CONFIG, EPOCHS, SUMMARY):
        with suppress(OSError):  # not there yet
            changed = max(changed, (run.folder / name).stat().st_mtime)
    return {
        "id": config.id,
        "folder": str(run.folder),
        "data": data,
        "trained": f"{config.method['name']} on {config.model['name']}",
        "preset": config.preset,
        "budget": config.budget,
        "seed": config.seed,
        "progress": f"{len(run.epochs)}" if run.finished else f"{len(run.epochs)}/{config.training.epochs}",
        "finished": run.finished,
        "time": changed,
        "changed": datetime.fromtimestamp(changed).isoformat(" ", "minutes"),
        "metric": METRIC_NAMES.get(str(summary.get("metric"))),
        **{key: summary.get(key) for key in SCORES},
    }


def _text(value: Any) -> str:
    """Return an entry of a summary as the text of one cell."""
    if not isinstance(value, dict):
        return output.cell(value)
    parts = {key: f"({_text(part)})" if isinstance(part, dict) else output.cell(part) for key, part in value.items()}
    return ", ".join(f"{key} {text}" for key, text in parts.items())
