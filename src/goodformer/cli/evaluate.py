"""``goodformer evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output


def command(
    name: options.RunName,
    weights: options.Weights = "best",
    split: Annotated[
        list[str] | None, typer.Option(help="train, id_val, id_test, val or test; repeatable. Default: all five.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Graphs predicted at once; changes no result.")] = 256,
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
    as_json: options.Json = False,
) -> None:
    """Measure a trained run again on the splits of its data set.

    [bold]Examples[/bold]

      goodformer evaluate runs/good-motif-basis-...-s0-3f2a9c1b7d55
      goodformer evaluate 3f2a --split test --split id_test
      goodformer evaluate 3f2a --weights last --json
    """
    with output.working():
        from goodformer.cli.locate import chosen_splits, limit_threads
        from goodformer.data import load_benchmark
        from goodformer.engine.store import Run
        from goodformer.fitted import FittedModel

        run, splits = Run.open(name, runs), chosen_splits(split)
        limit_threads(threads)
        predictor, benchmark = FittedModel.of_run(run, weights), load_benchmark(**run.config.dataset)
        metrics = {part: predictor.evaluate(benchmark.splits[part], batch_size) for part in splits}
    if as_json:
        output.document({"run": run.folder.name, "weights": weights, "metrics": metrics})
        return
    _show(run.folder.name, weights, metrics)


def _show(name: str, weights: str, metrics: dict[str, dict[str, Any]]) -> None:
    """One row a split."""
    keys = list(dict.fromkeys(key for row in metrics.values() for key in row))
    rows = [[split, *(row.get(key) for key in keys)] for split, row in metrics.items()]
    output.table(["split", *keys], rows, title=f"{name}, weights {weights}")
