"""``goodformer reproduce``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from goodformer.cli import options, output
from goodformer.cli.compare import Format, FormatOption, chosen_format, print_or_save, recorded, watching

if TYPE_CHECKING:
    from goodformer.report.artefacts import Artefact, Block


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[ARTEFACT]", help="A table or figure; all are listed where none is named.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help=f"Only this budget: {options.BUDGETS}.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; by default the artefact's own.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Only the columns of these data sets, e.g. good-motif.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="ROW,ROW", help="Only these rows, named as in goodformer compare.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Train what has no record.")] = False,
    times_only: Annotated[
        bool, typer.Option("--times-only", help="Measure times of predicting that have no record; train nothing.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Runs trained at a time, each in its own process.")] = 2,
    threads: options.Threads = 1,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Records, a file or folder; by default results.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the records of finished runs to this file.")
    ] = None,
    form: FormatOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write the tables here, or the figure (png, svg, pdf)."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Write all artefacts, or the short table, between the markers of this page."),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Show a table or figure of the paper from records, ours beside the paper's, and the commands for what is not run.

    [bold]Examples[/bold]

      goodformer reproduce
      goodformer reproduce table-main --budget compare
      goodformer reproduce table-ablation --dataset good-motif --seeds 1 --run --export results/ablation.jsonl
      goodformer reproduce figure-sensitivity -o sensitivity.png
      goodformer reproduce table-precision -o precision.tex

    A record counts where its settings are those the run would be trained with now. Training can be stopped and given
    again at any time; the exit code is 1 where a run failed.
    """
    sources = recorded(records)
    if page:
        _write(sources, page)
        return
    if name is None:
        _list(sources, runs, seeds, as_json or form is Format.json)
        _tell(sources)
        return
    chosen = {"--budget": budget, "--seeds": seeds, "--dataset": dataset, "--methods": methods}
    part = _part(name, sources, runs, chosen)
    written = chosen_format(form, None if part.one.drawn else out)
    failures = _train(part, jobs, threads, quiet, export) if run and not times_only else {}
    measured = _measure(part, threads) if run or times_only else []
    report = _report(part, export, measured)
    if part.one.drawn and out:
        _draw(part, report, out)
    _deliver(report, written, None if part.one.drawn else out, as_json)
    _tell(sources)
    _end(failures)


class Part(NamedTuple):
    """What of an artefact is asked for, where its records and runs lie, and the options that chose it."""

    one: Artefact
    blocks: list[Block]
    sources: list[Path]
    runs: Path
    words: list[str]


def _part(name: str, sources: list[Path], runs: Path, chosen: Mapping[str, Any]) -> Part:
    """An artefact, or what options chose of it."""
    with output.working():
        from goodformer.report import artefacts

        one = artefacts.artefact(name)
        blocks = one.blocks(chosen["--budget"], chosen["--seeds"])
        kept = artefacts.narrowed(blocks, chosen["--dataset"], chosen["--methods"])
    words = [str(word) for option, value in chosen.items() if value is not None for word in (option, value)]
    return Part(one, kept, sources, runs, words)


def _train(part: Part, jobs: int, threads: int, quiet: bool, export: Path | None) -> dict[str, str]:
    """Train the gaps: why runs failed, by id; what is finished is exported even if the rest is stopped."""
    with output.working():
        from goodformer.report import reproduce

        known = reproduce.known(part.blocks, part.sources, part.runs)
        done = {} if part.one.folders else known  # a picture needs run folders, not records
        try:
            with watching(quiet) as watch:
                return reproduce.train(part.blocks, done, part.runs, jobs, threads, watch)
        except KeyboardInterrupt:
            if export:
                reproduce.export(part.blocks, part.runs, export)
            raise


def _measure(part: Part, threads: int) -> list[dict[str, Any]]:
    """Records of how long predicting takes, where that is asked for and not known."""
    with output.working():
        from goodformer.cli.locate import limit_threads
        from goodformer.report import reproduce

        limit_threads(threads)
        known = reproduce.known(part.blocks, part.sources, part.runs)
        return reproduce.measure(part.blocks, known, part.runs)


