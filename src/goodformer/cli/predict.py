"""``goodformer predict``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError


def command(
    model: options.ModelName,
    data: options.DataFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File for the predictions: .csv, .tsv, .parquet, .json or .jsonl; or a folder, for parts of a table.",
        ),
    ] = Path("answers.csv"),
    smiles: options.SmilesAsTrained = None,
    sets: Annotated[
        float | None,
        typer.Option(
            min=0.5, max=0.999, help="Also write conformal sets, or intervals of measured values, with this coverage."
        ),
    ] = None,
    neighbours: Annotated[
        int, typer.Option(min=0, max=100, help="Also name this many of the most similar training rows.")
    ] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also write which atoms or nodes decide; about 30 times slower.")
    ] = False,
    overwrite: options.Overwrite = False,
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    executor: options.Executor = "local",
    address: options.Address = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Predict every row of a file: class and calibrated probabilities, or value, and whether it is outside the domain.

    [bold]Examples[/bold]

      goodformer predict bace new.csv -o answers.csv
      goodformer predict bace library.parquet -o answers.parquet --sets 0.9
      goodformer predict bace new.csv -o answers.csv --neighbours 3 --explain
      goodformer predict mine graphs.jsonl -o answers.jsonl
      goodformer predict bace library.parquet -o answers/ --executor ray

    Rows keep their order and columns. A row that cannot be read has empty predictions and the reason in the column
    problem. domain_score is the share of known rows that are less unusual than the row (0 usual, 1 unusual);
    outside is true if the row is more unusual than about 95 % of them, much larger than any training row, or contains a
    new element, and outside_because says which. Files may be larger than memory. The same command continues a stopped
    prediction. Earlier answers are replaced, other files only with --overwrite. A folder as output, which
    --executor ray needs, receives one file per 16,384 rows, with the number of each row in the column row. The exit
    code is 1 if no row could be read.
    """
    with output.working():
        from goodformer import executors
        from goodformer.apply.parts import predict_parts
        from goodformer.apply.predict import predict_file
        from goodformer.data.readers.rows import rough_count
        from goodformer.fitted import FittedModel

        executors.check_executor(executor, address)
        options.limit_threads(threads)
        more: dict[str, Any] = {"neighbours": neighbours, "explain": explain}
        with output.counting("rows", hidden=quiet, total=lambda: rough_count(data)) as watch:
            fitted = FittedModel.open(model, runs, weights)
            if out.is_dir() or not out.suffix:
                if overwrite:
                    raise InputError(f"--overwrite is for files; remove the folder {out}, or choose another.")
                each = executors.each(executor, threads, address)
                report = predict_parts(fitted, data, out, sets, smiles, watch=watch, each=each, **more)
            elif executor == "local":
                report = predict_file(fitted, data, out, sets, smiles, watch=watch, overwrite=overwrite, **more)
            else:
                raise InputError(
                    f"--executor {executor} writes a folder; give one, for example -o {shlex.quote(out.stem)}."
                )
    output.document(report) if as_json else _show(report)
    if report["failure"]:
        typer.echo(f"goodformer: {report['failure']}", err=True)
        raise typer.Exit(1)


MANY = 1_000
"""Rows from which the pace is worth a word."""


def _show(report: dict[str, Any]) -> None:
    """Print how many rows there are, how many are outside the domain, and where the predictions are."""
    from goodformer.data.readers.values import counted

    domain = f"{report['outside']} outside the training domain"
    if report["outside"] is None:
        domain = "domain check unavailable for this model"
    if not report["failure"]:
        many = report["rows"] - report["continued"] >= MANY
        pace = f"; {report['rows_per_second']:,.0f} rows per second" if many else ""
        typer.echo(f"{counted(report['rows'], 'row')}; {domain}{pace}")
        if report["continued"]:
            typer.echo(f"{counted(report['continued'], 'row')} were there from an earlier call of the same command")
        if near := report.get("neighbours"):
            of = "" if near["rows"] == near["training_rows"] else f" of {near['training_rows']:,}"
            typer.echo(f"neighbours: {near['similarity']}, among {near['rows']:,}{of} training rows")
        output.problems(report)
    output.notes(report)
    typer.echo(f"answers: {report['out']}")
