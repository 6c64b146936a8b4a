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

    rows = [{"kind": kind, "name": name, "about": cards.sentence(build)} for kind, name, build in _entries()]
    if as_json:
        output.document(rows)
        return
    output.table(["kind", "name", "what it is"], [list(row.values()) for row in rows])
    typer.echo("settings of one: goodformer methods show NAME")


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A method or model; one name may be both.")], as_json: options.Json = False
) -> None:
    """Show the settings of a method or model: type, range, default and what each does.

    [bold]Examples[/bold]

      goodformer methods show goodformer
      goodformer train good-motif --set model.dim=64 --set method.entropy_weight=0
    """
    from goodformer.cli import cards
    from goodformer.registry import unknown

    found = [cards.card(kind, entry, build) for kind, entry, build in _entries() if entry == name]
    if not found:
        raise unknown("method or model", name, {entry for _, entry, _ in _entries()})
    if as_json:
        output.document(found)
        return
    for card in found:
        cards.show(card)


def _entries() -> list[tuple[str, str, Any]]:
    """Kind, name and class of everything registered."""
    from goodformer.methods import METHODS
    from goodformer.models import MODELS

    return [(registry.kind, name, build) for registry in (METHODS, MODELS) for name, build in registry.entries.items()]
