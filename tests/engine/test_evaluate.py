from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Batch

from goodformer.data import Benchmark, GraphSet
from goodformer.engine.evaluate import collect, evaluate, measure, rocauc, score
from goodformer.engine.run import build_method
from goodformer.engine.store import Run
from goodformer.fitted import FittedModel
from goodformer.methods import METHODS
from goodformer.methods.base import Prediction
from goodformer.methods.erm import ERM
from goodformer.spec import Task
from tests.engine.tiny import tiny_config


def test_rocauc_passes_over_missing_labels_and_one_sided_targets() -> None:
    generator = np.random.default_rng(0)
    logits, y = generator.normal(size=(60, 4)), generator.integers(0, 2, (60, 4)).astype(float)
    y[:10, 0] = np.nan
    y[:, 2] = 1
    y[:, 3] = np.nan
    expected = (roc_auc_score(y[10:, 0], logits[10:, 0]) + roc_auc_score(y[:, 1], logits[:, 1])) / 2
    assert rocauc(logits, y) == pytest.approx(expected)
    assert rocauc(logits[:, 2:], y[:, 2:]) is None


def test_rocauc_of_classes_is_one_against_the_rest() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(50, 3, generator=generator).double(), torch.randint(3, (50,), generator=generator)
    expected = roc_auc_score(y, logits.softmax(-1), multi_class="ovr")
    assert score(Task("multiclass", 3, "rocauc"), logits, y) == pytest.approx(expected)


def test_accuracy_of_binary_targets_counts_known_labels() -> None:
    logits, y = torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([[1.0], [1.0], [float("nan")]])
    assert score(Task("binary", 1, "accuracy"), logits, y) == 0.5
    assert score(Task("binary", 1, "accuracy"), logits * float("nan"), y) is None


def test_evaluation_is_what_a_plain_loop_says(benchmark: Benchmark) -> None:
    method, _ = build_method(tiny_config(), benchmark)
    graphs = benchmark.splits["id_val"]
    method.train()
    found = evaluate(method, graphs, batch_size=7)
    assert method.training
    method.eval()
    with torch.no_grad():
        logits = torch.cat([method(graphs.batch([index])) for index in range(len(graphs))])
    y = graphs.graph["y"]
    assert found["accuracy"] == pytest.approx(float((logits.argmax(-1) == y).float().mean()))
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, y)), rel=1e-5)
    assert found.keys() == {"accuracy", "loss"}


def test_shares_of_two_processes_measure_as_the_whole(explained: Run, benchmark: Benchmark) -> None:
    predictor = FittedModel.of_run(explained)
    graphs = predictor.prepare(benchmark.splits["test"])
    indices = torch.arange(len(graphs))
    parts = [collect(predictor.method, graphs, 8, indices[rank::2]) for rank in range(2)]
    together, whole = measure(benchmark.task, parts), evaluate(predictor.method, graphs)
    assert whole.keys() == {"accuracy", "loss", "precision_at_10", "precision_at_10_logits", "edge_auc"}
    for name, value in whole.items():
        assert together[name] == pytest.approx(value, abs=1e-4), name


class Saturated(ERM):
    """Scores every edge 1; its logits rank the true edges first."""

    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch), torch.ones(batch.num_edges), edge_logits=batch.edge_truth.double())


def test_logits_rank_edges_that_a_saturated_mask_ties(benchmark: Benchmark) -> None:
    model, _ = build_method(tiny_config(), benchmark)
    method, graphs = Saturated(model.model, benchmark.task), benchmark.splits["test"]
    found = evaluate(method, graphs, batch_size=8)
    truth, graph = graphs.edge["truth"].double(), graphs.edge_graph
    true, edges = (torch.zeros(len(graphs)).index_add(0, graph, values.float()) for values in (truth, truth * 0 + 1))
    assert found["precision_at_10"] == pytest.approx(float((true / edges).mean()))
    assert found["precision_at_10_logits"] == pytest.approx(float((true.clamp(max=10) / 10).mean()))
    assert found["edge_auc"] == 0.5


def test_no_graph_gives_no_number(benchmark: Benchmark) -> None:
    method, _ = build_method(tiny_config(), benchmark)
    assert evaluate(method, benchmark.splits["test"].subset([])) == {"accuracy": None, "loss": None}


def test_a_method_may_take_gradients_at_test_time(benchmark: Benchmark) -> None:
    config = tiny_config(method="needs")
    method, _ = build_method(config, benchmark)
    assert type(method) is METHODS["needs"]
    assert evaluate(method, benchmark.splits["test"])["accuracy"] is not None


class ByEnds(ERM):
    """Scores an edge by its ends: node 0 of every graph matters most."""

    def edge_scores(self, batch: Batch) -> torch.Tensor:
        local = batch.edge_index - batch.ptr[batch.batch[batch.edge_index[0]]]
        return -local.sum(0).float()


def test_only_graphs_with_truth_count_and_nodes_are_scored_by_their_edges(benchmark: Benchmark) -> None:
    graphs = benchmark.splits["test"]
    method = ByEnds(build_method(tiny_config(), benchmark)[0].model, benchmark.task)
    truth = graphs.edge["truth"].clone()
    truth[graphs.edge_graph < 5] = False  # five graphs without a true subgraph
    nodes = torch.zeros(int(graphs.node_ptr[-1]), dtype=torch.bool)
    nodes[graphs.edge_index[:, truth].flatten()] = True
    marked = GraphSet(
        {**graphs.node, "node_truth": nodes},
        {**graphs.edge, "truth": truth},
        graphs.graph,
        graphs.node_ptr,
        graphs.edge_ptr,
    )
    found = evaluate(method, marked, batch_size=7)
    rest = marked.subset(range(5, len(marked)))
    scores = -rest.edge["index"].sum(0).float()
    assert found["edge_auc"] == pytest.approx(roc_auc_score(rest.edge["truth"], scores))
    around = [scores[(rest.edge_index == node).any(0)] for node in range(int(rest.node_ptr[-1]))]
    by_node = [float(one.max() + one.mean()) for one in around]
    assert found["node_auc"] == pytest.approx(roc_auc_score(rest.node["node_truth"], by_node))
    assert "node_auc" not in evaluate(method, graphs)
