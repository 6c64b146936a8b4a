"""``goodformer split``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


def command(
    data: options.DataFile,
    by: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="What differs: auto, scaffold, size, cluster, random, column:NAME or file:PATH."
        ),
    ] = "auto",
    val: options.ValFile = None,
    test: options.TestFile = None,
    standardise: options.Standardise = "none",
    smiles: options.Smiles = "smiles",
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="Column of the label; repeat it for several targets.")
    ] = None,
    task: options.TaskKind = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of random choices.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the split.")] = Path("split.json"),
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw the distribution of the domains (PNG, SVG, PDF).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Split your own data so that whole domains are held out, and measure how far the splits differ.

    [bold]Examples[/bold]

      goodformer split data.csv --smiles smiles --target active --by scaffold -o split.json
      goodformer split assays.parquet -t toxic -t soluble --by column:year --picture split.png
      goodformer split graphs.jsonl --by size --json
      goodformer fit data.csv --target active --split file:split.json -o model

    Rows that cannot be read are in no split, and neither are rows without a label if --target is given.
    """
    with output.working():
        from goodformer.apply.split import split_file

        choice = options.task_choice(task)
        report = split_file(data, smiles, target or [], by, seed, out, picture, val, test, standardise, choice)
    output.document(report) if as_json else _show(report)


COLUMNS = {
    "graphs": "graphs",
    "classes": "classes",
    "mean_size": "size",
    "size_difference": "sd",
    "domains": "domains",
    "unseen_domains": "unseen",
    "nearest_mean": "nearest",
    "auroc": "AUROC",
    "also_in_train": "in training",
}
"""Columns of the table by their keys in the report."""
LEGEND = {
    "size_difference": "sd: difference of the mean size from training, in standard deviations",
    "unseen_domains": "unseen: share of domains that do not occur in training",
    "nearest_mean": "nearest: mean Tanimoto similarity to the nearest training molecule",
    "also_in_train": "in training: rows whose molecule or graph also occurs in training",
    "auroc": "AUROC: how well a simple classifier separates the split from training (0.5 = not at all)",
}
SHOWN = 6
"""Classes whose shares are shown at most."""


def _show(report: dict[str, Any]) -> None:
    """Print one row per split, a summary, unreadable rows, and the files."""
    from goodformer.data.readers.values import counted
    from goodformer.spec import split_names

    parts, names = report["parts"], split_names(report["by"], report["given"])
    keys = [key for key in COLUMNS if any(part[key] is not None for part in parts.values())]
    if "also_in_train" in keys and not any(part["also_in_train"] for part in parts.values()):
        keys.remove("also_in_train")
    rows = [[names[name], *(_brief(part[key]) for key in keys)] for name, part in parts.items()]
    legend = {"classes": f"classes: {_shares(report['class_names'] or {})}", **LEGEND}
    note = "\n".join(legend[key] for key in keys if key in legend) + "\n"
    output.table(["split", *(COLUMNS[key] for key in keys)], rows, f"{report['file']} split by {report['by']}", note)
    more = report["left_out"] - len(report["rejected"])
    left = f"{counted(more, 'more row')} in no split: no label, or no value to split by." if more > 0 else ""
    for line in filter(None, (report["sentence"], report["rejected_sentence"], left)):
        typer.echo(line)
    output.notes(report)
    typer.echo(f"split: {report['split']}")
    if report["picture"]:
        typer.echo(f"picture: {report['picture']}")


def _shares(classes: dict[str, list[str]]) -> str:
    """Return what is shown: shares of all classes or of the second class of each binary target, or means of values."""
    if classes and not any(classes.values()):
        return f"mean of {', '.join(classes)}"
    pairs = [(target, names[1]) for target, names in classes.items() if len(names) == 2]
    if not pairs:
        return f"shares of {_first([name for names in classes.values() for name in names])}"
    if len(pairs) == 1:
        return f"share of {pairs[0][1]}"
    return f"shares of {_first([f'{name} in {target}' for target, name in pairs])}"


def _first(names: Sequence[str]) -> str:
    """Return the names that a row of the table has room for, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _brief(value: Any) -> Any:
    """Return real numbers with two digits, and lists of them on one line."""
    if isinstance(value, list):
        return " ".join(str(_brief(one)) for one in value[:SHOWN])
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else value
