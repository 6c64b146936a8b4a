"""The final record of a run: what it was, what came out, and what it was computed with."""

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
from goodformer.engine.selection import RULES, SUMMARY_NAMES, select_epoch
from goodformer.spec import SPLITS

PACKAGES = ("torch", "torch_geometric", "lightning", "numpy")


def summarise(
    config: RunConfig,
    benchmark: Benchmark,
    epochs: Sequence[dict[str, Any]],
    cost: dict[str, Any],
    hardware: Hardware,
) -> dict[str, Any]:
    """One JSON object that says all of a finished run; what is not known is null.

    Args:
        config: The run's config.
        benchmark: The data it was trained on.
        epochs: The records of its epochs.
        cost: Entries measured while training: ``parameters``, ``wall_seconds``, ``peak_memory_mb``, ``device``.
        hardware: What was asked for, of a run that was stopped, when it was finished.
    """
    metric, rule = benchmark.task.metric, config.training.selection
    chosen = epochs[select_epoch(epochs, rule, metric)]
    return {
        **identity(config, benchmark),
        "epochs": len(epochs),
        "train_graphs": len(benchmark.splits["train"]),
        "selection": rule,
        "selected_epoch": chosen["epoch"],
        "metric": metric,
        **_figures(chosen, metric),
        "seconds_per_epoch": _mean(epochs, "seconds"),
        "processor_seconds_per_epoch": _mean(epochs, "processor_seconds"),
        "commit": source_commit(),
        "device": None,
        **cost,
        "splits": {split: chosen[split] for split in SPLITS},
        "by_rule": {rule: _under(rule, epochs, metric) for rule in RULES},
        "versions": versions(),
        "machine": machine(),
        "hardware": hardware.model_dump(include={"accelerator", "devices", "threads"}),
        "config": config.to_dict(),
    }


def _figures(epoch: Mapping[str, Any], metric: str) -> dict[str, float | None]:
    """What a run is judged by, at one of its epochs; null where a split was not measured there."""
    scores = {name: epoch.get(split, {}).get(metric) for name, split in SUMMARY_NAMES.items()}
    return scores | {name: epoch.get("test", {}).get(name) for name in ("precision_at_10", "edge_auc")}


def _under(rule: str, epochs: Sequence[dict[str, Any]], metric: str) -> dict[str, Any]:
    """The epoch another rule would have chosen and its figures, so that no rule needs a run of its own."""
    chosen = epochs[select_epoch(epochs, rule, metric)]
    return {"epoch": chosen["epoch"], **_figures(chosen, metric)}


def _mean(epochs: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a cost over the epochs that tell it."""
    told = [epoch[name] for epoch in epochs if name in epoch]
    return round(statistics.fmean(told), 3) if told else None


def identity(config: RunConfig, benchmark: Benchmark) -> dict[str, Any]:
    """What tells a run from others, which every record of it begins with."""
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


def versions() -> dict[str, str | None]:
    """Versions of all that decides the numbers."""
    return {
        "goodformer": goodformer.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """The machine at hand, without the names of its owner; its graphics card is named whether it computes or not."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "gpu": device,
    }


def processor() -> str | None:
    """The name of the processor, None where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def peak_memory_mb() -> float:
    """The most memory this process has held so far, of the graphics card where one computes."""
    if torch.cuda.is_initialized():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def source_commit() -> str | None:
    """The commit of the source this code runs from, ``+`` added where files have changed since; None if not in git."""
    folder = Path(goodformer.__file__).parent
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # a project around an installed copy is not ours
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()
