"""How long a method needs to predict, measured with untrained weights, which cost as much as trained ones.

What predictions draw upon beside weights, as the mean entropy GOODFormer restores, is taken from some training graphs.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine import RunConfig, build_method
from goodformer.engine.evaluate import infer
from goodformer.engine.record import identity, machine, source_commit, versions
from goodformer.engine.seeds import own_randomness
from goodformer.experiments.artefacts import INFERENCE
from goodformer.methods import Method


def measure(config: RunConfig, rounds: int = 3) -> dict[str, Any]:
    """A record of the processor seconds that predicting the OOD test graphs of a run takes, the best of some rounds."""
    benchmark = load_benchmark(**config.dataset)
    method, _ = build_method(config, benchmark)
    splits = benchmark.with_encodings(method.encodings).splits
    known, graphs = splits["train"], splits["test"]
    with own_randomness():
        method.train().loss(known.batch(list(range(min(64, len(known))))), 0)  # means that predictions draw upon
        seconds = [_round(method, graphs, config.training.eval_batch_size) for _ in range(rounds)]
    return {
        "kind": INFERENCE,
        **identity(config, benchmark),
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
