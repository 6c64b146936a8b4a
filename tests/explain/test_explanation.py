"""Predictions, edge scores and their fidelity in memory."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

from goodformer.data import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import featurise
from goodformer.engine.store import Run
from goodformer.errors import InputError
from goodformer.explain.explanation import class_name, edge_scores, explain
from goodformer.fitted import FittedModel
from goodformer.spec import Task
from tests.apply.molecules import counted_passes, untrained

SMILES = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Oc1ccccc1C(=O)O"]


def labelled(graphs: GraphSet, y: torch.Tensor) -> GraphSet:
    return GraphSet(graphs.node, graphs.edge, {"y": y}, graphs.node_ptr, graphs.edge_ptr)


@pytest.mark.parametrize("name", ["finished", "explained"])
def test_every_pass_is_used(name: str, benchmark: Benchmark, request: pytest.FixtureRequest) -> None:
    """One prediction of the whole graphs, and bare ones of all cut graphs together, in batches of 64."""
    run: Run = request.getfixturevalue(name)
    model, graphs = FittedModel.of_run(run), benchmark.splits["test"].subset([0, 3, 6])
    model.fit_uncertainty(benchmark.splits["train"], benchmark.splits["id_val"])
    with counted_passes(model) as calls:
        found = explain(model, graphs, k=4)
    own = name == "explained"
    occluded = 0 if own else int(graphs.edge_ptr.diff().max()) // 2 + 2  # one per edge, and the whole graphs twice
    encodings = len(model.method.encodings)
    assert (calls["predict"], calls["forward"], calls["edge_scores"]) == (1, 2, 0 if own else 1)
    assert (calls["weighted_logits"], calls["encode"]) == (occluded, 2 * encodings)
    assert found.source == ("own" if own else "post-hoc")
    with counted_passes(model) as calls:
        again = explain(model, graphs, k=4, known=(found.answer, found.scores, found.source))
    assert dict(calls) == {"forward": 2} | ({"encode": encodings} if encodings else {})
    assert [again.record(place, 4) for place in range(3)] == [found.record(place, 4) for place in range(3)]
    with counted_passes(model) as calls:
        edge_scores(model, graphs)
    assert (calls["predict"], calls["forward"], calls["edge_scores"]) == (0, 0, 1)
    assert calls["encode"] == encodings


@pytest.mark.parametrize(("model", "environments"), [("gin", 0), ("gps", 0), ("gin", 2)])
def test_fidelity_is_that_of_graphs_cut_by_hand(model: str, environments: int) -> None:
    fitted = untrained(model=model, environments=environments)
    if fitted.method.model.fusion is not None:
        fitted.method.model.fusion.seen.fill_(True)
    found = explain(fitted, featurise(SMILES).graphs.as_given(), k=4)
    assert found.fidelity is not None
    for place in range(2):
        graph, record = found.graphs[place], found.record(place, 4)
        best = {tuple(edge) for edge in record["edges"][: record["k"]]}
        chosen = torch.tensor([tuple(sorted(pair)) in best for pair in graph.edge_index.T.tolist()])
        for name, edges in (("removed", ~chosen), ("kept", chosen)):
            nodes = graph.edge_index[:, edges].unique()  # every atom has a bond
            number = torch.full((graph.num_nodes,), -1).index_copy(0, nodes, torch.arange(len(nodes)))
            part = Data(
                x=graph.x[nodes], edge_index=number[graph.edge_index[:, edges]], edge_attr=graph.edge_attr[edges]
            )
            share = float(fitted.predict([part]).probabilities)  # with the encodings of the part
            expected = share if record["predicted"] == [1] else 1 - share
            assert record["fidelity"][name] == pytest.approx(expected, abs=1e-5)


def test_post_hoc_scores_are_drops_in_log_odds(finished: Run, benchmark: Benchmark) -> None:
    model, graphs = FittedModel.of_run(finished), benchmark.splits["test"].subset([0, 7])
    found = explain(model, graphs, measure=False)
    for place, graph in enumerate(graphs):
        record = found.record(place, None)
        (low, high), best = record["edges"][0], record["scores"][0]
        weight = (~((graph.edge_index == low).any(0) & (graph.edge_index == high).any(0))).float()
        batch = model.prepare([graph]).batch([0])
        with torch.no_grad():
            whole, without = (
                float(model.method.weighted_logits(batch, one).double().softmax(1)[0, record["predicted"]].logit())
                for one in (torch.ones_like(weight), weight)
            )
        assert best == pytest.approx(whole - without, abs=1e-3)


@pytest.mark.parametrize(
    ("task", "classes", "expected"),
    [
        (Task("binary", 1, "rocauc"), {"y": ("inactive", "active")}, "mine: class active, predicted {} ({:.2f})"),
        (Task("binary", 1, "rocauc"), None, "mine: class 1, predicted {} ({:.2f})"),
        (Task("multiclass", 3), {"y": ("a", "b", "c")}, "mine: class b, predicted {} ({:.2f})"),
    ],
)
def test_titles_hold_name_label_prediction_and_probability(
    task: Task, classes: dict[str, tuple[str, ...]] | None, expected: str
) -> None:
    y = torch.tensor([[1.0]]) if task.kind == "binary" else torch.tensor([1])
    model = untrained(task=task, classes=classes)
    found = explain(model, labelled(featurise(SMILES[:1]).graphs, y), ["mine"], measure=False)
    shares, code = found.answer.probabilities[0], int(found.answer.classes.flatten()[0])
    share = shares[code] if task.kind == "multiclass" else shares[0] if code else 1 - shares[0]
    (names,) = model.classes.values()
    assert found.title(0) == expected.format(names[code], float(share))
    assert found.notes() == []


def test_titles_of_several_targets_name_each() -> None:
    names = {"a": ("inactive", "active"), "b": ("safe", "toxic")}
    model = untrained(task=Task("binary", 2, "rocauc"), classes=names)
    graphs = labelled(featurise(SMILES[:1]).graphs, torch.tensor([[1.0, math.nan]]))
    found = explain(model, graphs, ["mine"], measure=False)
    a, b = found.answer.classes[0].tolist()
    assert found.title(0) == f"mine: class a active, b ?, predicted a {names['a'][a]}, b {names['b'][b]}"
    assert "2 targets together" in found.notes()[0]


def test_codes_without_a_name_are_shown_as_numbers() -> None:
    assert class_name(7, {"y": ("a", "b")}) == "7"
    assert class_name([1.0, None], {"y": ("a", "b")}) == "1, ?"


@pytest.mark.parametrize("wrong", [{"names": ["one"]}, {"smiles": ["C"]}])
def test_names_and_smiles_must_match_the_graphs(wrong: dict[str, list[str]]) -> None:
    with pytest.raises(InputError, match=r"1 .* for 2 graphs"):
        explain(untrained(), featurise(SMILES).graphs, **wrong)  # type: ignore[arg-type]
