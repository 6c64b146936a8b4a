"""``goodformer methods``."""

from __future__ import annotations

from typing import Annotated

import typer

from goodformer.cli import options, output
from goodformer.errors import unknown

app = typer.Typer(name="methods", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: options.Json = False) -> None:
    """List methods (training objectives) and models (architectures), and show the settings of each.

    [bold]Examples[/bold]

      goodformer methods
      goodformer methods show goodformer
      goodformer methods show gps --json
    """
    if context.invoked_subcommand is None:
        show_all(as_json)


@app.command("list")
def show_all(as_json: options.Json = False) -> None:
    """List methods and models.

    [bold]Example[/bold]

      goodformer methods list --json
    """
    from goodformer.methods import METHODS
    from goodformer.models import MODELS

    rows = []
    for registry in (METHODS, MODELS):
        for name in registry:
            found = registry.describe(name)
            about = found.about.partition("\n")[0]
            rows.append({"kind": registry.kind, "name": name, "in_words": found.in_words, "about": about})
    if as_json:
        output.document(rows)
        return
    shown = [[row["kind"], row["name"], row["in_words"] or row["about"]] for row in rows]
    output.table(["kind", "name", "what it does, and when to choose it"], shown)
    typer.echo("Show formula, paper and settings of one: goodformer methods show NAME")


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A method or a model; both are shown if both have the name.")],
    as_json: options.Json = False,
) -> None:
    """Show a method or model: what it does, its formula, paper and settings.

    [bold]Examples[/bold]

      goodformer methods show goodformer
      goodformer train good-motif --set model.dim=64 --set method.entropy_weight=0
    """
    from goodformer.cli import cards
    from goodformer.methods import METHODS
    from goodformer.models import MODELS

    found = [(one.kind, one.describe(name)) for one in (METHODS, MODELS) if name in one]
    if not found:
        raise unknown("method or model", name, {*METHODS, *MODELS})
    if as_json:
        output.document([{**cards.card(kind, name, one), "in_words": one.in_words} for kind, one in found])
        return
    for kind, one in found:
        words = f"{one.in_words}\n\n" if one.in_words else ""
        typer.echo(f"{kind} {name}\n\n{words}{one.about}\n")
        cards.show_settings(one)
