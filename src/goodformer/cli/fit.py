"""``goodformer fit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


def command(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, Parquet, SDF, JSON lines or a TU folder.")],
    target: Annotated[
        list[str], typer.Option("--target", "-t", help="Column to predict; repeat it for several targets.")
    ],
    smiles: Annotated[str, typer.Option(help="Column that holds the SMILES, in a table of molecules.")] = "smiles",
    split: Annotated[
        str,
        typer.Option(
            help="How new data will differ: scaffold, size, cluster, random, column:NAME, file:PATH. "
            "auto is scaffold for molecules and size for other graphs."
        ),
    ] = "auto",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the model.")] = Path("model"),
    method: Annotated[str, typer.Option(help="Method; see goodformer methods.")] = "goodformer",
    model: Annotated[str | None, typer.Option(help="Model; by default the one the method is published with.")] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="Settings by name.")] = "default",
    overrides: options.Set = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run and of the split.")] = 0,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; by default as many as the data need.")] = None,
    runs: options.Runs = Path("runs"),
    device: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "cpu",
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Fit a model to your own molecules or graphs; then predict, and explain.

    [bold]Examples[/bold]

      goodformer fit bace.csv --smiles smiles --target Class --split scaffold -o bace
      goodformer fit assays.parquet -t toxic -t soluble --split column:year -o tox
      goodformer fit graphs.jsonl --target label --split size -o mine
      goodformer predict bace new.csv -o answers.csv
      goodformer explain bace new.csv -o pictures

    Parts of the rows are kept back: some like the training rows, some that differ from them as --split says, so that
    the report tells what the model is worth on new data of either kind. Rows that cannot be read are listed, never
    dropped in silence. The same command continues a fit that was stopped.
    """
    with output.working():
        from goodformer.apply.fit import OwnFile, fit_file
        from goodformer.config.run import Hardware

        given = [*(overrides or []), *([] if epochs is None else [f"training.epochs={epochs}"])]
        source = OwnFile(data, tuple(target), smiles, split, seed)
        hardware = Hardware(accelerator=device, threads=threads, progress=not quiet)
        told: list[str] = []
        report = fit_file(source, out, method, model, preset, given, seed, runs, hardware, warn=_warner(told))
    output.document(report) if as_json else _show(report, told)


PARTS = {
    "train": "training",
    "id_val": "like training, used to calibrate (id_val)",
    "id_test": "like training, used for nothing else (id_test)",
    "val": "shifted, used to choose the epoch (val)",
    "test": "shifted, used for nothing else (test)",
}
"""What the five parts are, for people who never heard of them."""
RULES = {
    "ood_val": "the one that is best on the shifted rows of val",
    "id_val": "the one that is best on the rows of id_val, which are like training",
    "last": "the last one",
}
"""Which epoch is taken under each rule."""


def _warner(told: list[str]) -> Callable[[str], None]:
    """What says at once what should be known before minutes of training, and notes that it was told."""

    def warn(sentence: str) -> None:
        told.append(sentence)
        typer.echo(f"note: {sentence}", err=True)

    return warn


def _show(report: dict[str, Any], told: Sequence[str] = ()) -> None:
    """What the model is worth on each part, what could not be read, and what to do next."""
    from goodformer.spec import METRIC_NAMES

    metric = report["metric"]
    rows = [[label, report["counts"][split], report["splits"][split].get(metric)] for split, label in PARTS.items()]
    title = f"{report['method']} ({report['model']}) fitted to {report['file']}, split by {report['split']}"
    chosen = f"epoch {report['selected_epoch']} of {report['epochs']} was taken: {RULES[report['selection']]}"
    output.table(["part", "rows", METRIC_NAMES[metric]], rows, title=title, note=f"{_metric(report)}\n{chosen}")
    typer.echo(_task(report))
    typer.echo(report["distance"].get("sentence", ""))
    show_problems(report)
    for note in report["notes"]:
        if note not in told:
            typer.echo(f"note: {note}")
    typer.echo(f"model: {report['folder']}  (report.json, split.json)")
    typer.echo(f"next:  goodformer predict {report['folder']} NEW{Path(report['file']).suffix} -o answers.csv")


def _metric(report: dict[str, Any]) -> str:
    """What the figures mean."""
    if report["metric"] == "accuracy":
        return "accuracy: the share of rows whose class is predicted right"
    several = len(report["classes"]) > 1
    first, second = ("the first", "the second class") if several else next(iter(report["classes"].values()))
    mean = ", mean over targets" if several else ""
    return f"ROC-AUC: how often a row of {second} is ranked above one of {first}{mean}; 0.5 is guessing, 1 is perfect"


def _task(report: dict[str, Any]) -> str:
    """What is predicted, in one line."""
    from goodformer.data.readers.values import counted

    left = report["graphs"] - sum(report["counts"].values())
    missing = f"; left out: {counted(left, 'row')} without a label or a part" if left else ""
    targets = "; ".join(f"{target}: {' or '.join(names)}" for target, names in report["classes"].items())
    return f"predicts {targets}{missing}"


def show_problems(report: dict[str, Any]) -> None:
    """The first rows that could not be read, with the reason."""
    from goodformer.data.readers.values import counted

    if not report["unreadable"]:
        return
    typer.echo(f"{report['unreadable']} of {counted(report['rows'], 'row')} cannot be read:")
    for problem in report["problems"][:5]:
        typer.echo(f"  row {problem['row']}: {problem['text']!r}: {problem['reason']}")
    if report["unreadable"] > 5:
        typer.echo(f"  and {report['unreadable'] - 5} more")
