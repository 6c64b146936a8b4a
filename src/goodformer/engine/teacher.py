"""Labels taught by a forest.

A label of 0 or 1 says the same about a typical graph and about an exception. What trees predict for a graph they did
not see tells the two apart, and with shared labels also what carries over between environments. A network that learns a
mixture of both ranks molecules of new assays better (docs/tried.md).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from goodformer.config.presets import configure
from goodformer.config.run import RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.engine.seeds import derive_seed
from goodformer.engine.weights import ModelFile
from goodformer.errors import InputError
from goodformer.methods.base import Method

TAUGHT = "taught"
"""Attribute of training graphs: the labels (G, T) that a network learns instead of ``y``."""
TEACHER = "forest", "shared"
"""Method and preset of the teacher."""
SETTINGS = ["method.balanced=false", "method.trees=200"]
"""What differs from the preset: probabilities that are not distorted by class weights, and fewer trees."""


def taught(config: RunConfig, benchmark: Benchmark, method: Method, threads: int) -> Benchmark:
    """Return the benchmark whose training graphs have the labels of ``training.teacher_share``, if it is not 0.

    Classes of more than two kinds and measured values stay as they are.

    Args:
        config: The run.
        benchmark: Its data.
        method: The method that is trained.
        threads: Threads of the forest.
    """
    share = config.training.teacher_share
    if not share or benchmark.task.kind != "binary":
        return benchmark
    if not method.soft_labels:
        name = config.method["name"]
        raise InputError(f"method {name} compares labels and cannot learn shares; set training.teacher_share=0.")
    from goodformer.methods.forest import Forest  # which loads SciPy

    chosen = configure(config.dataset, TEACHER[0], None, TEACHER[1], "full", config.seed, SETTINGS)
    forest = ModelFile(
        model=chosen.model, method=chosen.method, features=benchmark.features, task=benchmark.task, members=()
    ).build()
    assert isinstance(forest, Forest)
    graphs = benchmark.with_encodings(forest.encodings).splits["train"]
    batches = (graphs.batch(chunk) for chunk in torch.arange(len(graphs)).split(config.training.eval_batch_size))
    y = graphs.graph["y"]
    p = torch.from_numpy(forest.out_of_bag(batches, derive_seed(config.seed, "teacher"), threads)).to(y)
    train = benchmark.splits["train"].with_graph(TAUGHT, (1 - share) * y + share * p)
    return replace(benchmark, splits={**benchmark.splits, "train": train})
