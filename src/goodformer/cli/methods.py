"""``goodformer methods``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goodformer.cli import options, output

app = typer.Typer(name="methods", invoke_without_command=True)

IN_WORDS = {
    (
        "method",
        "erm",
    ): "Learns from all training graphs alike, with no guard against a shift; choose it as the baseline, "
    "or where new data will be like the old.",
    ("method", "irm"): "Learns one classifier that is the best one in every environment; choose it where environments "
    "(labs, years) are known.",
    (
        "method",
        "vrex",
    ): "Learns with the same loss in all environments; choose it where environments are known and none "
    "may be served worse.",
    ("method", "dir"): "Keeps the edges that decide and trains against remainders of other graphs; choose it to see "
    "deciding edges without known environments.",
    ("method", "grea"): "Keeps the nodes that decide and adds other graphs' remainders as disturbance; choose it where "
    "training graphs are few and nodes decide.",
    ("method", "gil"): "Keeps the edges that decide and guesses environments from the rest; choose it where data come "
    "from several sources that nobody wrote down.",
    ("method", "gsat"): "Lets every edge pay for what it tells, so that few speak; choose it for short explanations "
    "without known environments.",
    ("method", "ciga"): "Keeps a part that is alike within a class and unlike between classes; choose it where a class "
    "has one typical part.",
    (
        "method",
        "imold",
    ): "Separates properties of atoms rather than the atoms themselves; choose it for molecules whose "
    "deciding part cannot be cut out.",
    ("method", "cal-plus"): "Separates the deciding part by attention and swaps shortcuts between graphs; choose it "
    "where a shortcut in the data is suspected.",
    (
        "method",
        "goodformer",
    ): "Finds the deciding part by attention, predicts from it alone and empties the rest of all "
    "it tells; the default, where new data will differ and reasons matter.",
    ("model", "gin"): "Each node sums up its neighbours, again and again; the fastest, choose it first.",
    (
        "model",
        "gin-vn",
    ): "gin with one more node joined to all others; choose it where distant parts of a graph matter.",
    ("model", "graphormer"): "All nodes attend to each other, the nearer the more if that helps; choose it for small "
    "graphs.",
    ("model", "gps"): "Sums up neighbours and attends to all nodes, side by side; choose it for graphs of up to some "
    "hundred nodes.",
    ("model", "exphormer"): "As gps, but attends to few nodes only; choose it for large graphs.",
    ("model", "goodformer"): "Splits a graph into a deciding part and the rest by attention; goes with the method of "
    "this name, erm can use it, too.",
}
"""What each method and model does and when to choose it, for people who want no formula."""


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
        {"kind": kind, "name": name, "in_words": in_words(kind, name), "about": cards.sentence(build)}
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
        {**cards.card(kind, entry, build), "in_words": in_words(kind, entry)}
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


def in_words(kind: str, name: str) -> str:
    """What a method or model does and when to choose it; empty where nobody has said it yet."""
    return IN_WORDS.get((kind, name), "")


def _entries() -> list[tuple[str, str, Any]]:
    """Kind, name and class of everything registered."""
    from goodformer.methods import METHODS
    from goodformer.models import MODELS

    return [(registry.kind, name, build) for registry in (METHODS, MODELS) for name, build in registry.entries.items()]
