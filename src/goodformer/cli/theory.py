"""``goodformer theory``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


class Form(StrEnum):
    """How tables are printed."""

    text = "text"
    markdown = "markdown"


def command(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Draw the pictures theory-*.png into this folder.")
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--run", metavar="RUN", help="A run of GOODFormer on good-motif to look into; may be repeated for seeds."
        ),
    ] = None,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all figures to this JSON file.")] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write the tables between the theory markers of this page.")
    ] = None,
    graphs: Annotated[int, typer.Option(min=3, help="Graphs of each kind and size of base, for --run.")] = 60,
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    form: Annotated[Form, typer.Option("--format", help="How the tables are printed.")] = Form.text,
    as_json: options.Json = False,
) -> None:
    """Show the paper's theorems beside measurement: attention that disperses, and what temperature does.

    [bold]Examples[/bold]

      goodformer theory -o pictures
      goodformer theory -o pictures --run 3f2a --json
      goodformer theory -o docs/images --run 3f2a --record results/theory.json --page docs/theory.md

    Without --run only random logits are looked at.
    """
    with output.working():
        from goodformer.cli.locate import limit_threads
        from goodformer.engine import Run
        from goodformer.experiments import theory, theory_picture

        limit_threads(threads)
        opened = [Run.open(name, runs) for name in names or ()]
        with output.counting("kinds and sizes of bases", hidden=quiet or not opened) as told:
            found = theory.measure(opened, graphs, told=told)
        if record:
            output.save_json(found, record)
        for path in theory_picture.draw(found, out) if out else ():
            typer.echo(f"{path} drawn", err=True)
        if page:
            typer.echo(f"{page} {'rewritten' if theory.write(found, page) else 'is up to date'}", err=True)
    if as_json:
        output.document(found)
    else:
        text = "\n\n".join(theory.blocks(found).values())
        typer.echo(text if form is Form.markdown else output.plain(text))
