"""``goodformer export``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


class Form(StrEnum):
    """Format of an exported model."""

    onnx = "onnx"


def command(
    model: options.ModelName,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file; default: model.onnx in the folder.")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="Format of the file.")] = Form.onnx,
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write a fitted model as an ONNX file, for programs without Python or torch.

    [bold]Examples[/bold]

      goodformer export bace
      goodformer export bace --format onnx -o bace.onnx

    The file reads a batch of graphs (goodformer.export.inputs makes the arrays) and returns logits, and calibrated
    probabilities or measured values. Domain scores and explanations are not part of the file. Needs goodformer[onnx].
    """
    with output.working():
        from goodformer.export import check_export, export_onnx
        from goodformer.fitted import FittedModel

        found = FittedModel.open(model, runs, weights)
        place = out or (Path(model) / "model.onnx" if Path(model).is_dir() else Path(f"{model}.onnx"))
        check_export(place)
        if not quiet:
            typer.echo(f"exporting {model}, which takes about a minute ...", err=True)
        report = export_onnx(found, place)
    output.document(report) if as_json else _show(report)


def _show(report: dict[str, Any]) -> None:
    """Print the names of inputs and outputs and where the file is."""
    typer.echo(f"inputs:  {', '.join(report['inputs'])}  (goodformer.export.inputs makes them)")
    typer.echo(f"outputs: {', '.join(report['outputs'])}")
    typer.echo(f"model:   {report['file']}")
