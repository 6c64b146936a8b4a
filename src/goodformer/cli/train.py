"""``goodformer train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output

TestChosen = Annotated[
    bool, typer.Option("--test-chosen", help="Measure the test splits at the chosen epoch only: faster, same result.")
]


def command(
    dataset: Annotated[str | None, typer.Argument(help="Data set, e.g. good-motif; see goodformer datasets.")] = None,
    domain: Annotated[str | None, typer.Option(help="What shifts, e.g. basis or size.")] = None,
    shift: Annotated[str | None, typer.Option(help="How it shifts: covariate, concept or none.")] = None,
    method: Annotated[str | None, typer.Option(help="Method; see goodformer methods. Default: goodformer.")] = None,
    model: Annotated[str | None, typer.Option(help="Model; by default the one the method is published with.")] = None,
    preset: options.Preset = None,
    config: options.Config = None,
    overrides: options.Set = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the run. Default: 0.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; short for --set training.epochs=N.")] = None,
    budget: Annotated[
        str | None, typer.Option(help=f"What cuts graphs and epochs: {options.BUDGETS}. Default: full.")
    ] = None,
    runs: options.Runs = Path("runs"),
    device: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="Processes that train together.")] = 1,
    threads: options.Threads = 1,
    test_chosen: TestChosen = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard curves.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train one method on one data set; the same command continues a stopped run or shows a finished one.

    [bold]Examples[/bold]

      goodformer train good-motif --domain basis --shift covariate
      goodformer train good-motif --domain size --method erm --model gps
      goodformer train sp-motif --set dataset.bias=0.9 --seed 1
      goodformer train good-motif --preset paper --set training.learning_rate=1e-3
      goodformer train --config my.yaml --set method.entropy_weight=0.05
      goodformer train good-motif --epochs 1 --json > run.json

    A run lies in a folder named after its settings: config, one JSON line an epoch, weights and a summary.
    """
    named = {"dataset": {"name": dataset, "domain": domain, "shift": shift}, "method": {"name": method}}
    chosen = {"preset": preset, "budget": budget, "seed": seed}
    training = {} if epochs is None else {"epochs": epochs}
    typed = {**named, "model": {"name": model}, "training": training, **chosen}
    place = {"accelerator": device, "devices": devices, "threads": threads, "tensorboard": tensorboard}
    hardware = {**place, "progress": not quiet, "test_epochs": not test_chosen}
    summary = _trained(config, typed, overrides or [], runs, hardware)
    output.document(summary) if as_json else show(summary)


def _trained(
    config: Path | None, typed: dict[str, Any], overrides: list[str], runs: Path, hardware: dict[str, Any]
) -> dict[str, Any]:
    """The summary of the run that a file and what was typed ask for, and where it lies."""
    with output.working():
        from goodformer.config.run import Hardware
        from goodformer.config.settings_file import configure_from
        from goodformer.engine.run import train

        run = train(configure_from(config, typed, overrides), runs, Hardware(**hardware))
    return {**(run.summary or {}), "folder": str(run.folder)}


def show(summary: dict[str, Any]) -> None:
    """The five splits of a finished run, how its epoch was chosen, and where it lies."""
    from goodformer.spec import SPLIT_NAMES

    metric, splits = summary["metric"], summary["splits"]
    named = " ".join(str(summary[key]) for key in ("dataset", "domain", "shift") if summary.get(key))
    extra = [key for key in ("precision_at_10", "edge_auc") if any(key in row for row in splits.values())]
    output.table(
        ["split", metric, *extra],
        [[label, *(splits[split].get(key) for key in (metric, *extra))] for split, label in SPLIT_NAMES.items()],
        title=f"{summary['method']} ({summary['model']}) on {named}, seed {summary['seed']}",
        note=f"epoch {summary['selected_epoch']} of {summary['epochs']}, chosen by the rule {summary['selection']}",
    )
    typer.echo(f"run: {summary['folder']}")
