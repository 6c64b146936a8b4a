"""``goodformer datasets``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goodformer.cli import options, output

app = typer.Typer(name="datasets", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: options.Json = False) -> None:
    """Data sets: what is in them, how they are split and what shifts.

    [bold]Examples[/bold]

      goodformer datasets
      goodformer datasets show good-motif --set domain=size
      goodformer datasets show sp-motif --set bias=0.9 --json
    """
    if context.invoked_subcommand is None:
        show_all(as_json)


@app.command("list")
def show_all(as_json: options.Json = False) -> None:
    """List the data sets.

    [bold]Example[/bold]

      goodformer datasets list --json
    """
    from goodformer.cli import cards
    from goodformer.data import DATASETS

    rows = [{"name": name, "about": cards.sentence(build)} for name, build in DATASETS.entries.items()]
    if as_json:
        output.document(rows)
        return
    output.table(["name", "what it is"], [list(row.values()) for row in rows])
    typer.echo("statistics of one: goodformer datasets show NAME")


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A data set.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="key=value", help="A setting of the data set; repeatable.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show a data set: what it is, its settings, and the statistics of its five splits.

    [bold]Examples[/bold]

      goodformer datasets show good-motif
      goodformer datasets show good-motif --set domain=size --set shift=concept
    """
    with output.working():
        from goodformer.cli import cards
        from goodformer.data import DATASETS, load_benchmark

        card = cards.card("data set", name, DATASETS[name])
        card["statistics"] = load_benchmark(name, **_settings(overrides or [])).describe()
    if as_json:
        output.document(card)
        return
    cards.show(card)
    _show_statistics(card["statistics"])


def _settings(overrides: list[str]) -> dict[str, Any]:
    """Settings of a data set from lines ``key=value``."""
    from goodformer.engine.config import parse_assignment

    return {".".join(path).removeprefix("dataset."): value for path, value in map(parse_assignment, overrides)}


def _show_statistics(splits: dict[str, dict[str, Any]]) -> None:
    """One row a split: sizes, balance of the classes, and what shifts."""
    keys = list(dict.fromkeys(key for row in splits.values() for key in row))
    rows = [[split, *(_brief(row.get(key)) for key in keys)] for split, row in splits.items()]
    output.table(["split", *(key.replace("_", " ") for key in keys)], rows, title="splits")


def _brief(value: Any) -> Any:
    """A list or mapping on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {count}" for key, count in value.items())
    return ", ".join(output.cell(one) for one in value) if isinstance(value, list) else value
