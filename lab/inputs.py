"""Measure how well the node inputs alone find the motif, without any training.

    python -m lab.inputs -o results/inputs.json

The inputs of the preset `default`, cycle walks, are zero off cycles, and motifs contain cycles. Here the score of an
edge is the smaller sum of the inputs at its two ends. Precision@10 of these scores on OOD test is what an explanation
must exceed before its method deserves the credit.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from goodformer import files
from goodformer.config.presets import configure
from goodformer.data import load_benchmark
from goodformer.engine.precision import graph_precision
from goodformer.report.artefacts import CONCEPT, MOTIF, SPURIOUS
from goodformer.spec import Encoding


def measure(dataset: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs, the number of OOD test graphs and Precision@10 of the inputs alone."""
    (inputs,) = configure(dataset).model["inputs"]
    benchmark = load_benchmark(**dataset).with_encodings((inputs,))
    graphs = benchmark.splits["test"]
    node = graphs.node[Encoding.parse(inputs).attribute].sum(1)  # (N,)
    source, target = graphs.edge_index
    scores = torch.minimum(node[source], node[target])
    found = graph_precision(scores, graphs.edge["truth"], graphs.edge_graph, len(graphs))
    return {"inputs": inputs, "graphs": len(graphs), "precision_at_10": round(float(found.nanmean()), 4)}


def main() -> None:
    """Measure all synthetic benchmarks and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/inputs.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    places: dict[str, dict[str, Any]] = {**MOTIF, **CONCEPT, **SPURIOUS}
    found = {}
    for title, dataset in places.items():
        found[title] = {"dataset": dataset, **measure(dataset)}
        print(f"{title}: Precision@10 of the inputs alone {found[title]['precision_at_10']:.3f}", flush=True)
    files.write_json(given.out, found)


if __name__ == "__main__":
    main()
