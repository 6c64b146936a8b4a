"""``goodformer tune``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output

SHOWN = 5
"""Trials in the table of the best."""


def command(
    data: options.DataFile,
    target: Annotated[
        list[str], typer.Option("--target", "-t", help="Column to predict; repeat it for several targets.")
    ],
    smiles: options.Smiles = "smiles",
    split: Annotated[str, typer.Option(help="How new data will differ; see goodformer fit --help.")] = "auto",
    val: options.ValFile = None,
    test: options.TestFile = None,
    standardise: options.Standardise = "none",
    task: options.TaskKind = "auto",
    trials: Annotated[int, typer.Option(min=1, help="Finished trials of the whole search.")] = 30,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the search.")] = Path("tuned"),
    method: Annotated[str, typer.Option(help="Method; see goodformer methods.")] = "goodformer",
    model: options.Model = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Preset that the search starts from; default: that of fit.")
    ] = None,
    overrides: options.Set = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the runs, the split and the search.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of epochs; default: depends on the number of rows.")
    ] = None,
    device: options.Device = "cpu",
    threads: options.Threads = 1,
    executor: options.Executor = "local",
    address: options.Address = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Search for the settings that fit your own molecules or graphs best.

    [bold]Examples[/bold]

      goodformer tune bace.csv --target Class --split scaffold --trials 30 -o tuned
      goodformer tune bace.csv --target Class --method erm --model gin --trials 50 -o tuned-gin
      goodformer tune bace.csv --target Class --set model.dim=64 --epochs 20
      goodformer tune bace.csv --target Class --trials 200 --executor ray --address auto
      goodformer fit bace.csv --target Class --split scaffold --preset-file tuned/best.yaml -o bace

    Trials are judged on OOD validation, the split that selects the epoch; test rows take no part. The first trial is
    the preset itself. A trial that is worse than the median of the others at the same epoch is pruned. Ctrl-C keeps
    what is done, and the same command continues. To use several cores, start the same command several times: the
    processes share the search. With --executor ray, as many trials run at a time as fit on the cluster. Settings given
    by --set stay fixed. Needs Optuna (goodformer[tune]).
    """
    watch = output.teller(quiet)
    with output.working():
        from goodformer import executors
        from goodformer.errors import InputError

        spread = executors.spread(executor, address)
        if spread is not None and device != "cpu":
            raise InputError(f"--executor ray trains on CPUs, not on {device}; leave --device out.")
        watch(f"reading {data} ...")
        from goodformer.apply.fit import OwnFile
        from goodformer.apply.tune import Search, tune
        from goodformer.config.run import Hardware

        given = [*(overrides or []), *([] if epochs is None else [f"training.epochs={epochs}"])]
        kind = options.task_choice(task)
        source = OwnFile(data, tuple(target), smiles, split, seed, val, test, standardise, kind)
        hardware = Hardware(accelerator=device, threads=threads, progress=False, test_epochs=False)
        search = Search(source, method, model, preset, tuple(given), seed, hardware=hardware)
        report = tune(search, out, trials, watch, spread)
    again = ["--smiles", smiles] if smiles != "smiles" else []
    again += [word for name, file in (("--val", val), ("--test", test)) if file for word in (name, str(file))]
    again += ["--split", split] if split != "auto" else []
    again += ["--standardise", standardise] if standardise != "none" else []
    again += ["--task", task] if task != "auto" else []
    again += ["--seed", str(seed)] if seed else []
    words = ["goodformer", "fit", str(data), *(word for name in target for word in ("--target", name)), *again]
    next_step = shlex.join([*words, "--preset-file", f"{out}/best.yaml", "--runs", f"{out}/runs"])
    output.document({**report, "next": next_step}) if as_json else _show(report, next_step)


def _show(report: dict[str, Any], next_step: str) -> None:
    """Print the best trials, what matters, and how to fit the best settings."""
    from goodformer.spec import METRIC_NAMES, SPLIT_NAMES

    metric = METRIC_NAMES[report["metric"]]
    names = report["settings"]
    short = [name.partition(".")[2] for name in names]
    heads = [one if short.count(one) == 1 else name for name, one in zip(names, short, strict=True)]
    rows = [
        [one["trial"], one["score"], one["epochs"], *(output.cell(one["settings"][name]) for name in names)]
        for one in report["best"][:SHOWN]
    ]
    title = f"{report['method']} ({report['model']}): the best of {report['trials']} trials, {report['pruned']} pruned"
    note = f"{metric} is that of {SPLIT_NAMES[report['split']]} at the selected epoch; test splits took no part."
    output.table(["trial", metric, "epochs", *heads], rows, title=title, note=note)
    if report["importances"]:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in list(report["importances"].items())[:SHOWN])
        typer.echo(f"importance: {listed}")
    typer.echo(f"search: {report['folder']}  (best.yaml, search.json, search.png)")
    typer.echo(f"next:   {next_step}")
