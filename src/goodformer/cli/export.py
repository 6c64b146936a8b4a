"""``goodformer export``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError


class Form(StrEnum):
    """Format of an exported model."""

    onnx = "onnx"
    folder = "folder"


def command(
    model: options.ModelName,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The file, or a new folder; default: model.onnx in the model's folder."
        ),
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="onnx, or folder: a model like the given one, without rows of its data.")
    ] = Form.onnx,
    with_counts: Annotated[
        bool,
        typer.Option("--with-counts", help="Share a folder even if its weights hold counts of training graphs."),
    ] = False,
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write a fitted model as an ONNX file, for programs without Python or torch, or as a folder to share.

    [bold]Examples[/bold]

      goodformer export bace
      goodformer export bace --format onnx -o bace.onnx
      goodformer export bace --format folder -o bace-to-share

    An ONNX file reads a batch of graphs (goodformer.export.inputs makes the arrays) and returns logits, and calibrated
    probabilities or measured values. Domain scores and explanations are not part of the file. Needs goodformer[onnx].

    A folder to share predicts and explains like the model. It holds no row of the training data, so it cannot name the
    nearest training rows and, for molecules, has no domain score. A Gaussian process, a member of most default
    models, compares with training graphs, so its weights hold the counts of their substructures: such a folder is
    written only --with-counts. An ONNX file holds them, too.
    """
    if form is Form.folder and out is None:
        raise InputError("--format folder needs a new folder; name it with -o.")
    with output.working():
        from goodformer.export import check_export, export_folder, export_onnx
        from goodformer.fitted import FittedModel

        found = FittedModel.open(model, runs, weights)
        if form is Form.folder and out is not None:
            written = export_folder(found, out, with_counts)
            report: dict[str, Any] = {"folder": str(written), "files": sorted(one.name for one in written.iterdir())}
        else:
            place = out or (Path(model) / "model.onnx" if Path(model).is_dir() else Path(f"{model}.onnx"))
            check_export(place)
            if not quiet:
                typer.echo(f"exporting {model}, which takes about a minute ...", err=True)
            report = export_onnx(found, place)
        report["keeps_graphs"] = found.keeps_graphs
    output.document(report) if as_json else _show(report)


def _show(report: dict[str, Any]) -> None:
    """Print where the model is, of a file its inputs and outputs, and what it tells about training rows."""
    from goodformer.export import COUNTS_KEPT

    if report["keeps_graphs"]:
        typer.echo(f"note: {COUNTS_KEPT}.")
    if "folder" in report:
        typer.echo(f"model: {report['folder']}  ({', '.join(report['files'])})")
        return
    typer.echo(f"inputs:  {', '.join(report['inputs'])}  (goodformer.export.inputs makes them)")
    typer.echo(f"outputs: {', '.join(report['outputs'])}")
    typer.echo(f"model:   {report['file']}")
