"""``goodformer reproduce``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.cli.compare import Format, print_or_save, watching

if TYPE_CHECKING:
    from goodformer.experiments.artefacts import Artefact, Block
    from goodformer.experiments.tables import Record

RESULTS = Path("results")


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[ARTEFACT]", help="A table or figure; all are listed where none is named.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Only this budget: full or compare.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; by default the artefact's own.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Only the columns of these data sets, e.g. good-motif.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="ROW,ROW", help="Only these rows, named as in goodformer compare.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Train what has no record.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Runs trained at a time, each in its own process.")] = 2,
    threads: options.Threads = 1,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Records, a file or folder; by default results.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the records of finished runs to this file.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How tables are written.")] = Format.text,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write the tables here, or the figure (png, svg, pdf)."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Write all artefacts, or the short table, between the markers of this page."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Show a table or figure of the paper from records, ours beside the paper's, and the commands for what is not run.

    [bold]Examples[/bold]

      goodformer reproduce
      goodformer reproduce table-main --budget compare
      goodformer reproduce table-ablation --dataset good-motif --seeds 1 --run --export results/ablation.jsonl
      goodformer reproduce figure-sensitivity -o sensitivity.png
      goodformer reproduce table-precision --format latex -o precision.tex

    A record counts where its settings are those the run would be trained with now. Training can be stopped and given
    again at any time; the exit code is 1 where a run failed.
    """
    with output.working():
        from goodformer.experiments import artefacts, reproduce

        sources = records or [path for path in (RESULTS,) if path.is_dir()]
        if page:
            changed = reproduce.write(sources[0] if sources else RESULTS, page)
            typer.echo(f"{page} {'rewritten' if changed else 'is up to date'}", err=True)
    if name is None:
        _list(sources, seeds, form)
        _tell(sources)
        return
    with output.working():
        one = artefacts.artefact(name)
        blocks = artefacts.narrowed(one.blocks(budget, seeds), dataset, methods)
        known = reproduce.known(blocks, sources, runs)
        failures: dict[str, str] = {}
        if run:
            weights = {} if one.name == "figure-subgraphs" else known  # a picture needs run folders, not records
            failures = _train(blocks, weights, runs, jobs, threads, quiet, export)
        measured = _measured(blocks, known, threads) if run else []
        if export:
            reproduce.export(blocks, runs, export, measured)
        known = reproduce.timed(reproduce.known(blocks, sources, runs), measured)
    chosen = {"--budget": budget, "--seeds": seeds, "--dataset": dataset, "--methods": methods}
    words = [str(word) for option, value in chosen.items() if value is not None for word in (option, value)]
    report = reproduce.report(one, blocks, known, words)
    if one.drawn and out:
        _draw(one, blocks, report, runs, out)
        out = None
    _deliver(report, form, out)
    _tell(sources)
    for identity, reason in failures.items():
        typer.echo(f"run {identity} failed: {reason}", err=True)
    if failures:
        raise typer.Exit(1)


def _train(
    blocks: list[Block],
    known: dict[str, Record],
    runs: Path,
    jobs: int,
    threads: int,
    quiet: bool,
    export: Path | None,
) -> dict[str, str]:
    """Train the gaps; what is finished is exported even if the rest is stopped."""
    from goodformer.experiments import reproduce

    try:
        with watching(quiet) as watch:
            return reproduce.train(blocks, known, runs, jobs, threads, watch)
    except KeyboardInterrupt:
        if export:
            reproduce.export(blocks, runs, export)
        raise


def _measured(blocks: list[Block], known: dict[str, Record], threads: int) -> list[dict[str, Any]]:
    """Records of how long predicting takes, where a column asks for it."""
    from goodformer.cli.locate import limit_threads
    from goodformer.experiments import reproduce

    limit_threads(threads)
    return reproduce.measure(blocks, known)


def _draw(one: Artefact, blocks: list[Block], report: dict[str, Any], runs: Path, out: Path) -> None:
    """Draw a figure."""
    from goodformer.draw.subgraphs import save
    from goodformer.experiments import reproduce, reproduce_picture

    with output.working():
        if one.name == "figure-sensitivity":
            figure = reproduce_picture.sensitivity(report)
        else:
            figure = reproduce_picture.subgraphs(reproduce.drawn(blocks, runs))
        typer.echo(f"{save(figure, out)} drawn", err=True)


def _tell(sources: list[Path]) -> None:
    """Say why nothing is recorded where there is no folder to look into."""
    if not sources:
        typer.echo(f"there is no folder {RESULTS} here; --records names a file or folder of records.", err=True)


def _list(sources: list[Path], seeds: int | None, form: Format) -> None:
    """All artefacts with one line each and how much of them is there."""
    from goodformer.experiments import artefacts, reproduce

    known = reproduce.known([], sources)
    rows = []
    for one in artefacts.ARTEFACTS.values():
        there = reproduce.coverage(one, known, seeds)
        told = ", ".join(f"{budget} {done} of {wanted}" for budget, (done, wanted) in there.items())
        rows.append([one.name, one.place, one.about, told])
    if form is Format.json:
        output.document([dict(zip(("name", "place", "about", "runs"), row, strict=True)) for row in rows])
    else:
        heads, note = ["artefact", "paper", "what", "runs recorded"], "Show one by goodformer reproduce ARTEFACT."
        typer.echo(output.table_text(heads, rows, note=note))


def _deliver(report: dict[str, Any], form: Format, out: Path | None) -> None:
    """Print the tables; with a file, write them there and print them for people."""
    from goodformer.experiments import reproduce

    made: dict[Format, Callable[[], str]] = {
        Format.text: lambda: _text(report),
        Format.markdown: lambda: reproduce.markdown(report),
        Format.latex: lambda: reproduce.latex(report),
        Format.json: lambda: output.document_text(report),
    }
    print_or_save(made, form, out, lambda: _show(report))


def _text(report: dict[str, Any]) -> str:
    """All blocks as text, no line folded."""
    from goodformer.experiments import reproduce

    parts = []
    for block in report["blocks"]:
        sheet = reproduce.sheet(block)
        parts.append(output.table_text(*sheet.grid(), sheet.title, sheet.note))
        parts += ["\n".join(["Not run:", *reproduce.missing(block)])] if block["gaps"] else []
    return "\n\n".join([*parts, *reproduce.rest(report)])


def _show(report: dict[str, Any]) -> None:
    """All blocks on a terminal."""
    from goodformer.experiments import reproduce

    for block in report["blocks"]:
        sheet = reproduce.sheet(block)
        output.table(*sheet.grid(), sheet.title, sheet.note)
        typer.echo("\n".join(["", *(["Not run:", *reproduce.missing(block), ""] if block["gaps"] else [])]))
    typer.echo("\n".join(reproduce.rest(report)))
