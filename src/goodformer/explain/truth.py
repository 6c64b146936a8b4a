"""How well edge scores find the true subgraphs of a benchmark: a method's own scores, or post-hoc ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine.precision import edge_auc, graph_precision, node_scores
from goodformer.engine.record import identity, provenance
from goodformer.engine.store import Run, merge_lines
from goodformer.errors import InputError, check_name
from goodformer.explain import posthoc
from goodformer.fitted import FittedModel

KIND = "explanation"
"""The kind of these records in files."""
OWN = "own"
"""The method's own edge scores; the other sources are the algorithms of `goodformer.explain.posthoc`."""
SOURCES = (OWN, *posthoc.ALGORITHMS)


def measure_explanations(
    run: Run,
    source: str = OWN,
    splits: Sequence[str] = ("id_val", "val"),
    limit: int | None = None,
    weights: str = "best",
) -> dict[str, Any]:
    """Measure edge scores against the true subgraphs of a run's benchmark, as one record.

    Only graphs with a true edge count. The score of a node is the highest of its edges. ROC-AUC is over all edges (or
    nodes) of these graphs together. Post-hoc algorithms explain the class that is predicted, not the true one.

    Args:
        run: A trained run.
        source: ``own``, or a post-hoc algorithm: ``gradient`` (integrated gradients), ``occlusion`` or ``mask``.
        splits: Splits to measure.
        limit: Largest number of graphs per split, the first ones; by default all.
        weights: ``best`` or ``last``.
    """
    check_name("source of edge scores", source, SOURCES)
    model, benchmark = FittedModel.of_run(run, weights), load_benchmark(**run.config.dataset)
    found = {}
    for split in splits:
        graphs = benchmark.splits[split]
        if "truth" not in graphs.edge:
            raise InputError(f"{benchmark.name} has no true subgraphs; measure a run on good-motif or molecule-rules.")
        known = torch.zeros(len(graphs), dtype=torch.bool)
        known[graphs.edge_graph[graphs.edge["truth"]]] = True
        chosen = graphs.subset(known.nonzero().flatten()[:limit])
        found[split] = _measured(chosen, _scores(model, model.prepare(chosen), source))
    return {
        "kind": KIND,
        **identity(run.config, benchmark),
        "weights": weights,
        "source": source,
        "splits": found,
        **provenance(),
        "config": run.config.to_dict(),
    }


def export(record: Mapping[str, Any], path: str | Path) -> int:
    """Add a record to a file of JSON lines, where it replaces that of the same run and source; return its length."""

    def check(path: Path, lines: Sequence[Any]) -> None:
        if not all(isinstance(line, dict) and line.get("kind") == KIND for line in lines):
            raise InputError(f"{path} contains a line that is not a measured explanation; choose another file.")

    return merge_lines(Path(path), [dict(record)], lambda line: (line["id"], line["weights"], line["source"]), check)


def _scores(model: FittedModel, graphs: GraphSet, source: str) -> Tensor:
    """Return one score per directed edge of all graphs (E,)."""
    name = type(model.method).__name__
    if source != OWN and not model.method.weighs_edges:
        raise InputError(f"{name} has no weighted logits, so no post-hoc scores; choose own, or a run of erm.")
    found = model.edge_scores(graphs) if source == OWN else posthoc.edge_scores(model.method, graphs, algorithm=source)
    if found is None:
        raise InputError(f"{name} does not score edges itself; choose one of {', '.join(SOURCES[1:])}.")
    return torch.cat([torch.empty(0), *found])


def _measured(graphs: GraphSet, scores: Tensor) -> dict[str, Any]:
    """Return the metrics of edge scores (E,)."""
    truth = graphs.edge["truth"]
    precision = graph_precision(scores, truth, graphs.edge_graph, len(graphs))  # (B,)
    found = {"edge_auc": edge_auc(scores, truth), "precision_at_10": float(precision.mean())}
    if "node_truth" in graphs.node:
        by_node = node_scores(scores, graphs.edge_index, int(graphs.node_ptr[-1]))  # (N,)
        found["node_auc"] = edge_auc(by_node, graphs.node["node_truth"])
    known = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return {"graphs": len(graphs), **known}
