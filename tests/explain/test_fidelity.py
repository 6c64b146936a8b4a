"""Fidelity against a plain loop over graphs and edges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.explain.fidelity import Fidelity, confidence, fidelity, only_edges, without_edges
from goodformer.explain.subgraph import score_edges
from goodformer.spec import Task
from tests.nn.graphs import random_graph

CLASSES, BINARY, TARGETS = Task("multiclass", 3), Task("binary", 1, "rocauc"), Task("binary", 3, "rocauc")


def sample(sizes: tuple[int, ...] = (6, 1, 9, 4), seed: int = 0) -> tuple[GraphSet, list[Tensor]]:
    """Graphs with features and codes of edges, one without an edge, and a random score of each directed edge."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for n in sizes:
        index = random_graph(n, 0.5, generator)
        attr = torch.randn(index.shape[1], 2, generator=generator)
        rows.append(Data(x=torch.randn(n, 3, generator=generator), edge_index=index, edge_attr=attr))
    return GraphSet.from_list(rows), [torch.rand(row.num_edges, generator=generator) for row in rows]


def features(graph: Data) -> Tensor:
    """Something that sees nodes, edges and where edges are, (3,)."""
    ends = graph.x[graph.edge_index[0]] * graph.x[graph.edge_index[1]] + graph.edge_attr[:, :1]
    return torch.tanh(graph.x.mean(0)) + ends.sum(0) / 5


def predictor(task: Task, seen: list[GraphSet] | None = None) -> object:
    """Probabilities by graph, without anything that was vectorised."""

    def predict(graphs: GraphSet) -> Tensor:
        if seen is not None:
            seen.append(graphs)
        logits = torch.stack([features(graph) for graph in graphs])[:, : task.outputs]
        return logits.softmax(1) if task.kind == "multiclass" else logits.sigmoid()

    return predict


def cut(graph: Data, scores: Tensor, k: int, keep: bool) -> Data:
    """The graph without its best edges, or these and their nodes alone, edge by edge."""
    best = {tuple(pair) for pair in score_edges(graph.edge_index, scores, k).subgraph.T.tolist()}
    chosen = torch.tensor([tuple(sorted(pair)) in best for pair in graph.edge_index.T.tolist()])
    if not keep:
        return Data(x=graph.x, edge_index=graph.edge_index[:, ~chosen], edge_attr=graph.edge_attr[~chosen])
    nodes = graph.edge_index[:, chosen].unique()
    index, attr = subgraph(
        nodes,
        graph.edge_index[:, chosen],
        graph.edge_attr[chosen],
        relabel_nodes=True,
        num_nodes=graph.num_nodes,
    )
    return Data(x=graph.x[nodes], edge_index=index, edge_attr=attr)


