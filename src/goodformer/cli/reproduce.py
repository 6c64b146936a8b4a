"""``goodformer reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodformer.report.artefacts import TablePlan


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[ARTEFACT]", help="A table or figure; default: list all.")
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
    from goodformer.report import artefacts, reproduce

    sources = options.record_sources(records)
    if page:
        output.page(page, reproduce.write(sources or [options.RESULTS], page))
    if verdicts:
        from goodformer.report import verdict_page

        output.page(verdicts, verdict_page.write(sources or [options.RESULTS], verdicts))
    if page or verdicts:
        return
    if name is None:
        _list(sources, runs, seeds, as_json or form is output.Format.json)
        return
    chosen = {"--budget": budget, "--seeds": seeds, "--dataset": dataset, "--methods": methods}
    words = [str(word) for option, value in chosen.items() if value is not None for word in (option, value)]
    one = artefacts.artefact(name)
    plans = artefacts.narrowed(one.plans(budget, seeds), dataset, methods)
    written = output.chosen_format(form, None if one.drawn else out)
    failures: dict[str, str] = {}
    measured: list[dict[str, Any]] = []
    with output.working():
        known = reproduce.known_records(plans, sources, runs)
        # A figure needs run folders, not records.
        missing = reproduce.untrained(plans, {} if one.folders else known) if run and not times_only else []
        try:
            if missing:
                from goodformer import executors

                with output.watching(quiet) as watch:
                    failures = executors.complete(missing, runs, executor, jobs, threads, watch, address)
                known = reproduce.known_records(plans, sources, runs)
            if (run or times_only) and (configs := reproduce.untimed(plans, known)):
                from goodformer.engine.inference import time_inference

                options.limit_threads(threads)
                measured = [time_inference(config, runs) for config in configs]
        finally:  # finished runs are exported even if the rest is stopped
            if export:
                reproduce.export(plans, runs, export, measured)
        report = reproduce.report(one, plans, reproduce.with_times(known, measured), words, runs)
        if one.drawn and out:
            _draw(one.folders, plans, report, runs, out)
    made = {
        output.Format.text: lambda: reproduce.text(report, output.width()),
        output.Format.markdown: lambda: reproduce.markdown(report),
        output.Format.latex: lambda: reproduce.latex(report),
        output.Format.json: lambda: output.document_text(report),
    }
    output.print_or_save(made, written, None if one.drawn else out, as_json)
    _warn(sources)
    for identity, reason in failures.items():
        typer.echo(f"run {identity} failed: {reason}", err=True)
    if failures:
        raise typer.Exit(1)


def _draw(from_folders: bool, plans: Sequence[TablePlan], report: dict[str, Any], runs: Path, out: Path) -> None:
    """Draw a figure from the weights of run folders, or from the tables of a report."""
    from goodformer.draw import artefacts as pictures
    from goodformer.draw.canvas import save
    from goodformer.report import reproduce
    from goodformer.report.artefacts import REFERENCE

    if not from_folders:
        tables = {made["title"]: made for made in report["tables"]}
        reference = tables.pop(REFERENCE, None)
        figure = pictures.sensitivity(list(tables.values()), reference, report["remark"])
    else:
        from goodformer.data import load_benchmark
        from goodformer.fitted import FittedModel

        finished = reproduce.drawn_runs(plans, runs)
        if not finished:
            raise InputError("no run to draw is finished; train them with goodformer reproduce figure-subgraphs --run.")
        data = next(iter(finished.values())).config.dataset
        graphs = pictures.examples(load_benchmark(**data).splits["test"])
        scores = {title: FittedModel.of_run(run, "best").predict(graphs).edge_scores for title, run in finished.items()}
        silent = [title for title, found in scores.items() if found is None]
        if silent:
            raise InputError(f"{', '.join(silent)} do not score edges; choose other methods with --methods.")
        figure = pictures.subgraphs(graphs, {title: found for title, found in scores.items() if found is not None})
    typer.echo(f"{save(figure, out)} drawn", err=True)


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
