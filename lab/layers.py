"""Measure how well each disentangling layer of GOODFormer's preset as_published finds the motif.

    python -m lab.layers RUN ... -o results/layers.json

The published code explains a prediction by the mask of its second layer. The weights are those of the selected epoch of
each run; only the layer that explains is exchanged.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from goodformer import files
from goodformer.data import load_benchmark
from goodformer.engine.evaluate import evaluate
from goodformer.engine.store import Run
from goodformer.engine.weights import load_weights
from goodformer.errors import InputError
from goodformer.models.goodformer import GOODFormer

METRICS = ("precision_at_10", "precision_at_10_logits", "edge_auc")


def measure(run: Run) -> dict[str, Any]:
    """Return the metrics of both layers on the OOD splits of a run's data."""
    method, _ = load_weights(run.weights())
    model = method.model
    if not isinstance(model, GOODFormer) or model.predictor_kind != "disentangler":
        raise InputError(f"{run.folder} has no second disentangling layer; give a run of goodformer:as_published.")
    config = run.config
    data = load_benchmark(**config.dataset).with_encodings(method.encodings)
    found: dict[str, Any] = {"run": config.id, "dataset": config.dataset, "seed": config.seed, "budget": config.budget}
    for layer in ("first", "second"):
        model.explained_by = layer
        found[layer] = {}
        for split in ("val", "test"):
            measured = evaluate(method, data.splits[split], config.training.eval_batch_size)
            found[layer][split] = {name: None if (one := measured[name]) is None else round(one, 4) for name in METRICS}
    return found


def main() -> None:
    """Measure the given runs and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="Folders of runs of goodformer:as_published.")
    parser.add_argument("--out", "-o", type=Path, default=Path("results/layers.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {one["run"]: one for one in (files.read_json(given.out)["runs"] if given.out.exists() else [])}
    for folder in given.runs:
        one = measure(Run(folder))
        found[one["run"]] = one
        files.write_json(given.out, {"runs": list(found.values())})
        print(one, flush=True)


if __name__ == "__main__":
    main()
