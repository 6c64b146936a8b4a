"""Edge scores against true subgraphs: own and post-hoc scores of a trained run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer.data import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine.store import Run
from goodformer.errors import InputError
from goodformer.explain import truth


@pytest.fixture(autouse=True)
def _shared(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(shared_cache))


def test_own_scores_measure_as_in_the_record(explained: Run) -> None:
    found = truth.measure_explanations(explained, splits=("id_val", "test"))
    assert explained.summary is not None
    for split, row in found["splits"].items():
        for name in ("edge_auc", "precision_at_10"):
            assert row[name] == pytest.approx(explained.summary["splits"][split][name], abs=1e-6)
    assert (found["kind"], found["source"], found["id"]) == ("explanation", "own", explained.config.id)


def test_gradients_of_a_method_without_scores(finished: Run, explained: Run) -> None:
    with pytest.raises(InputError, match=r"no weighted logits.*own"):
        truth.measure_explanations(explained, "gradient")
    with pytest.raises(InputError, match=r"ERM does not score edges.*gradient"):
        truth.measure_explanations(finished)
    found = truth.measure_explanations(finished, "gradient", ["val"], limit=9)["splits"]["val"]
    assert found["graphs"] == 9
    assert 0 < found["edge_auc"] < 1
    assert "node_auc" not in found  # motif graphs have no true nodes


def test_nodes_are_measured_where_they_are_known(
    finished: Run, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = benchmark.splits["val"]
    nodes = torch.zeros(int(graphs.node_ptr[-1]), dtype=torch.bool)
    nodes[graphs.edge_index[:, graphs.edge["truth"]].flatten()] = True
    marked = graphs.with_node("node_truth", nodes)
    perfect = truth._measured(marked, marked.edge["truth"].float())
    assert (perfect["edge_auc"], perfect["node_auc"]) == (1, 1)
    assert truth._measured(marked, torch.zeros_like(marked.edge["truth"]).float())["node_auc"] == 0.5
    bare: Any = GraphSet(graphs.node, {"index": graphs.edge["index"]}, graphs.graph, graphs.node_ptr, graphs.edge_ptr)
    splits = {split: bare if split == "val" else part for split, part in benchmark.splits.items()}
    monkeypatch.setattr(truth, "load_benchmark", lambda **_: replace(benchmark, name="mine", splits=splits))
    with pytest.raises(InputError, match="mine has no true subgraphs"):
        truth.measure_explanations(finished, "gradient", ["val"])


def test_a_record_replaces_that_of_the_same_run_and_source(explained: Run, tmp_path: Path) -> None:
    record, path = truth.measure_explanations(explained, splits=("val",)), tmp_path / "a.jsonl"
    assert truth.export(record, path) == 1
    assert truth.export({**record, "splits": {}}, path) == 1
    assert truth.export({**record, "source": "gradient"}, path) == 2
    assert json.loads(path.read_text().splitlines()[0])["splits"] == {}
    path.write_text('{"id": 1}\n')
    with pytest.raises(InputError, match="choose another file"):
        truth.export(record, path)
