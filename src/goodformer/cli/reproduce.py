"""``goodformer reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="ARTEFACT", help="A table or figure; default: list all.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help=f"Only this budget: {options.BUDGETS}.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; default: that of the artefact.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Only these data sets, e.g. good-motif or good-motif/basis.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="ROW,ROW", help="Only these rows, named as in goodformer compare.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Train the runs that have no record.")] = False,
    times_only: Annotated[
        bool, typer.Option("--times-only", help="Measure missing inference times; train nothing.")
    ] = False,
    jobs: options.Jobs = None,
    threads: options.Threads = 1,
    executor: options.Executor = "local",
    address: options.Address = None,
    runs: options.Runs = Path("runs"),
    records: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Records, a file or folder; default: results.")
    ] = None,
    export: options.Export = None,
    form: options.FormatOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write the tables here, or the figure (png, svg, pdf)."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Write the tables between the markers of docs/reproduce.md or README.md."),
    ] = None,
    verdicts: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Write what reproduces and what does not between the markers of this page."),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Show a table or figure of the paper from records, beside the paper's numbers, with commands for missing runs.

    [bold]Examples[/bold]

      goodformer reproduce
      goodformer reproduce table-main --budget compare
      goodformer reproduce table-ablation --dataset good-motif --seeds 1 --run --export results/ablation.jsonl
      goodformer reproduce figure-sensitivity -o sensitivity.png
      goodformer reproduce table-precision -o precision.tex
      goodformer reproduce --verdicts docs/verdicts.md

    A record counts only if its settings equal those that the run would have now. Training can be stopped and
    continued at any time; the exit code is 1 if a run failed.
    """
    sources = options.record_sources(records)
    if page or verdicts:
        _write_pages(sources or [options.RESULTS], page, verdicts)
        return
    if name is None:
        _list(sources, runs, seeds, as_json or form is output.Format.json)
        return
    with output.working():
        from goodformer.comparing import Work
        from goodformer.report import reproduce as shown
        from goodformer.report.artefacts import artefact
        from goodformer.reproducing import reproduce

        drawn = artefact(name).drawn
        written = output.chosen_format(form, None if drawn else out)
        with output.watching(quiet or not run) as watch:
            done = reproduce(
                name,
                budget=budget,
                seeds=seeds,
                dataset=dataset,
                methods=methods,
                runs=runs,
                records=sources,
                train=run and not times_only,
                times=run or times_only,
                work=Work(executor, jobs, threads, address, watch),
                export=export,
            )
        if drawn and out:
            typer.echo(f"{done.draw(out)} drawn", err=True)
    made = {
        output.Format.text: lambda: shown.text(done.report, output.width()),
        output.Format.markdown: lambda: shown.markdown(done.report),
        output.Format.latex: lambda: shown.latex(done.report),
        output.Format.json: lambda: output.document_text(done.report),
    }
    output.print_or_save(made, written, None if drawn else out, as_json)
    _warn(sources)
    for identity, reason in done.failures.items():
        typer.echo(f"run {identity} failed: {reason}", err=True)
    if done.failures:
        raise typer.Exit(1)


def _write_pages(sources: list[Path], page: Path | None, verdicts: Path | None) -> None:
    """Write the tables, the verdicts or both into their pages."""
    from goodformer.report import reproduce, verdict_page

    if page:
        output.page(page, reproduce.write(sources, page))
    if verdicts:
        output.page(verdicts, verdict_page.write(sources, verdicts))


def _list(sources: list[Path], runs: Path, seeds: int | None, as_json: bool) -> None:
    """Print one line per artefact, with the number of recorded runs."""
    from goodformer.report import reproduce
    from goodformer.report.table import Table

    rows = reproduce.listing(sources, runs, seeds)
    if as_json:
        output.document(rows)
    else:
        heads, note = ["artefact", "paper", "content", "recorded"], "Show one with goodformer reproduce ARTEFACT."
        output.show(Table.of(heads, [row.values() for row in rows], note=note))
    _warn(sources)


def _warn(sources: list[Path]) -> None:
    """Say why no record was found if there is no folder of records."""
    if not sources:
        typer.echo(
            f"there is no folder {options.RESULTS} here; name a file or folder of records with --records.", err=True
        )
