"""``goodformer datasets``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError
from goodformer.spec import METRIC_NAMES, REGRESSION, SPLIT_NAMES

LONG = 32
"""Characters of a domain's name that a table shows."""

app = typer.Typer(name="datasets", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: options.Json = False) -> None:
    """List data sets, and show what each contains, how it is split and what shifts.

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
    from goodformer.data.listing import glance

    rows = [glance(name) for name in DATASETS]
    if as_json:
        output.document(rows)
        return
    output.table(["name", "what it is", "domains", "task, metric"], [list(row.values()) for row in rows])
    typer.echo("Show one in detail: goodformer datasets show NAME")


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
    """Show the card of a data set: description, settings, splits, and what shifts.

    [bold]Examples[/bold]

      goodformer datasets show good-motif
      goodformer datasets show good-motif --set domain=size --picture card.png
      goodformer datasets show sp-motif --set bias=0.9 --json
      goodformer datasets show table --set path=my.csv --set target=active
    """
    with output.working():
        from goodformer.cli import cards
        from goodformer.data import DATASETS
        from goodformer.data.listing import sections

        described = DATASETS.describe(name)
        card = cards.card(DATASETS.kind, name, described)
        card["sections"] = sections(described.about)
        card |= _facts(name, overrides or [], picture)
    if as_json:
        output.document(card)
        return
    typer.echo(f"{card['kind']} {name}\n\n{described.about.partition(chr(10))[0]}\n")
    for heading, text in card["sections"].items():
        typer.echo(f"{heading}\n{_block(text)}")
    typer.echo()
    cards.show_settings(described)
    if "hint" in card:
        typer.echo(card["hint"])
        return
    _show_splits(card)
    measured = card["task"]["kind"] == REGRESSION
    few = card["by_domain"] is not None
    _show_few(card["by_domain"], measured) if few else _show_many(card["over_domains"], measured)
    if card["notes"]:
        typer.echo(f"How it differs from the published data\n{_block(card['notes'])}")
    if card["picture"]:
        typer.echo(f"picture: {card['picture']}")


def _facts(name: str, overrides: list[str], picture: Path | None) -> dict[str, Any]:
    """Load a data set and count its splits, or return a hint if its files are missing; draw the picture."""
    from goodformer.config.run import parse_assignment
    from goodformer.data import DATASETS, load_benchmark
    from goodformer.data.acquire import DataNotFound
    from goodformer.data.listing import HINTS

    lines = map(parse_assignment, overrides)
    settings = {".".join(path).removeprefix("dataset."): value for path, value in lines}
    missing = [key for key, one in DATASETS.settings(name).items() if one.required and key not in settings]
    if missing and name in HINTS:
        if settings or picture is not None:
            raise InputError(f"data set {name} needs the setting {missing[0]}; {HINTS[name]}.")
        return {"hint": HINTS[name]}
    from goodformer.data import cards
    from goodformer.draw import canvas
    from goodformer.draw import card as card_picture

    if picture is not None:
        canvas.check_format(picture)
    try:
        bench = load_benchmark(name, **settings)
    except DataNotFound as error:
        if picture is not None:
            raise
        return {"hint": f"Splits and statistics cannot be shown: {error}"}
    drawn = None if picture is None else str(card_picture.draw_card(bench, picture))
    return {**cards.facts(bench), "picture": drawn}


# Printing -------------------------------------------------------------------------------------------------------------


def _block(text: str) -> str:
    """Wrap and indent a paragraph."""
    return textwrap.indent(textwrap.fill(text.replace("`", ""), 96), "  ")


def _show_splits(card: dict[str, Any]) -> None:
    """Print one row per split: sizes, class balance, number of domains and how many of its graphs are in-domain."""
    rows, task = [], card["task"]
    measured = task["kind"] == REGRESSION
    shares = _numbers if measured else _percents
    for split, row in card["statistics"].items():
        domains = row.get("domains") or {}
        found = (row.get(key) for key in ("mean_nodes", "max_nodes", "mean_edges"))
        sizes = (None if size is None else round(size) for size in found)
        balance, seen = shares(row.get("class_balance", [])), _percents([card["seen_in_training"][split]])
        rows.append([SPLIT_NAMES[split], row["graphs"], *sizes, balance, domains.get("number", len(domains)), seen])
    columns = [
        "split",
        "graphs",
        "nodes",
        "max",
        "edges",
        "mean value" if measured else "balance %",
        "domains",
        "seen %",
    ]
    kinds = {"multiclass": "classes", "binary": "binary target(s)", REGRESSION: "measured target(s)"}
    outputs = f"{task['outputs']} {kinds[task['kind']]}"
    title = (
        f"splits under these settings: domain {card['domain']}, shift {card['shift']}; {outputs}, "
        f"{METRIC_NAMES[task['metric']]}; {card['num_envs']} training environment(s)"
    )
    note = (
        "nodes, edges: means; balance: share of each class, or of 1 in each target; "
        "seen: graphs whose domain occurs in training"
    )
    output.table(columns, rows, title=title, note=note)


def _show_few(rows: list[dict[str, Any]], measured: bool = False) -> None:
    """Print one row per domain of each split."""
    shares = _numbers if measured else _percents
    shown = [[SPLIT_NAMES[row["split"]], row["domain"], row["graphs"], shares(row["class_balance"])] for row in rows]
    what = ("mean value", "mean value by domain") if measured else ("balance %", "class balance by domain")
    output.table(["split", "domain", "graphs", what[0]], shown, title=what[1])


def _show_many(splits: dict[str, dict[str, Any]], measured: bool = False) -> None:
    """Print one row per split: the sizes of its domains, and how the class balance varies over them."""
    from goodformer.data.cards import COUNTED

    def end(one: dict[str, Any] | None) -> str | None:
        """Return the name of a domain, shortened, and its number of graphs."""
        name = one["domain"] if one else ""
        return f"{name if len(name) <= LONG else name[: LONG - 1] + '…'}: {one['graphs']}" if one else None

    rows = []
    for split, row in splits.items():
        shares = _numbers if measured else _percents
        quartiles = "; ".join(shares(points) for points in row.get("balance_quartiles", [])) or None
        ends = (end(row.get("largest")), end(row.get("smallest")))
        rows.append([SPLIT_NAMES[split], row["domains"], *ends, row.get("counted", 0), quartiles])
    columns = ["split", "domains", "largest", "smallest", "counted", "quartiles" if measured else "quartiles %"]
    what = "mean value" if measured else "balance"
    note = f"quartiles: of each {what} over the counted domains, those with at least {COUNTED} graphs"
    output.table(columns, rows, title=f"{what if measured else 'class balance'} over domains", note=note)


def _percents(shares: list[float | None]) -> str:
    """Return shares as percentages on one line."""
    return " / ".join("-" if share is None else f"{100 * share:.3g}" for share in shares)


def _numbers(values: list[float | None]) -> str:
    """Return measured values on one line."""
    return " / ".join("-" if value is None else f"{value:.3g}" for value in values)
