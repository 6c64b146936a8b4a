"""Chemprop on ESOL and Lipophilicity: the scaffold split of this package, chemprop's default settings.

    python -m benchmarks.chemprop esol lipophilicity --seeds 1

Chemprop is an independent program and no dependency: install it in an environment of its own (``pip install
"chemprop>=2.3,<2.4"``) and put its ``bin`` folder on the PATH, or give ``--chemprop FILE``. It trains on the training
rows, selects the epoch on OOD validation, as this package does, and predicts OOD test. Rows of ID validation and ID
test are left out. The JSON file holds its predictions, RMSE and processor seconds.

The other side of the comparison is

    goodformer compare --dataset esol --methods forest,linear,goodformer:measured,blend:measured --budget full
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from goodformer.data.acquire import obtain
from goodformer.data.benchmarks.moleculenet import ESOL, LIPOPHILICITY
from goodformer.data.benchmarks.table import load_table
from goodformer.spec import SPLITS

SETS = {"esol": (ESOL, "measured log solubility in mols per litre"), "lipophilicity": (LIPOPHILICITY, "exp")}
RESULT = Path(__file__).parent / "chemprop.json"
OURS = {"train": "train", "val": "val", "test": "test"}
"""Splits of this package that chemprop reads, and its words for them."""


def rows(name: str) -> list[tuple[str, float, str]]:
    """Return SMILES, value and split of each row that chemprop reads."""
    source, target = SETS[name]
    table = load_table(obtain(source), "smiles", target, "scaffold", 0)
    assert table.collection.smiles is not None
    found = []
    for place, row in enumerate(table.collection.rows.tolist()):
        split = SPLITS[int(table.split.part[place])]
        if split in OURS:
            found.append((table.collection.smiles[place], float(table.labels.y[row].reshape(-1)[0]), OURS[split]))
    return found


def write(path: Path, some: list[tuple[str, float, str]]) -> Path:
    """Write rows as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("smiles", "y", "split"))
        writer.writerows(some)
    return path


def measure(program: str, name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train chemprop with one seed and return its predictions of OOD test, their RMSE and processor seconds."""
    every = rows(name)
    test = [row for row in every if row[2] == "test"]
    data, questions = write(folder / "data.csv", every), write(folder / "test.csv", test)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    common = ["--smiles-columns", "smiles", "--accelerator", "cpu", "--num-workers", "0"]
    train = [program, "train", "--data-path", data, "--target-columns", "y", "--splits-column", "split", *common]
    _run([*train, "--task-type", "regression", "--pytorch-seed", seed, "--output-dir", folder / "model"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    weights = sorted((folder / "model").rglob("best*.pt"))[0]
    predict = [program, "predict", "--test-path", questions, "--model-paths", weights, *common]
    _run([*predict, "--preds-path", folder / "answers.csv"])
    with (folder / "answers.csv").open(encoding="utf-8") as file:
        answers = list(csv.DictReader(file))
    assert [row["smiles"] for row in answers] == [row[0] for row in test]
    (column,) = (key for key in answers[0] if key not in ("smiles", "split"))
    predicted = [float(row[column]) for row in answers]
    error = math.sqrt(sum((p - row[1]) ** 2 for p, row in zip(predicted, test, strict=True)) / len(test))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    counts = {split: sum(row[2] == split for row in every) for split in OURS.values()}
    return {
        "dataset": name,
        "seed": seed,
        "rows": counts,
        "ood_test_rmse": error,
        "processor_seconds": round(seconds, 1),
        "predictions": [round(p, 5) for p in predicted],
    }


def _run(words: list[Any]) -> None:
    """Run a program with one thread; on failure print the end of what it wrote."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [str(word) for word in words], env={**os.environ, **threads}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"chemprop failed:\n{(done.stdout + done.stderr)[-2000:]}")


def main() -> None:
    """Train chemprop on the data sets and write what it predicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=1, help="Number of seeds.")
    parser.add_argument("--chemprop", default=shutil.which("chemprop"), help="The program.")
    parser.add_argument("-o", "--out", type=Path, default=RESULT, help="JSON file; other entries in it are kept.")
    given = parser.parse_args()
    if given.chemprop is None:
        sys.exit("chemprop is not on the PATH; install it in an environment of its own, or give --chemprop FILE.")
    version = subprocess.run([given.chemprop, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    for name in given.datasets:
        for seed in range(given.seeds):
            with tempfile.TemporaryDirectory() as folder:
                found = {"chemprop": version, **measure(given.chemprop, name, seed, Path(folder))}
            kept = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else []
            kept = [one for one in kept if (one["dataset"], one["seed"]) != (name, seed)]
            kept = sorted([*kept, found], key=lambda one: (one["dataset"], one["seed"]))
            given.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            cost = f"{found['processor_seconds']:.0f} processor seconds"
            print(f"{name}, seed {seed}: RMSE {found['ood_test_rmse']:.3f} on OOD test, {cost}", flush=True)


if __name__ == "__main__":
    main()