def _report(part: Part, export: Path | None, measured: list[dict[str, Any]]) -> dict[str, Any]:
    """The artefact from all that is known of it by now; finished runs are exported first."""
    with output.working():
        from goodformer.report import reproduce

        if export:
            reproduce.export(part.blocks, part.runs, export, measured)
        known = reproduce.timed(reproduce.known(part.blocks, part.sources, part.runs), measured)
        return reproduce.report(part.one, part.blocks, known, part.words, part.runs)


def _write(sources: list[Path], page: Path) -> None:
    """Write all artefacts, or the short table, into a page."""
    with output.working():
        from goodformer.report import reproduce

        changed = reproduce.write(sources or [options.RESULTS], page)
    typer.echo(f"{page} {'rewritten' if changed else 'is up to date'}", err=True)


def _end(failures: dict[str, str]) -> None:
    """Say which runs failed, and stop with exit code 1 where some did."""
    for identity, reason in failures.items():
        typer.echo(f"run {identity} failed: {reason}", err=True)
    if failures:
        raise typer.Exit(1)


def _draw(part: Part, report: dict[str, Any], out: Path) -> None:
    """Draw a figure."""
    from goodformer.draw import artefacts as reproduce_picture
    from goodformer.draw.subgraphs import save
    from goodformer.report import reproduce

    with output.working():
        if part.one.folders:
            figure = reproduce_picture.subgraphs(reproduce.drawn(part.blocks, part.runs))
        else:
            figure = reproduce_picture.sensitivity(report)
        typer.echo(f"{save(figure, out)} drawn", err=True)


def _tell(sources: list[Path]) -> None:
    """Say why nothing is recorded where there is no folder to look into."""
    if not sources:
        typer.echo(f"there is no folder {options.RESULTS} here; --records names a file or folder of records.", err=True)


def _list(sources: list[Path], runs: Path, seeds: int | None, as_json: bool) -> None:
    """All artefacts with one line each and how much of them is there."""
    with output.working():
        from goodformer.report import artefacts, reproduce

        known = reproduce.known([], sources)
        rows = []
        for one in artefacts.ARTEFACTS.values():
            there = reproduce.coverage(one, known, seeds, runs)
            told = ", ".join(f"{budget} {reproduce.in_words(part)}" for budget, part in there.items())
            rows.append([one.name, one.place, one.about, told])
    if as_json:
        output.document([dict(zip(("name", "place", "about", "runs"), row, strict=True)) for row in rows])
    else:
        heads, note = ["artefact", "paper", "what", "there"], "Show one by goodformer reproduce ARTEFACT."
        made = {Format.text: lambda: output.table_text(heads, rows, note=note)}
        print_or_save(made, Format.text, None, lambda: output.table(heads, rows, note=note))


def _deliver(report: dict[str, Any], form: Format, out: Path | None, as_json: bool) -> None:
    """Print the tables; with a file, write them there and print them for people."""
    from goodformer.report import reproduce

    made: dict[Format, Callable[[], str]] = {
        Format.text: lambda: _text(report),
        Format.markdown: lambda: reproduce.markdown(report),
        Format.latex: lambda: reproduce.latex(report),
        Format.json: lambda: output.document_text(report),
    }
    print_or_save(made, form, out, lambda: _show(report), as_json)


def _text(report: dict[str, Any]) -> str:
    """All blocks as text, no line folded."""
    from goodformer.report import reproduce

    parts = []
    for block in report["blocks"]:
        sheet = reproduce.sheet(block)
        parts.append(output.table_text(*sheet.grid(), sheet.title, sheet.note))
        parts += ["\n".join(["Not run:", *reproduce.missing(block)])] if block["gaps"] else []
    return "\n\n".join([*parts, *reproduce.rest(report)])


def _show(report: dict[str, Any]) -> None:
    """All blocks on a terminal."""
    from goodformer.report import reproduce

    for block in report["blocks"]:
        sheet = reproduce.sheet(block)
        output.table(*sheet.grid(), sheet.title, sheet.note, parted=True)
        typer.echo("\n".join(["", *(["Not run:", *reproduce.missing(block), ""] if block["gaps"] else [])]))
    typer.echo("\n".join(reproduce.rest(report)))
