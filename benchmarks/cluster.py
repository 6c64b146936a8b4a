"""Measure what Ray costs: rows predicted per processor second beside one process, and the transport of a run.

Run from the root of the repository; docs/cluster.md quotes the result:

  python -m benchmarks.cluster HIV.csv -o benchmarks/cluster.json

The table has a column ``smiles`` and is cut after 4,096 rows.

Processor seconds rather than seconds are measured, so that a busy machine changes little. The model is GOODFormer with
the settings of its default preset and fresh weights, which take the same time as trained ones.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from goodformer import files
from goodformer.apply.parts import predict_parts
from goodformer.apply.predict import predict_file
from goodformer.config.presets import configure
from goodformer.data.molecule import FEATURES
from goodformer.engine import parcel
from goodformer.engine.record import machine, source_commit, versions
from goodformer.engine.weights import ModelFile, save_weights
from goodformer.fitted import FittedModel
from goodformer.spec import Task


def model() -> FittedModel:
    """Return GOODFormer for molecules with fresh weights."""
    config = configure({"name": "good-hiv"}, "goodformer")
    task = Task("binary", 1, "rocauc")
    recipe = ModelFile(model=config.model, method=config.method, features=FEATURES, task=task)
    torch.manual_seed(0)
    return FittedModel(recipe.build(), recipe)


@dataclass(frozen=True)
class Timed:
    """A function that also returns its processor seconds."""

    function: Any

    def __call__(self, item: Any) -> tuple[Any, float]:
        """Return the value and the seconds."""
        start = time.process_time()
        return self.function(item), time.process_time() - start


def family_seconds() -> float:
    """Return the processor seconds of this process and of all that it has started."""
    total = 0.0
    for one in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = one.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total


def measure(source: Path, rows: int) -> dict[str, float]:
    """Return rows per processor second of three ways to predict the first rows of a table, and what Ray adds."""
    fitted, found = model(), {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table, size = folder / "rows.csv", max(rows // 8, 1)
        with source.open(encoding="utf-8") as lines:
            table.write_text("".join(itertools.islice(lines, rows + 1)), encoding="utf-8")
        start = time.process_time()
        predict_file(fitted, table, folder / "one.csv")
        found["rows_per_processor_second_file"] = rows / (time.process_time() - start)
        start = time.process_time()
        predict_parts(fitted, table, folder / "local", size=size)
        found["rows_per_processor_second_parts"] = rows / (time.process_time() - start)

        from goodformer.executors import ray as remote

        begun = time.perf_counter()
        with remote.connected():
            found["start_seconds"] = time.perf_counter() - begun
            before, few = family_seconds(), folder / "few.csv"
            few.write_text("smiles\n" + "CC\n" * 4, encoding="utf-8")
            predict_parts(fitted, few, folder / "few", size=1, each=remote.each)  # the workers import what they need
            found["first_call_processor_seconds"] = family_seconds() - before
            before, spent = family_seconds(), []

            def spread(function: Any, items: Iterable[Any]) -> Iterator[Any]:
                for value, seconds in remote.each(Timed(function), items):
                    spent.append(seconds)
                    yield value

            begun = time.perf_counter()
            predict_parts(fitted, table, folder / "ray", size=size, each=spread)
            wall, used = time.perf_counter() - begun, family_seconds() - before
        found["rows_per_processor_second_in_ray_tasks"] = rows / sum(spent)
        found["processor_seconds_outside_tasks"] = used - sum(spent)
        found["seconds_ray"] = wall
        for path in folder.glob("local/part-*"):
            assert path.read_bytes() == (folder / "ray" / path.name).read_bytes(), "the executors differ"

        for name in ("best", "last", "state"):  # a checkpoint holds about three times the weights
            save_weights(folder / "run" / name, fitted.file, fitted.method.float().state_dict())
        start = time.process_time()
        content = parcel.pack(folder / "run")
        assert content is not None
        parcel.receive(folder / "copy", content)
        found["parcel_megabytes"] = len(content) / 2**20
        found["parcel_processor_seconds"] = time.process_time() - start
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    """Measure and write or print the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    result = {
        "table": given.table.name,
        "rows": given.rows,
        "figures": measure(given.table, given.rows),
        "commit": source_commit(),
    }
    result |= {"versions": versions(), "machine": machine()}
    print(json.dumps(result, indent=2))
    if given.out:
        files.write_json(given.out, result)


if __name__ == "__main__":
    main()