@pytest.mark.parametrize("task", [CLASSES, BINARY, TARGETS], ids=str)
@pytest.mark.parametrize("k", [1, 2, None])
def test_it_is_that_of_a_plain_loop(task: Task, k: int | None) -> None:
    graphs, scores = sample()
    predict = predictor(task)
    found = fidelity(predict, task, graphs, scores, k)
    for place, (graph, score) in enumerate(zip(graphs, scores, strict=True)):
        if not graph.num_edges:
            assert math.isnan(found.whole[place])
            assert math.isnan(found.removed[place])
            assert math.isnan(found.kept[place])
            assert int(found.edges[place]) == 0
            continue
        size = k if k is not None else -(-graph.num_edges // 2 // 3)
        said = predict([graph])
        for keep, got in ((False, found.removed), (True, found.kept)):
            other = predict([cut(graph, score, size, keep)])
            if task.kind == "multiclass":
                expected = other[0, said[0].argmax()]
            else:
                expected = torch.where(said[0] > 0.5, other[0], 1 - other[0]).mean()
            assert float(got[place]) == pytest.approx(float(expected), abs=1e-6)
        assert int(found.edges[place]) == min(size, graph.num_edges // 2)


def test_summary_is_the_mean_over_graphs_that_have_edges() -> None:
    nan = torch.nan
    parts = [[3, 0, 2], [0.9, nan, 0.8], [0.4, nan, 0.7], [0.8, nan, 0.9], [0.8, nan, 0.6], [0.5, nan, 0.7]]
    summary = Fidelity(*(torch.tensor(part) for part in parts)).summary()
    assert summary == {
        "graphs": 2,
        "probability": pytest.approx(0.85),
        "removed": pytest.approx((0.5 + 0.1) / 2),
        "random_removed": pytest.approx((0.1 + 0.2) / 2),
        "removed_error": pytest.approx(torch.tensor([0.4, -0.1]).std().item() / 2**0.5, abs=1e-5),
        "kept": pytest.approx((0.1 - 0.1) / 2, abs=1e-5),
        "random_kept": pytest.approx((0.4 + 0.1) / 2),
        "kept_error": pytest.approx(torch.tensor([0.3, 0.2]).std().item() / 2**0.5, abs=1e-5),
    }
    nothing = fidelity(predictor(CLASSES), CLASSES, *sample((1, 1))).summary()
    assert nothing["removed"] is None
    assert nothing["kept_error"] is None
    assert nothing["graphs"] == 0


def test_random_edges_are_as_many_and_others_by_draw_but_not_by_call() -> None:
    graphs, scores = sample((12, 12, 12))
    seen: list[GraphSet] = []
    first = fidelity(predictor(CLASSES, seen), CLASSES, graphs, scores, k=4, draws=3)
    assert len(seen) == 1 + 2 * (1 + 3)
    removed, kept = seen[1::2], seen[2::2]
    assert all(((graphs.edge_ptr - part.edge_ptr).diff() == 8).all() for part in removed)
    assert all((part.edge_ptr.diff() == 8).all() for part in kept)
    assert len({tuple(part.edge["index"].flatten().tolist()) for part in kept}) == 4
    again = fidelity(predictor(CLASSES), CLASSES, graphs, scores, k=4, draws=3)
    assert torch.equal(first.random_kept, again.random_kept)
    other = fidelity(predictor(CLASSES), CLASSES, graphs, scores, k=4, draws=3, seed=1)
    assert not torch.equal(first.random_kept, other.random_kept)
    assert torch.equal(first.kept, other.kept)


def test_encodings_of_the_whole_graph_are_dropped() -> None:
    graphs, scores = sample()
    seen: list[GraphSet] = []
    fidelity(predictor(CLASSES, seen), CLASSES, graphs.with_node("laplacian_8", torch.rand(20, 8)), scores, draws=1)
    assert all(set(part.node) == {"x"} for part in seen)


def test_a_good_explanation_beats_random_edges_and_a_reversed_one_does_not() -> None:
    graphs = sample((12,) * 40)[0]
    index = graphs.edge_index
    truth = (graphs.node["x"][index[0], 0] > 0.3) & (graphs.node["x"][index[1], 0] > 0.3)  # edges that a model counts

    def predict(part: GraphSet) -> Tensor:
        ends = part.edge_index
        counted = (part.node["x"][ends[0], 0] > 0.3) & (part.node["x"][ends[1], 0] > 0.3)
        total = torch.zeros(len(part)).index_add(0, part.edge_graph, counted.float())
        return torch.stack([torch.full_like(total, 0.5), total / 4], 1).softmax(1)

    counts = torch.bincount(graphs.edge_graph[truth], minlength=40)
    some = graphs.subset((counts >= 6).nonzero()[:, 0])
    ends = some.edge_index
    good = ((some.node["x"][ends[0], 0] > 0.3) & (some.node["x"][ends[1], 0] > 0.3)).float()
    parts = good.split(some.edge_ptr.diff().tolist())
    summary = fidelity(predict, Task("multiclass", 2), some, parts, k=4).summary()
    assert summary["removed"] > summary["random_removed"] + 4 * summary["removed_error"]
    assert summary["kept"] < summary["random_kept"] - 4 * summary["kept_error"]
    worse = fidelity(predict, Task("multiclass", 2), some, [-part for part in parts], k=4).summary()
    assert worse["removed"] < worse["random_removed"]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_cutting_is_that_of_pyg(seed: int, share: float) -> None:
    graphs, _ = sample((5, 1, 3, 8), seed)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(int(graphs.edge_ptr[-1]), generator=generator) < share
    left, kept = without_edges(graphs, chosen), only_edges(graphs, chosen)
    for place, mask in enumerate(chosen.split(graphs.edge_ptr.diff().tolist())):
        graph = graphs[place]
        assert torch.equal(left[place].edge_index, graph.edge_index[:, ~mask])
        assert torch.equal(left[place].edge_attr, graph.edge_attr[~mask])
        assert torch.equal(left[place].x, graph.x)
        nodes = graph.edge_index[:, mask].unique() if mask.any() else torch.arange(graph.num_nodes)
        wanted = mask if mask.any() else torch.ones_like(mask)
        index, attr = subgraph(
            nodes, graph.edge_index[:, wanted], graph.edge_attr[wanted], relabel_nodes=True, num_nodes=graph.num_nodes
        )
        assert torch.equal(kept[place].edge_index, index)
        assert torch.equal(kept[place].edge_attr, attr)
        assert torch.equal(kept[place].x, graph.x[nodes])


def test_confidence_of_what_was_said() -> None:
    said = torch.tensor([[0.2, 0.7, 0.1], [0.5, 0.2, 0.3]])
    other = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.9, 0.0]])
    assert confidence(CLASSES, said, other).tolist() == pytest.approx([0.3, 0.1])
    assert confidence(TARGETS, said, other).tolist() == pytest.approx([(0.7 + 0.3 + 0.6) / 3, (0.9 + 0.1 + 1.0) / 3])


def test_scores_that_do_not_fit_are_refused() -> None:
    graphs, scores = sample()
    for wrong in (scores[:2], [*scores[:3], scores[3][:-1]]):
        with pytest.raises(InputError, match="one score per edge"):
            fidelity(predictor(CLASSES), CLASSES, graphs, wrong)
