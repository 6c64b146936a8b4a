"""Prediction time of a method, with the selected weights of its finished run or with untrained weights.

With untrained weights, statistics that predictions need, such as the mean entropy that GOODFormer
restores, come from some training graphs. This costs the same as trained weights wherever the number of operations
depends on shapes only. GOODFormer's exact temperature is an exception: its Newton steps continue until each graph has
converged, so their number depends on the logits. A record names the weights that were used.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from goodformer.config.run import RunConfig
from goodformer.data import load_benchmark
from goodformer.engine.evaluate import infer
from goodformer.engine.record import identity, provenance
from goodformer.engine.run import build_method
from goodformer.engine.seeds import own_randomness
from goodformer.engine.store import BEST, Run
from goodformer.engine.weights import load_weights


def time_inference(config: RunConfig, root: Path | None = None, threads: int = 1, rounds: int = 3) -> dict[str, Any]:
    """Return a record of the processor seconds that predicting the OOD test graphs takes.

    Args:
        config: The run whose method predicts.
        root: Folder that holds the run folders; a finished run there provides the weights.
        threads: Number of threads that this process computes with from now on.
        rounds: How often all graphs are predicted; the fastest round counts.
    """
    torch.set_num_threads(threads)
    benchmark = load_benchmark(**config.dataset)
    run = None if root is None else Run(root / config.folder_name)
    trained = run is not None and run.finished and (run.folder / BEST).is_dir()
    method = load_weights(run.folder / BEST)[0] if run and trained else build_method(config, benchmark)[0]
    splits = benchmark.with_encodings(method.encodings).splits
    seconds = []
    with own_randomness():
        if not trained:
            some = splits["train"].batch(list(range(min(64, len(splits["train"])))))
            if method.at_once:
                method.fit([some], config.seed)
            else:
                method.train().loss(some, 0)  # fills the running statistics that predictions need
        for _ in range(rounds):
            start = time.process_time()
            for _ in infer(method, splits["test"], config.training.eval_batch_size):
                pass
            seconds.append(time.process_time() - start)
    return {
        "kind": "inference",
        **identity(config, benchmark),
        "weights": BEST if trained else "untrained",
        "graphs": len(splits["test"]),
        "processor_seconds": round(min(seconds), 4),
        **provenance(),
        "config": config.to_dict(),
    }
