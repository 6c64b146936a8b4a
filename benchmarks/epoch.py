"""One epoch of GOODFormer beside one of chemprop: DrugOOD EC50 assay, whose largest molecules have 300 atoms.

    python -m benchmarks.epoch --chemprop FILE --page docs/benchmarks.md

Both train on the same molecules with one thread and their default settings. Chemprop's start is not counted: its cost
is half of the difference between five epochs and three. Processor seconds, not wall time, so that other work on the
machine changes little. `benchmarks.chemprop` says how to install chemprop.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.chemprop import child_seconds, run_program, write_rows
from goodformer.config.presets import configure
from goodformer.config.run import Hardware
from goodformer.data import load_benchmark
from goodformer.data.acquire import obtain
from goodformer.data.benchmarks.drugood import SOURCES
from goodformer.engine.record import provenance
from goodformer.engine.run import train
from goodformer.report.table import Table, insert

FILE = "drugood/lbap_core_ec50_assay.json"
DATASET = {"name": "drugood", "measurement": "ec50", "domain": "assay"}
RESULT = Path(__file__).parent / "epoch.json"
MARKER = "epoch"
EPOCHS = 3
THEIRS = (3, 5)
"""Epochs of GOODFormer, and of two runs of chemprop, whose warm-up has two."""
WATCHED = 20
"""Molecules that select chemprop's epoch; few, because evaluation is not what is measured."""
PRESETS = {"GOODFormer, preset `molecules`": "molecules", "GOODFormer, preset `default`": "default"}


def molecules() -> list[tuple[str, float, str]]:
    """Return SMILES, label and split of the training molecules and of a few that select the epoch."""
    split = json.loads(obtain(SOURCES[FILE]).read_bytes())["split"]
    parts = {"train": split["train"], "val": split["iid_val"][:WATCHED], "test": split["iid_test"][:WATCHED]}
    return [(row["smiles"], float(row["cls_label"]), name) for name, rows in parts.items() for row in rows]


def chemprop_seconds(program: str, folder: Path) -> float:
    """Return the processor seconds of one epoch of chemprop."""
    data = write_rows(folder / "data.csv", molecules())
    spent = []
    for epochs in THEIRS:
        before = child_seconds()
        words = [program, "train", "--data-path", data, "--smiles-columns", "smiles", "--target-columns", "y"]
        words += ["--splits-column", "split", "--task-type", "classification", "--accelerator", "cpu"]
        run_program([*words, "--num-workers", "0", "--epochs", epochs, "--output-dir", folder / f"model-{epochs}"])
        spent.append(child_seconds() - before)
    return (spent[1] - spent[0]) / (THEIRS[1] - THEIRS[0])


def goodformer_seconds(preset: str, folder: Path) -> float:
    """Return the processor seconds of one epoch of GOODFormer, the mean without the first."""
    config = configure(DATASET, preset=preset, overrides=[f"training.epochs={EPOCHS}", "training.train_eval_graphs=20"])
    benchmark = load_benchmark(**DATASET)
    few = {name: some.subset(torch.arange(WATCHED)) for name, some in benchmark.splits.items() if name != "train"}
    smaller = replace(benchmark, splits={**benchmark.splits, **few}, recipe={})
    run = train(config, folder, Hardware(progress=False), smaller)
    epochs = [json.loads(line)["processor_seconds"] for line in (run.folder / "epochs.jsonl").open(encoding="utf-8")]
    return float(sum(epochs[1:]) / (len(epochs) - 1))


def table(found: dict[str, Any]) -> Table:
    """Return processor seconds of an epoch, and their ratio to chemprop's."""
    base = found["processor_seconds"]["chemprop"]
    rows = [[name, f"{seconds:.1f}", f"{seconds / base:.2f}"] for name, seconds in found["processor_seconds"].items()]
    return Table.of(["", "processor seconds", "ratio to chemprop"], rows)


def main() -> None:
    """Measure both and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chemprop", default=shutil.which("chemprop"), help="The program.")
    parser.add_argument("--page", type=Path, help="Page whose table is replaced.")
    given = parser.parse_args()
    if given.chemprop is None:
        sys.exit("chemprop is not on the PATH; install it in an environment of its own, or give --chemprop FILE.")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds = {"chemprop": chemprop_seconds(given.chemprop, folder)}
        seconds |= {title: goodformer_seconds(preset, folder) for title, preset in PRESETS.items()}
    found = {"molecules": sum(row[2] == "train" for row in molecules()), "processor_seconds": seconds, **provenance()}
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found).text(100))
    if given.page:
        insert(given.page, MARKER, table(found).markdown())


if __name__ == "__main__":
    main()
