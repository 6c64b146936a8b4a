"""``goodformer split``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


def command(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, Parquet, SDF, JSON lines or a TU folder.")],
    by: Annotated[
        str, typer.Option(metavar="HOW", help="auto, scaffold, size, cluster, random, column:NAME or file:PATH.")
    ] = "auto",
    smiles: Annotated[str, typer.Option(help="Column that holds the SMILES, in a table of molecules.")] = "smiles",
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="Column of the label; repeat it for several targets.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is drawn.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the split is saved.")] = Path(
        "split.json"
    ),
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw how the domains are distributed (PNG, SVG, PDF).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Split your own data so that whole domains are kept for testing, and see how far the parts lie apart.

    [bold]Examples[/bold]

      goodformer split data.csv --smiles smiles --target active --by scaffold -o split.json
      goodformer split assays.parquet -t toxic -t soluble --by column:year --picture split.png
      goodformer split graphs.jsonl --by size --json
      goodformer fit data.csv --target active --split file:split.json -o model

    Rows that cannot be read, and rows without a label where --target is given, are in none of the parts.
    """
    with output.working():
        from goodformer.apply.split import split_file

        report = split_file(data, smiles, target or [], by, seed, out, picture)
    output.document(report) if as_json else _show(report)


def _show(report: dict[str, Any]) -> None:
    """One row a part, the sentence that sums it up, what could not be read, and where the split is."""
    keys = [key for key in COLUMNS if any(_worth_a_column(key, part[key]) for part in report["parts"].values())]
    rows = [[name, *(_brief(part[key]) for key in keys)] for name, part in report["parts"].items()]
    title = f"{report['file']} split by {report['by']}"
    output.table(["part", *(COLUMNS[key] for key in keys)], rows, title, _legend(report, keys))
    notes = (f"note: {note}" for note in report["notes"])
    for line in (report["sentence"], report["rejected_sentence"], _left_out(report), *notes):
        if line:
            typer.echo(line)
    typer.echo(f"split: {report['split']}")
    if report["picture"]:
        typer.echo(f"picture: {report['picture']}")


COLUMNS = {
    "graphs": "graphs",
    "classes": "classes",
    "mean_size": "size",
    "size_difference": "sd",
    "domains": "domains",
    "unseen_domains": "unseen",
    "nearest_mean": "nearest",
    "auroc": "AUROC",
    "also_in_train": "in train",
}
"""What is shown of each part, and under which heading."""
UNLESS_NONE = ("also_in_train",)
"""Counts that are told only where there are some."""
SHOWN = 6
"""Shares of at most so many classes are shown."""


def _worth_a_column(key: str, value: Any) -> bool:
    """Whether a value is known and, of some counts, not zero."""
    return value is not None and not (key in UNLESS_NONE and not value)


def _legend(report: dict[str, Any], keys: list[str]) -> str:
    """What the headings mean."""
    meanings = {
        "classes": f"classes: {_shares(report['class_names'] or {})}",
        "size_difference": "sd: mean size from that of train in standard deviations",
        "unseen_domains": "unseen: share of its domains that train lacks",
        "nearest_mean": "nearest: mean Tanimoto similarity to the nearest training molecule",
        "also_in_train": "in train: rows whose molecule, or graph as it is written, train has too",
        "auroc": "AUROC: how well a simple classifier tells it from train (0.5 = alike)",
    }
    return "\n".join(meanings[key] for key in keys if key in meanings) + "\n"


def _shares(classes: dict[str, list[str]]) -> str:
    """Which shares are shown: those of all classes, or of the second class of each binary target."""
    pairs = [(target, names[1]) for target, names in classes.items() if len(names) == 2]
    if not pairs:
        return f"shares of {', '.join([name for names in classes.values() for name in names][:SHOWN])}"
    if len(pairs) == 1:
        return f"share of {pairs[0][1]}"
    return f"shares of {', '.join(f'{name} in {target}' for target, name in pairs[:SHOWN])}"


def _left_out(report: dict[str, Any]) -> str:
    """Rows that could be read but are in no part."""
    more = report["left_out"] - len(report["rejected"])
    if more == 1:
        return "1 more row is in no part: it lacks a label or a value to split by."
    return f"{more} more rows are in no part: they lack a label or a value to split by." if more > 0 else ""


def _brief(value: Any) -> Any:
    """Real numbers with two digits, lists of them on one line."""
    if isinstance(value, list):
        return " ".join(str(_brief(one)) for one in value[:SHOWN])
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else value
