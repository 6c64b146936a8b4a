"""``goodformer methods``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goodformer.cli import options, output

app = typer.Typer(name="methods", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: options.Json = False) -> None:
    """Methods (what is minimised) and models (what reads the graph), and the settings of each.

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
    from goodformer.cli import cards

    rows = [
        {"kind": kind, "name": name, "in_words": in_words(build), "about": cards.sentence(build)}
        for kind, name, build in _entries()
    ]
    if as_json:
        output.document(rows)
        return
    shown = [[row["kind"], row["name"], row["in_words"] or row["about"]] for row in rows]
    output.table(["kind", "name", "what it does, and when to choose it"], shown)
    typer.echo("formula, paper and settings of one: goodformer methods show NAME")


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A method or model; one name may be both.")], as_json: options.Json = False
) -> None:
    """Show a method or model: what it does, its formula, paper and settings.

    [bold]Examples[/bold]

      goodformer methods show goodformer
      goodformer train good-motif --set model.dim=64 --set method.entropy_weight=0
    """
    from goodformer.cli import cards
    from goodformer.registry import unknown

    found = [
        {**cards.card(kind, entry, build), "in_words": in_words(build)}
        for kind, entry, build in _entries()
        if entry == name
    ]
    if not found:
        raise unknown("method or model", name, {entry for _, entry, _ in _entries()})
    if as_json:
        output.document(found)
        return
    for card in found:
        cards.show(card)


def in_words(build: type) -> str:
    """What a method or model does and when to choose it; empty where nobody has said it of this very class."""
    return str(vars(build).get("in_words", ""))


def _entries() -> list[tuple[str, str, Any]]:
    """Kind, name and class of everything registered."""
    from goodformer.methods import METHODS
    from goodformer.models import MODELS

    return [(registry.kind, name, build) for registry in (METHODS, MODELS) for name, build in registry.entries.items()]
