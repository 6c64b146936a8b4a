"""Chemprop on BACE, BBBP, ESOL and Lipophilicity: scaffold splits of this package, chemprop's default settings.

    python -m benchmarks.chemprop esol lipophilicity --seeds 3
    python -m benchmarks.chemprop bace --splits 5

Chemprop is an independent program and no dependency: install it in an environment of its own (``pip install
"chemprop>=2.3,<2.4"``) and put its ``bin`` folder on the PATH, or give ``--chemprop FILE``. It trains on the training
rows, selects the epoch on OOD validation, as this package does, and predicts OOD test. Rows of ID validation and ID
test are left out. The JSON file holds its predictions, their RMSE or ROC-AUC and processor seconds.

The other side of the comparison is

    goodformer compare --dataset esol --methods forest,linear,goodformer:measured,blend:measured --budget full
    goodformer compare --dataset bace --methods forest,linear,blend:molecules --budget full --seeds 1
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
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.metrics import roc_auc_score

from goodformer.data.acquire import obtain
from goodformer.data.benchmarks.moleculenet import BACE, BBBP, ESOL, LIPOPHILICITY
from goodformer.data.benchmarks.table import load_table
from goodformer.spec import SPLITS

SETS = {
    "bace": (BACE, "Class", "classification"),
    "bbbp": (BBBP, "p_np", "classification"),
    "esol": (ESOL, "measured log solubility in mols per litre", "regression"),
    "lipophilicity": (LIPOPHILICITY, "exp", "regression"),
}
"""File, column and task of each data set."""
RESULT = Path(__file__).parent / "chemprop.json"
OURS = {"train": "train", "val": "val", "test": "test"}
"""Splits of this package that chemprop reads, and its words for them."""


def rows(name: str, split_seed: int) -> list[tuple[str, float, str]]:
    """Return SMILES, label and split of each row that chemprop reads."""
    source, target, _ = SETS[name]
    table = load_table(obtain(source), "smiles", target, "scaffold", split_seed)
    assert table.collection.smiles is not None
    found = []
    for place, row in enumerate(table.collection.rows.tolist()):
        split = SPLITS[int(table.split.part[place])]
        if split in OURS:
            found.append((table.collection.smiles[place], float(table.labels.y[row].reshape(-1)[0]), OURS[split]))
    return found


def write_rows(path: Path, some: list[tuple[str, float, str]]) -> Path:
    """Write rows as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("smiles", "y", "split"))
        writer.writerows(some)
    return path


def measure(program: str, name: str, split_seed: int, seed: int, folder: Path) -> dict[str, Any]:
    """Train chemprop with one seed on one split; return its predictions of OOD test, their score and its cost."""
    every, kind = rows(name, split_seed), SETS[name][2]
    test = [row for row in every if row[2] == "test"]
    data, questions = write_rows(folder / "data.csv", every), write_rows(folder / "test.csv", test)
    before = child_seconds()
    common = ["--smiles-columns", "smiles", "--accelerator", "cpu", "--num-workers", "0"]
    train = [program, "train", "--data-path", data, "--target-columns", "y", "--splits-column", "split", *common]
    run_program([*train, "--task-type", kind, "--pytorch-seed", seed, "--output-dir", folder / "model"])
    seconds = child_seconds() - before
    weights = sorted((folder / "model").rglob("best*.pt"))[0]
    predict = [program, "predict", "--test-path", questions, "--model-paths", weights, *common]
    run_program([*predict, "--preds-path", folder / "answers.csv"])
    with (folder / "answers.csv").open(encoding="utf-8") as file:
        answers = list(csv.DictReader(file))
    assert [row["smiles"] for row in answers] == [row[0] for row in test]
    (column,) = (key for key in answers[0] if key not in ("smiles", "split"))
    predicted = [float(row[column]) for row in answers]
    y = [row[1] for row in test]
    if kind == "classification":
        score = {"ood_test_rocauc": float(roc_auc_score(y, predicted))}
    else:
        score = {"ood_test_rmse": math.sqrt(sum((p - q) ** 2 for p, q in zip(predicted, y, strict=True)) / len(y))}
    counts = {split: sum(row[2] == split for row in every) for split in OURS.values()}
    return {
        "dataset": name,
        "split_seed": split_seed,
        "seed": seed,
        "rows": counts,
        **score,
        "processor_seconds": round(seconds, 1),
        "predictions": [round(p, 5) for p in predicted],
    }


def place(entry: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return what makes an entry of the JSON file unique."""
    return entry["dataset"], entry["split_seed"], entry["seed"]


def child_seconds() -> float:
    """Return the processor seconds of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_program(words: list[Any]) -> None:
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
    parser.add_argument("--splits", type=int, default=1, help="Number of scaffold splits, which differ in their seed.")
    parser.add_argument("--seeds", type=int, default=1, help="Number of training seeds on each split.")
    parser.add_argument("--chemprop", default=shutil.which("chemprop"), help="The program.")
    parser.add_argument("-o", "--out", type=Path, default=RESULT, help="JSON file; other entries in it are kept.")
    given = parser.parse_args()
    if given.chemprop is None:
        sys.exit("chemprop is not on the PATH; install it in an environment of its own, or give --chemprop FILE.")
    python = Path(given.chemprop).resolve().parent / "python"  # chemprop --version loads everything first
    ask = [str(python), "-c", "import importlib.metadata; print(importlib.metadata.version('chemprop'))"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    for name, split_seed, seed in product(given.datasets, range(given.splits), range(given.seeds)):
        with tempfile.TemporaryDirectory() as folder:
            found = {"chemprop": version, **measure(given.chemprop, name, split_seed, seed, Path(folder))}
        kept = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else []
        kept = sorted([*(one for one in kept if place(one) != place(found)), found], key=place)
        given.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        ((metric, score),) = ((key, value) for key, value in found.items() if key.startswith("ood_test_"))
        cost = f"{found['processor_seconds']:.0f} processor seconds"
        print(f"{name}, split {split_seed}, seed {seed}: {metric} {score:.3f}, {cost}", flush=True)


if __name__ == "__main__":
    main()
