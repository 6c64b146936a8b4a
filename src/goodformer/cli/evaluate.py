"""``goodformer evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.data.readers.values import counted
from goodformer.errors import InputError, check_name
from goodformer.spec import LOWER_IS_BETTER, METRIC_NAMES, SPLIT_NAMES, SPLITS

ALIASES = {"ood_val": "val", "ood_test": "test"}
"""Other names of splits, as summaries write them."""
CALIBRATION = {"nll": "log loss", "brier": "Brier score", "ece": "expected calibration error"}
"""Measures of probabilities, lower is better, and their names."""


def command(
    name: Annotated[
        str, typer.Argument(metavar="RUN", help="A run or a fitted model: folder, or the start of a run's id.")
    ],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Rows with known labels, to compare a fitted model's predictions with."),
    ] = None,
    smiles: options.SmilesAsTrained = None,
    weights: options.Weights = "best",
    split: Annotated[
        list[str] | None,
        typer.Option(help="train, id_val, id_test, val (or ood_val), test (or ood_test); repeatable. Default: all."),
    ] = None,
    explanations: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Measure edge scores against the true subgraphs instead: own, gradient, occlusion or mask.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="With --explanations: graphs per split, the first ones; default: all.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="With --explanations: add the record to this file.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Graphs per batch; does not change the result.")] = 256,
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    as_json: options.Json = False,
) -> None:
    """Evaluate a trained run on the splits of its data set, or a fitted model on a file with known labels.

    [bold]Examples[/bold]

      goodformer evaluate bace measured-since.csv
      goodformer evaluate runs/good-motif-basis-...-s0-3f2a9c1b7d55
      goodformer evaluate 3f2a --split ood_test --split id_test
      goodformer evaluate 3f2a --weights last --json
      goodformer evaluate 3f2a --explanations gradient --split id_val --split val --limit 200

    With a file, the table shows the metrics of all rows and of those inside and outside the model's domain, with 95 %
    intervals. The file needs the columns that the model predicts; rows without a label do not count.

    The last example measures integrated gradients: ROC-AUC of edges and nodes over graphs whose true subgraph is known.
    """
    if explanations is None and (limit or export):
        raise InputError("--limit and --export need --explanations, for example --explanations own.")
    if data is not None:
        if split or explanations:
            raise InputError("--split and --explanations are for runs on benchmarks; leave them out with a file.")
        options.limit_threads(threads)
        with output.working():
            from goodformer.apply.evaluate import evaluate_file
            from goodformer.fitted import FittedModel

            report = evaluate_file(FittedModel.open(name, runs, weights), data, smiles, batch_size)
        output.document(report) if as_json else show_file(report)
        return
    with output.working():
        from goodformer.data import load_benchmark
        from goodformer.engine.store import Run
        from goodformer.fitted import FittedModel

        run = Run.open(name, runs)
        for part in split or ():
            check_name("split", part, (*SPLITS, *ALIASES))
        splits = dict.fromkeys(ALIASES.get(part, part) for part in split or SPLITS)  # each once
        options.limit_threads(threads)
        if explanations is not None:
            from goodformer.explain import truth

            record = truth.measure_explanations(run, explanations, list(splits), limit, weights)
            if export:
                typer.echo(f"{export} now contains {truth.export(record, export)} records", err=True)
    if explanations is not None:
        title = f"{run.folder.name}, weights {weights}, edge scores: {explanations}"
        output.document(record) if as_json else show_splits(record["splits"], ["graphs"], title)
        return
    with output.working():
        fitted, benchmark = FittedModel.of_run(run, weights), load_benchmark(**run.config.dataset)
        metrics = {part: fitted.evaluate(benchmark.splits[part], batch_size) for part in splits}
    if as_json:
        output.document({"run": run.folder.name, "weights": weights, "metrics": metrics})
    else:
        show_splits(metrics, [benchmark.task.metric, "loss"], f"{run.folder.name}, weights {weights}")


def show_splits(metrics: Mapping[str, Mapping[str, Any]], columns: list[str], title: str, note: str = "") -> None:
    """Print one row per split: the given columns, then those about edges if there are any."""
    edges = {"precision_at_10": "Precision@10", "edge_auc": "edge AUC", "node_auc": "node AUC"}
    heads = {name: METRIC_NAMES.get(name, name) for name in columns}
    each = tuple(f"{name}_" for name in columns)  # of each target
    heads |= {name: name for row in metrics.values() for name in row if name.startswith(each)}
    heads |= {name: head for name, head in edges.items() if any(name in row for row in metrics.values())}
    rows = [[SPLIT_NAMES[split], *(row.get(name) for name in heads)] for split, row in metrics.items()]
    output.table(["split", *heads.values()], rows, title=title, note=note)


def show_file(report: Mapping[str, Any]) -> None:
    """Print the metrics of a file: one row per metric and target, one column per part of the rows."""
    parts = {name: part for name, part in report["parts"].items() if part["metrics"]}
    rows = []
    for place, one in enumerate(parts[next(iter(parts))]["metrics"] if parts else ()):
        title = " ".join(filter(None, (one["name"], one["target"])))
        rows.append([title, *(_with_interval(part["metrics"][place]) for part in parts.values())])
    for name, title in CALIBRATION.items():
        if any(part["calibration"] for part in parts.values()):
            found = (part["calibration"].get(name) for part in parts.values())
            rows.append([title, *("-" if one is None else f"{one:.3f}" for one in found)])
    if any(part["coverage"] for part in parts.values()):
        kind, size = ("intervals", "width") if report["metric"] in LOWER_IS_BETTER else ("sets", "size, in classes")
        for place, level in enumerate(one["level"] for one in parts[next(iter(parts))]["coverage"]):
            for measure, title in (
                ("coverage", f"coverage of {100 * level:g} % {kind}"),
                ("size", f"their mean {size}"),
            ):
                found = (part["coverage"][place][measure] for part in parts.values())
                rows.append([title, *("-" if one is None else f"{one:.3f}" for one in found)])
    heads = [f"{name} ({part['rows']:,})" for name, part in parts.items()]
    few = [f"{part['rows']:,} {name}" for name, part in report["parts"].items() if not part["metrics"] and part["rows"]]
    note = "In brackets: 95 % intervals from drawing rows with replacement."
    note += f" Too few rows for metrics: {', '.join(few)}." if few else ""
    output.table(["", *heads], rows, title=f"{report['file']}, {report['labelled']:,} labelled rows", note=note)
    for one in report["notes"]:
        typer.echo(f"note: {one}", err=True)
    if report["unreadable"]:
        first = report["problems"][0]
        typer.echo(
            f"note: {counted(report['unreadable'], 'row')} cannot be read, first row {first['row']}: {first['reason']}",
            err=True,
        )


def _with_interval(one: Mapping[str, Any]) -> str:
    value, low, high = (one[name] for name in ("value", "low", "high"))
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")
