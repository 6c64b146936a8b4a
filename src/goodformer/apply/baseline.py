"""Baselines beside a fitted model: quick methods that are fitted to the same rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from goodformer.config.presets import configure, member_name
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.engine.blend import member_run
from goodformer.engine.bootstrap import interval, metrics
from goodformer.engine.predictions import read
from goodformer.engine.run import train
from goodformer.engine.store import PREDICTED, Run
from goodformer.spec import METRIC_NAMES, Task, split_names, worth

FOR_CLASSES = ("forest", "linear")
FOR_VALUES = (*FOR_CLASSES, "gaussian-process")
"""Baselines for classes and for measured values: the strongest quick methods of docs/tried.md."""


def fit_baselines(
    run: Run,
    config: RunConfig,
    benchmark: Benchmark,
    runs: str | Path,
    hardware: Hardware | None = None,
    watch: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Fit the baselines to the splits of a run, except the method of the run itself; members of a blend are fitted.

    Args:
        run: The finished run of the model.
        config: Its configuration.
        benchmark: Its data.
        runs: Folder of the runs, where the baselines are stored, too.
        hardware: Where to compute.
        watch: Called with a sentence before and after each baseline.

    Returns:
        ``rows``, the run folder and the metrics on each split by name of the baseline; ``best``, the name of the one
        that is best on OOD validation, or on ID validation if the metric is not defined there; and ``difference``, how
        far the model is above it.
    """
    metric, rows = benchmark.task.metric, {}
    members = {member_name(one): member_run(run, one["run"]) for one in (run.summary or {}).get("members", ())}
    quiet = (hardware or Hardware()).model_copy(update={"progress": False, "tensorboard": False})
    for name in FOR_VALUES if benchmark.task.measured else FOR_CLASSES:
        if (name, "default") == (config.method["name"], config.preset):
            continue
        if name in members:
            rows[name] = _row(members[name])
            continue
        start = time.perf_counter()
        if watch:
            watch(f"fitting the baseline {name} to the same rows ...")
        rows[name] = _row(train(configure(config.dataset, name, seed=config.seed), runs, quiet, benchmark))
        if watch:
            value = rows[name]["splits"]["val"][metric]
            found = "" if value is None else f", {METRIC_NAMES[metric]} {value:.3f} on {benchmark.split_names['val']}"
            watch(f"baseline {name}{found} ({time.perf_counter() - start:.1f} s)")

    def values(name: str) -> list[float]:
        found = [rows[name]["splits"][split][metric] for split in ("val", "id_val")]
        return [-math.inf if value is None else worth(metric, value) for value in found]

    best = max(rows, key=values)
    other = member_run(run, rows[best]["run"])
    return {"best": best, "rows": rows, "difference": difference(run, other, benchmark.task)}


def _row(run: Run) -> dict[str, Any]:
    return {"run": run.folder.name, "splits": (run.summary or {})["splits"]}


def difference(run: Run, other: Run, task: Task) -> dict[str, float | None]:
    """Return how far a run is above another one in the metric on OOD validation, with the ends of a 95 % interval.

    Predictions of blends are cross-fitted there, as their metric is.
    """
    entries = [(one, (one.summary or {}).get("predictions")) for one in (run, other)]  # runs of old versions have none
    found = [read(one.folder / PREDICTED, entry["sha256"])["val"] for one, entry in entries if entry]
    if len(found) < 2 or not len(found[0].y):
        return interval(np.full(1, math.nan))
    kept, beside = found
    factor, y = np.asarray(task.units) if task.measured else 1, kept.y.astype(float).reshape(len(kept.y), -1)
    names = [str(place) for place in range(y.shape[1])]
    entry = metrics(task, names, y * factor, kept.logits * factor, None, {"other": beside.logits * factor})[0]
    gap: dict[str, float | None] = entry["others"]["other"]["difference"]
    return gap


def verdict(report: Mapping[str, Any]) -> str:
    """Return a sentence if the best baseline of a report beats its model on OOD validation beyond chance."""
    metric, baseline = report["metric"], report["baseline"]
    if not baseline or None in (ends := [baseline["difference"][end] for end in ("low", "high")]):
        return ""
    if max(worth(metric, end) for end in ends) >= 0:
        return ""
    name, where = baseline["best"], split_names(report["split"], report["given"])["val"]
    own, other = (splits["val"][metric] for splits in (report["splits"], baseline["rows"][name]["splits"]))
    return (
        f"the baseline {name} is better than {report['method']} on {where} ({METRIC_NAMES[metric]} {other:.3f} against "
        f"{own:.3f}, 95 % interval of the difference {ends[0]:+.3f} to {ends[1]:+.3f}); fit it with --method {name}."
    )
