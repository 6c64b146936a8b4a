"""Fidelity against a plain loop over graphs and edges."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph, to_networkx

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.explain.fidelity import (
    CONTRIBUTES,
    DECIDES,
    NONE,
    Fidelity,
    confidence,
    fidelity,
    only_edges,
    without_edges,
)
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


def cut(graph: Data, scores: Tensor, k: int | None, keep: bool) -> Data:
    """The graph without its best edges and the nodes they leave alone, or these edges and their nodes alone."""
    best = {tuple(pair) for pair in score_edges(graph.edge_index, scores, k).subgraph.T.tolist()}
    chosen = torch.tensor([tuple(sorted(pair)) in best for pair in graph.edge_index.T.tolist()])
    taken = chosen if keep else ~chosen
    nodes = graph.edge_index[:, taken].unique()
    if not keep:
        alone = [node for node in range(graph.num_nodes) if node not in graph.edge_index[:, chosen].unique()]
        nodes = torch.cat((nodes, torch.tensor(alone, dtype=torch.long))).unique()
        nodes = nodes if len(nodes) else torch.arange(graph.num_nodes)
    index, attr = subgraph(
        nodes,
        graph.edge_index[:, taken],
        graph.edge_attr[taken],
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
        size = score_edges(graph.edge_index, score, k).size
        if not size:
            assert math.isnan(found.whole[place])
            assert math.isnan(found.removed[place])
            assert math.isnan(found.kept[place])
            assert int(found.edges[place]) == 0
            continue
        said = predict([graph])
        for keep, got in ((False, found.removed), (True, found.kept)):
            other = predict([cut(graph, score, k, keep)])
            if task.kind == "multiclass":
                expected = other[0, said[0].argmax()]
            else:
                expected = torch.where(said[0] > 0.5, other[0], 1 - other[0]).mean()
            assert float(got[place]) == pytest.approx(float(expected), abs=1e-6)
        assert int(found.edges[place]) == size


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
        "decides": 1,
        "contributes": 0,
        "no single part": 2,
    }
    nothing = fidelity(predictor(CLASSES), CLASSES, *sample((1, 1))).summary()
    assert nothing["removed"] is None
    assert nothing["kept_error"] is None
    assert nothing["graphs"] == 0


def test_random_parts_are_as_large_and_depend_on_the_graph_alone() -> None:
    graphs, scores = sample((12, 9, 12))
    seen: list[GraphSet] = []
    first = fidelity(predictor(CLASSES, seen), CLASSES, graphs, scores, k=4, draws=3)
    assert [len(part) for part in seen] == [3, 2 * (1 + 2 * 3) * 3]  # all cut graphs at once
    counts = seen[1].edge_ptr.diff().view(2, -1, 3)
    assert (counts[0] == graphs.edge_ptr.diff() - 8).all()
    assert (counts[1] == 8).all()
    pieces = [[seen[1][21 + 3 * part + place] for place in range(3)] for part in range(7)]
    assert len({str(row[0].edge_index) + str(row[0].x) for row in pieces}) >= 5  # drawn anew
    assert all(is_connected(one) for row in pieces[4:] for one in row)  # the last draws are connected pieces
    assert not all(is_connected(one) for row in pieces[1:4] for one in row)
    alone = fidelity(predictor(CLASSES), CLASSES, graphs.subset([1]), scores[1:2], k=4, draws=3)
    for name in ("removed", "kept", "random_removed", "random_kept"):
        assert float(getattr(alone, name)) == pytest.approx(float(getattr(first, name)[1]), abs=1e-6)
    other = fidelity(predictor(CLASSES), CLASSES, graphs, scores, k=4, draws=3, seed=1)
    assert not torch.equal(first.random_kept, other.random_kept)
    assert torch.equal(first.kept, other.kept)


def is_connected(graph: Data) -> bool:
    return nx.is_connected(to_networkx(graph, to_undirected=True))


def test_verdicts_compare_with_random_parts() -> None:
    """Whole, removed, kept, random_removed, random_kept; each verdict needs the margin, and NaN none."""
    rows = {
        (0.9, 0.2, 0.9, 0.8, 0.3): DECIDES,
        (0.9, 0.2, 0.4, 0.8, 0.3): CONTRIBUTES,
        (0.9, 0.7, 0.9, 0.8, 0.3): CONTRIBUTES,
        (0.9, 0.2, 0.9, 0.3, 0.8): NONE,  # random parts do the same
        (0.9, 0.9, 0.2, 0.5, 0.8): NONE,  # worse than random parts
        (0.9, 0.9, 0.9, 0.9, 0.9): NONE,  # nothing matters
        (math.nan,) * 5: NONE,
    }
    columns = torch.tensor(list(rows)).T
    found = Fidelity(torch.ones(len(rows)), *columns)
    assert found.verdicts == list(rows.values())
    again = Fidelity.concat([found.subset([6, 0]), found.subset([1])])
    assert again.verdicts == [NONE, DECIDES, CONTRIBUTES]


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
        lost = set(graph.edge_index[:, mask].flatten().tolist()) - set(graph.edge_index[:, ~mask].flatten().tolist())
        stay = torch.tensor([node for node in range(graph.num_nodes) if node not in lost], dtype=torch.long)
        stay = stay if len(stay) else torch.arange(graph.num_nodes)
        index, attr = subgraph(
            stay, graph.edge_index[:, ~mask], graph.edge_attr[~mask], relabel_nodes=True, num_nodes=graph.num_nodes
        )
        assert torch.equal(left[place].edge_index, index)
        assert torch.equal(left[place].edge_attr, attr)
        assert torch.equal(left[place].x, graph.x[stay])
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
