"""Baselines beside a fitted model: quick methods that are fitted to the same rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from goodformer.config.presets import configure, member_name
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.readers.values import counted
from goodformer.engine.blend import member_run
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.spec import METRIC_NAMES, split_names, worth

CLASSES = ("forest", "linear")
MEASURED = (*CLASSES, "gaussian-process")
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
        ``rows``, the run folder and the metrics on each split by name of the baseline, and ``best``, the name of the
        one that is best on OOD validation, or on ID validation if the metric is not defined there.
    """
    metric, rows = benchmark.task.metric, {}
    members = {member_name(one): member_run(run, one["run"]) for one in (run.summary or {}).get("members", ())}
    quiet = (hardware or Hardware()).model_copy(update={"progress": False, "tensorboard": False})
    for name in MEASURED if benchmark.task.measured else CLASSES:
        if name == config.method["name"]:
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

    return {"best": max(rows, key=values), "rows": rows}


def _row(run: Run) -> dict[str, Any]:
    return {"run": run.folder.name, "splits": (run.summary or {})["splits"]}


def verdict(report: Mapping[str, Any]) -> str:
    """Return a sentence if the best baseline of a report beats its model on OOD validation, otherwise nothing."""
    metric, baseline = report["metric"], report["baseline"]
    if not baseline:
        return ""
    name = baseline["best"]
    own, other = (splits["val"].get(metric) for splits in (report["splits"], baseline["rows"][name]["splits"]))
    if own is None or other is None or worth(metric, other) <= worth(metric, own):
        return ""
    where = split_names(report["split"], report["given"])["val"]
    return (
        f"the baseline {name} is better than {report['method']} on {where} ({METRIC_NAMES[metric]} {other:.3f} against "
        f"{own:.3f}, {counted(report['counts']['val'], 'row')}); fit it with --method {name}."
    )
