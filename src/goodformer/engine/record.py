"""The final record of a run: its settings, its results, and the software and hardware that computed them."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import goodformer
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.engine.processor import processor
from goodformer.engine.products import openblas_is_faster
from goodformer.engine.selection import RULES, SUMMARY_NAMES, select_epoch
from goodformer.spec import SPLITS

EDGE_METRICS = ("precision_at_10", "precision_at_10_logits", "edge_auc", "node_auc")
"""Metrics of the test graphs' edges and nodes in a record; null if the method or the data cannot have them."""
PACKAGES = ("torch", "torch_geometric", "lightning", "numpy")


def summarise(
    config: RunConfig,
    benchmark: Benchmark,
    epochs: Sequence[dict[str, Any]],
    cost: dict[str, Any],
    hardware: Hardware,
    predictions: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the final record of a run as one JSON object; unknown values are null.

    Args:
        config: The run's configuration.
        benchmark: The data it was trained on.
        epochs: The records of its epochs.
        cost: Values measured during training: ``parameters``, ``wall_seconds``, ``peak_memory_mb``, ``device``.
        hardware: The hardware that was requested when the run was finished.
        predictions: What `goodformer.engine.predictions.keep` returned for the selected epoch.
    """
    metric, selection = benchmark.task.metric, config.training.selection

    def results(epoch: Mapping[str, Any]) -> dict[str, float | None]:
        scores = {name: epoch.get(split, {}).get(metric) for name, split in SUMMARY_NAMES.items()}
        return scores | {name: epoch.get("test", {}).get(name) for name in EDGE_METRICS}

    def mean(name: str) -> float | None:
        known = [epoch[name] for epoch in epochs if name in epoch]
        return round(statistics.fmean(known), 3) if known else None

    under = {rule: epochs[select_epoch(epochs, rule, metric)] for rule in RULES}
    chosen, each = under[selection], [results(epoch) for epoch in epochs]
    curves = {name: [_rounded(scores[name]) for scores in each] for name in each[0]}
    return {
        **identity(config, benchmark),
        "epochs": len(epochs),
        "train_graphs": len(benchmark.splits["train"]),
        "selection": selection,
        "selected_epoch": chosen["epoch"],
        "metric": metric,
        **results(chosen),
        "seconds_per_epoch": mean("seconds"),
        "processor_seconds_per_epoch": mean("processor_seconds"),
        "commit": source_commit(),
        "device": None,
        **cost,
        "splits": {split: chosen[split] for split in SPLITS},
        "by_rule": {rule: {"epoch": epoch["epoch"], **results(epoch)} for rule, epoch in under.items()},
        "curves": {name: values for name, values in curves.items() if any(value is not None for value in values)},
        "predictions": predictions,
        "versions": versions(),
        "machine": machine(),
        "hardware": hardware.model_dump(
            include={"accelerator", "devices", "threads", *(["nodes"] if hardware.nodes > 1 else [])}
        ),
        "config": config.to_dict(),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def identity(config: RunConfig, benchmark: Benchmark) -> dict[str, Any]:
    """Return the fields that identify a run, with which each of its records begins."""
    return {
        "id": config.id,
        "dataset": config.dataset["name"],
        "domain": benchmark.domain,
        "shift": benchmark.shift,
        "method": config.method["name"],
        "model": config.model["name"],
        "preset": config.preset,
        "seed": config.seed,
        "budget": config.budget,
    }


def provenance() -> dict[str, Any]:
    """Return what computes a record: the commit of this source, the versions of packages, and the machine."""
    return {"commit": source_commit(), "versions": versions(), "machine": machine()}


def versions() -> dict[str, str | None]:
    """Return the versions of all packages that affect the numbers."""
    return {
        "goodformer": goodformer.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    """Return the version of a package, None if its installation does not say."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Describe this machine without naming its owner.

    ``gpu`` is the graphics card, used or not; ``products`` says that OpenBLAS multiplies matrices, see `fast_products`.
    """
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "gpu": device,
        **({"products": "OpenBLAS"} if openblas_is_faster() else {}),
    }


def peak_memory_mb() -> float:
    """Return the peak memory of this process so far, or that of the graphics card if it uses one."""
    if torch.cuda.is_initialized():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def source_commit() -> str | None:
    """Return the git commit of this source, followed by ``+`` if files have changed; None outside of git."""
    folder = Path(goodformer.__file__).parent
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # fails for an installed copy in another project
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()
