"""Measure how many labels calibration needs, and how strong its priors should be.

    python -m lab.calibration --page docs/uncertainty.md

The recorded predictions for ID validation molecules and sentences are split at random: calibration is fitted to a few
of them and judged on the others. No run is trained, and no test predictions are used.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from goodformer import files
from goodformer.engine import predictions
from goodformer.engine.store import PREDICTIONS
from goodformer.report.table import Cell, Table, insert
from goodformer.spec import Task
from goodformer.uncertainty.calibration import DEVIATIONS, Scaling, calibrate, nll

MARKER, RESULTS = "calibration", Path("results")
RECORDS = ("molecules.jsonl", "settled.jsonl", "rules.jsonl")
LABELS, OTHERS, DRAWS, RUNS = (20, 30, 50, 100, 200), 80, 3, 3
"""Numbers of labels to learn from, least number of others to judge by, draws, and runs of a method on a data set."""
NO_PRIOR = (1e6, 1e6)
TRIED = ((0.25, 0.5), (0.35, 0.25), DEVIATIONS, (0.35, 1.0), (0.5, 0.5), (1.0, 1.0), NO_PRIOR)
NONE = "no calibration"


def recorded() -> Iterator[tuple[str, Task, Tensor, Tensor]]:
    """Yield data set and method, task, logits (G, C) and labels of ID validation, of classes with complete labels."""
    runs: dict[str, int] = defaultdict(int)
    for record in (line for name in RECORDS for line in files.read_lines(RESULTS / name)):
        path, entry = RESULTS / PREDICTIONS / f"{record['id']}.npz", record.get("predictions")
        key = f"{record['dataset']} {record.get('domain')} {record['method']}"
        if not entry or record["metric"] not in ("rocauc", "accuracy") or not path.is_file() or runs[key] == RUNS:
            continue
        runs[key] += 1
        kept = predictions.read(path, entry["sha256"])["id_val"]
        z, y = torch.from_numpy(kept.logits).double(), torch.from_numpy(kept.y)
        if z.shape[1] == 1:
            yield key, Task("binary", 1, "rocauc"), z, y.double().reshape(-1, 1)
        else:
            yield key, Task("multiclass", z.shape[1], "accuracy"), z, y.long()


def measured() -> dict[int, dict[str, float]]:
    """Return the mean log loss of the other graphs, averaged over data sets and methods, by labels and priors."""
    found: dict[int, dict[str, dict[str, list[float]]]] = {
        labels: defaultdict(lambda: defaultdict(list)) for labels in LABELS
    }
    random = np.random.default_rng(0)
    for key, task, z, y in recorded():
        for labels in (one for one in LABELS if one + OTHERS <= len(z)):
            for _ in range(DRAWS):
                few, rest = torch.from_numpy(random.permutation(len(z))).split([labels, len(z) - labels])
                if len(y[few].unique()) < 2:
                    continue
                ways = {NONE: Scaling()} | {
                    named(deviations): calibrate(task, z[few], y[few], deviations)[0] for deviations in TRIED
                }
                for name, scaling in ways.items():
                    found[labels][name][key].append(nll(task, scaling(z[rest]), y[rest]))
    return {
        labels: {name: round(float(np.mean([np.mean(some) for some in keys.values()])), 4) for name, keys in of.items()}
        for labels, of in found.items()
    }


def named(deviations: tuple[float, float]) -> str:
    """Return the name of a row."""
    if deviations == NO_PRIOR:
        return "no priors"
    default = " (default)" if deviations == DEVIATIONS else ""
    return f"priors {deviations[0]:g}, {deviations[1]:g}{default}"


def table(found: Mapping[int, Mapping[str, float]]) -> Table:
    """Return one row per prior, one column per number of labels."""
    names = [NONE, *map(named, TRIED)]
    rows = [[Cell(name), *(Cell(f"{found[labels].get(name, math.nan):.3f}") for labels in found)] for name in names]
    return Table(["mean log loss", *(f"{labels} labels" for labels in found)], rows)


def main() -> None:
    """Measure, keep the result and write the table into its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, default=RESULTS / "calibration.json")
    parser.add_argument("--page", type=Path, default=Path("docs/uncertainty.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = measured()
    files.write_json(given.out, {str(labels): of for labels, of in found.items()})
    insert(given.page, MARKER, table(found).markdown())


if __name__ == "__main__":
    main()
