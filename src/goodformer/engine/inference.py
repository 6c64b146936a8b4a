"""How long a method needs to predict, measured with the chosen weights of a finished run where there is one.

Elsewhere the weights are untrained, and what predictions draw upon beside them, as the mean entropy GOODFormer
restores, is taken from some training graphs. That costs as much as trained weights wherever the number of operations
depends on shapes alone. It does not for GOODFormer's exact temperature, whose Newton steps go on until each graph is
settled and so depend on the logits. A record says which weights were used.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from goodformer.config.run import RunConfig
from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine.evaluate import infer
from goodformer.engine.record import identity, machine, source_commit, versions
from goodformer.engine.run import build_method
from goodformer.engine.seeds import own_randomness
from goodformer.engine.store import Run
from goodformer.engine.weights import load_weights
from goodformer.methods.base import Method
from goodformer.report.artefacts import INFERENCE

BEST, UNTRAINED = "best", "untrained"
"""Weights that predict: those of a run's chosen epoch, or such as a run begins with."""


def measure(config: RunConfig, root: Path | None = None, rounds: int = 3) -> dict[str, Any]:
    """A record of the processor seconds that predicting the OOD test graphs of a run takes, the best of some rounds.

    Args:
        config: What predicts, and the data.
        root: Where run folders lie; a finished one of this run has the weights.
        rounds: How often all graphs are predicted.
    """
    benchmark = load_benchmark(**config.dataset)
    run = None if root is None else Run(root / config.folder_name)
    trained = run is not None and run.finished and (run.folder / BEST).is_dir()
    method = load_weights(run.folder / BEST)[0] if run and trained else build_method(config, benchmark)[0]
    splits = benchmark.with_encodings(method.encodings).splits
    known, graphs = splits["train"], splits["test"]
    with own_randomness():
        if not trained:
            method.train().loss(known.batch(list(range(min(64, len(known))))), 0)  # means that predictions draw upon
        seconds = [_round(method, graphs, config.training.eval_batch_size) for _ in range(rounds)]
    return {
        "kind": INFERENCE,
        **identity(config, benchmark),
        "weights": BEST if trained else UNTRAINED,
        "graphs": len(graphs),
        "processor_seconds": round(min(seconds), 4),
        "commit": source_commit(),
        "versions": versions(),
        "machine": machine(),
        "config": config.to_dict(),
    }


def _round(method: Method, graphs: GraphSet, batch_size: int) -> float:
    """Processor seconds of predicting all graphs once."""
    start = time.process_time()
    deque(infer(method, graphs, batch_size), maxlen=0)
    return time.process_time() - start
