"""``goodformer datasets``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output

LONG = 32
"""Letters of a domain's name that a table shows."""

app = typer.Typer(name="datasets", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: options.Json = False) -> None:
    """Data sets: what is in them, how they are split and what shifts.

    [bold]Examples[/bold]

      goodformer datasets
      goodformer datasets show good-motif --set domain=size
      goodformer datasets show sp-motif --set bias=0.9 --picture card.png
    """
    if context.invoked_subcommand is None:
        show_all(as_json)


@app.command("list")
def show_all(as_json: options.Json = False) -> None:
    """List the data sets.

    [bold]Example[/bold]

      goodformer datasets list --json
    """
    from goodformer.data import DATASETS
    from goodformer.data.cards import glance

    rows = [glance(name, build) for name, build in DATASETS.entries.items()]
    if as_json:
        output.document(rows)
        return
    output.table(["name", "what it is", "domains", "task, metric"], [list(row.values()) for row in rows])
    typer.echo("the card of one: goodformer datasets show NAME")


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A data set.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="key=value", help="A setting of the data set; repeatable.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw sample graphs and the shift into this file (png, pdf, svg)."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the card of a data set: what it is, its settings, its splits, what shifts, and a picture of that.

    [bold]Examples[/bold]

      goodformer datasets show good-motif
      goodformer datasets show good-motif --set domain=size --picture card.png
      goodformer datasets show sp-motif --set bias=0.9 --json
      goodformer datasets show table --set path=my.csv --set target=active
    """
    with output.working():
        from goodformer.cli import cards
        from goodformer.data import DATASETS
        from goodformer.data.cards import sections

        card = cards.card("data set", name, DATASETS[name])
        card["sections"] = sections(DATASETS[name])
        card |= _facts(name, _settings(overrides or []), picture)
    if as_json:
        output.document(card)
        return
    _show(card)


def _facts(name: str, settings: dict[str, Any], picture: Path | None) -> dict[str, Any]:
    """What is counted about a data set, and where its picture is."""
    from goodformer.data import cards, load_benchmark
    from goodformer.data.acquire import NotAtHand
    from goodformer.draw import card as card_picture

    if name in cards.HINTS and _lacking(name, settings):
        return _hint(name, settings, picture)
    if picture is not None:
        card_picture.check_format(picture)
    try:
        bench = load_benchmark(name, **settings)
    except NotAtHand as error:
        if picture is not None:
            raise
        return {"hint": f"Splits and statistics cannot be shown: {error}"}
    drawn = None if picture is None else str(card_picture.draw_card(bench, picture))
    return {**cards.facts(bench), "picture": drawn}


def _lacking(name: str, settings: dict[str, Any]) -> list[str]:
    """Settings a data set cannot do without that are not given."""
    from goodformer.data import DATASETS

    fields = DATASETS.settings(name).model_fields
    return [key for key, one in fields.items() if one.is_required() and key not in settings]


def _hint(name: str, settings: dict[str, Any], picture: Path | None) -> dict[str, Any]:
    """How to give a data set of the user's own, instead of what is counted about it."""
    from goodformer.data import cards
    from goodformer.registry import InputError

    if settings or picture is not None:
        raise InputError(f"data set {name} lacks its {_lacking(name, settings)[0]}; it is {cards.HINTS[name]}.")
    return {"hint": cards.HINTS[name]}


def _settings(overrides: list[str]) -> dict[str, Any]:
    """Settings of a data set from lines ``key=value``."""
    from goodformer.config.run import parse_assignment

    return {".".join(path).removeprefix("dataset."): value for path, value in map(parse_assignment, overrides)}


# Printing -------------------------------------------------------------------------------------------------------------


def _show(card: dict[str, Any]) -> None:
    """Print a card."""
    from goodformer.cli import cards

    typer.echo(f"{card['kind']} {card['name']}\n\n{card['about'].partition(chr(10))[0]}\n")
    for heading, text in card["sections"].items():
        typer.echo(f"{heading}\n{_block(text)}")
    typer.echo()
    cards.show_settings(card["settings"])
    if "hint" in card:
        typer.echo(card["hint"])
        return
    _show_splits(card)
    _show_few(card["by_domain"]) if card["by_domain"] is not None else _show_many(card["over_domains"])
    if card["notes"]:
        typer.echo(f"How it differs from the published data\n{_block(card['notes'])}")
    if card["picture"]:
        typer.echo(f"picture: {card['picture']}")


def _block(text: str) -> str:
    """A paragraph that fits a terminal."""
    return textwrap.indent(textwrap.fill(text.replace("`", ""), 96), "  ")


def _show_splits(card: dict[str, Any]) -> None:
    """One row a split: sizes, balance of the classes, number of domains and whether training has seen them."""
    rows = [
        [
            split,
            row["graphs"],
            *(row.get(key) for key in ("mean_nodes", "max_nodes", "mean_edges")),
            _percents(row.get("class_balance", [])),
            _number(row.get("domains")),
            _percents([card["seen_in_training"][split]]),
        ]
        for split, row in card["statistics"].items()
    ]
    columns = ["split", "graphs", "nodes", "max", "edges", "balance, %", "domains", "seen, %"]
    note = "nodes, edges: means; balance: share of each class, or of 1 in each target; seen: domain occurs in training"
    output.table(columns, rows, title=_asked(card), note=note)


def _asked(card: dict[str, Any]) -> str:
    """What the settings make of the data set."""
    task = card["task"]
    outputs = f"{task['outputs']} {'classes' if task['kind'] == 'multiclass' else 'binary target(s)'}"
    return (
        f"splits under these settings: domain {card['domain']}, shift {card['shift']}; {outputs}, "
        f"{task['metric']}; {card['num_envs']} training environment(s)"
    )


def _number(domains: dict[str, int] | None) -> int:
    """How many domains the statistics of a split tell of."""
    return (domains or {}).get("number", len(domains or {}))


def _show_few(rows: list[dict[str, Any]]) -> None:
    """One row a domain of a split."""
    shown = [[row["split"], row["domain"], row["graphs"], _percents(row["class_balance"])] for row in rows]
    output.table(["split", "domain", "graphs", "balance, %"], shown, title="class balance by domain")


def _show_many(splits: dict[str, dict[str, Any]]) -> None:
    """One row a split: how large its domains are, and how the balance of classes varies over them."""
    from goodformer.data.cards import COUNTED

    rows = [
        [
            split,
            row["domains"],
            _end(row.get("largest")),
            _end(row.get("smallest")),
            row.get("counted", 0),
            _points(row),
        ]
        for split, row in splits.items()
    ]
    columns = ["split", "domains", "largest", "smallest", "counted", "quartiles, %"]
    note = f"quartiles of each balance over the domains counted, those of at least {COUNTED} graphs"
    output.table(columns, rows, title="class balance over domains", note=note)


def _end(one: dict[str, Any] | None) -> str | None:
    """The name of the largest or smallest domain, and how many graphs it has."""
    if one is None:
        return None
    name = one["domain"]
    return f"{name if len(name) <= LONG else name[: LONG - 1] + '…'}: {one['graphs']}"


def _points(row: dict[str, Any]) -> str | None:
    """The quartiles of each class or target over the domains of a split."""
    return "; ".join(_percents(points) for points in row.get("balance_quartiles", [])) or None


def _percents(shares: list[float | None]) -> str:
    """Shares as percentages on one line."""
    return " / ".join("-" if share is None else f"{100 * share:.3g}" for share in shares)
