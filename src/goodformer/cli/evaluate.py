"""``goodformer evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError, check_name
from goodformer.spec import METRIC_NAMES, SPLIT_NAMES, SPLITS

ALIASES = {"ood_val": "val", "ood_test": "test"}
"""Other names of splits, as summaries write them."""


def command(
    name: options.RunName,
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
    """Evaluate a trained run on the splits of its data set.

    [bold]Examples[/bold]

      goodformer evaluate runs/good-motif-basis-...-s0-3f2a9c1b7d55
      goodformer evaluate 3f2a --split ood_test --split id_test
      goodformer evaluate 3f2a --weights last --json
      goodformer evaluate 3f2a --explanations gradient --split id_val --split val --limit 200

    The last example measures integrated gradients: ROC-AUC of edges and nodes over graphs whose true subgraph is known.
    """
    if explanations is None and (limit or export):
        raise InputError("--limit and --export need --explanations, for example --explanations own.")
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
