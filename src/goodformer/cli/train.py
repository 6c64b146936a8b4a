"""``goodformer train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.cli.evaluate import show_splits


def command(
    dataset: Annotated[str | None, typer.Argument(help="Data set, e.g. good-motif; see goodformer datasets.")] = None,
    domain: Annotated[str | None, typer.Option(help="Attribute that shifts, e.g. basis or size.")] = None,
    shift: Annotated[str | None, typer.Option(help="Kind of shift: covariate, concept or none.")] = None,
    method: Annotated[str | None, typer.Option(help="Method; see goodformer methods. Default: goodformer.")] = None,
    model: options.Model = None,
    preset: options.Preset = None,
    config: options.Config = None,
    overrides: options.Set = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the run. Default: 0.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of epochs; short for --set training.epochs=N.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help=f"Number of graphs and epochs: {options.BUDGETS}. Default: full.")
    ] = None,
    runs: options.Runs = Path("runs"),
    device: options.Device = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="Processes per node that train the run together.")] = 1,
    nodes: Annotated[
        int, typer.Option(min=1, help="Machines that train the run together, each by this command; see the docs.")
    ] = 1,
    threads: options.Threads = 1,
    test_chosen: Annotated[
        bool,
        typer.Option("--test-chosen", help="Evaluate the test splits at the selected epoch only: faster, same result."),
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard curves.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train one method on one data set. The same command continues a stopped run or shows a finished one.

    [bold]Examples[/bold]

      goodformer train good-motif --domain basis --shift covariate
      goodformer train good-motif --domain size --method erm --model gps
      goodformer train sp-motif --set dataset.bias=0.9 --seed 1
      goodformer train good-motif --preset paper --set training.learning_rate=1e-3
      goodformer train --config my.yaml --set method.entropy_weight=0.05
      goodformer train good-motif --epochs 1 --json > run.json

    The run's folder contains all settings, one JSON line per epoch, weights and a summary; its name ends with a hash
    of the settings.
    """
    typed = {
        "dataset": {"name": dataset, "domain": domain, "shift": shift},
        "method": {"name": method},
        "model": {"name": model},
        "training": {} if epochs is None else {"epochs": epochs},
        "preset": preset,
        "budget": budget,
        "seed": seed,
    }
    with output.working():
        from goodformer.config.presets import ignored_epochs
        from goodformer.config.run import Hardware
        from goodformer.config.settings_file import configure_from
        from goodformer.engine.run import train
        from goodformer.engine.store import Run

        hardware = Hardware(
            accelerator=device,
            devices=devices,
            nodes=nodes,
            threads=threads,
            tensorboard=tensorboard,
            progress=not quiet,
            test_epochs=not test_chosen,
        )
        settings = configure_from(config, typed, overrides or [])
        given = [*(overrides or []), *([] if epochs is None else [f"training.epochs={epochs}"])]
        notes = (ignored_epochs(settings, given), Run(runs / settings.folder_name).reuse_note)
        for note in filter(None, notes):
            typer.echo(f"note: {note}", err=True)
        run = train(settings, runs, hardware)
    if not run.finished:  # the first of several nodes records it
        typer.echo(f"this node has done its part of {run.folder.name}; its record is on the first node.", err=True)
        return
    summary = {**(run.summary or {}), "folder": str(run.folder)}
    output.document(summary) if as_json else show(summary)


def show(summary: dict[str, Any]) -> None:
    """Print the five splits of a finished run, how its epoch was selected if there are several, and its folder."""
    from goodformer.engine.selection import describe_selection

    rule = describe_selection(summary["selection"], summary["splits"], summary["metric"])
    chosen = f"epoch {summary['selected_epoch']} of {summary['epochs']}, {rule}"
    named = " ".join(str(summary[key]) for key in ("dataset", "domain", "shift") if summary.get(key))
    show_splits(
        summary["splits"],
        [summary["metric"]],
        title=f"{summary['method']} ({summary['model']}) on {named}, seed {summary['seed']}",
        note=chosen if summary["epochs"] > 1 else "",
    )
    typer.echo(f"run: {summary['folder']}")
