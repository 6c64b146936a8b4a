"""DIR against subgraphs cut out by hand, an explicit double loop and its schedule."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.dir import DIR
from goodformer.models import MODELS
from goodformer.nn.layout import Layout
from goodformer.spec import Task
from tests.methods.environments import SPEC, TASKS, labels, one_environment
from tests.nn.graphs import batch, graphs


def build(task: Task = TASKS["multiclass"], model: str = "gin", **settings: object) -> DIR:
    torch.manual_seed(0)
    made = METHODS.build("dir", MODELS.build(model, SPEC, dim=16), task, **settings)
    assert isinstance(made, DIR)
    return made


def cut_out(method: DIR, invariant: bool) -> Tensor:
    """Embeddings (B, D) of one part of each graph: its edges and their ends alone, nodes numbered anew."""
    rows = []
    for graph in graphs():
        score = method.edge_scores(Batch.from_data_list([graph]))
        best = score.argsort(descending=True)[: math.ceil(method.share * len(score))]
        chosen = torch.zeros(len(score), dtype=torch.bool)
        chosen[best] = True
        chosen = chosen if invariant else ~chosen
        ends = graph.edge_index[:, chosen].unique() if chosen.any() else torch.arange(graph.num_nodes)
        part = copy.copy(graph)
        part.edge_index = torch.searchsorted(ends, graph.edge_index[:, chosen])
        part.edge_attr, part.x = graph.edge_attr[chosen], graph.x[ends]
        for name in ("cycle_walks_6", "laplacian_8", "eigenvalues_8"):
            part[name] = graph[name][ends]
        one = Batch.from_data_list([part])
        weight = (score if invariant else -score)[chosen].sigmoid()
        if method.shared:
            h = method.generator(Batch.from_data_list([graph]))[ends]
            (layer,), (norm,), (edges,) = method.model.layers, method.model.norms, method.model.edges
            rows.append(torch.relu(norm(layer(h, Layout(one), edges(one), weight))).mean(0, keepdim=True))
        else:
            rows.append(method.model.readout(method.model(one, weight), one))
    return torch.cat(rows)


LAYERS = {"generator": "layers", "scorer": "linear"}
KINDS = pytest.mark.parametrize("settings", [{}, LAYERS], ids=["network", "layers"])


@KINDS
@pytest.mark.parametrize("model", ["gin", "gin-vn"])
def test_the_parts_are_subgraphs_cut_out_of_the_graph(model: str, settings: dict) -> None:
    if model == "gin-vn" and not settings:
        pytest.skip("a virtual node sees the size of the part")
    method, data = build(model=model, share=0.4, **settings).eval(), batch()
    expected = method.invariant_classifier(cut_out(method, True))
    torch.testing.assert_close(method(data), expected, atol=1e-5, rtol=1e-4)


@KINDS
@pytest.mark.parametrize("variant", ["as_designed", "as_published"])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_objective_is_an_explicit_double_loop(task: Task, variant: str, settings: dict) -> None:
    method, data = build(task, share=0.4, intervention_weight=0.2, variant=variant, **settings).eval(), batch()
    data.y = labels(task, 6)
    y_c = method.invariant_classifier(cut_out(method, True))
    y_s = method.variant_classifier(cut_out(method, False))
    risks = []
    for j in range(6):
        mixed = torch.stack([y_c[i] * torch.sigmoid(y_s[j]) for i in range(6)])
        risks.append(one_environment(task, mixed, data.y))
    alpha, got, scaled = 0.2 * 3**1.6, method.loss(data, epoch=3), torch.stack(risks)
    weights = [1.0, 1.0]
    if variant == "as_published":  # risks are divided by the labels, and for the variance multiplied by the graphs
        labelled = 6 if task.kind == "multiclass" else int((~data.y.isnan()).sum())
        alpha, weights = 2 / (1 + math.exp(-10 * 3 / 200)) - 1, [1 / labelled, 6 / labelled]
    expected = {
        "invariant": one_environment(task, y_c, data.y),
        "intervention": alpha * (scaled * weights[0]).mean(),
        "variance": alpha * (scaled * weights[1]).var(),
        "variant": one_environment(task, y_s, data.y),
    }
    assert got.keys() == expected.keys()
    for name, term in got.items():
        torch.testing.assert_close(term, expected[name], atol=1e-5, rtol=1e-3)


@KINDS
def test_each_term_trains_what_it_should(settings: dict) -> None:
    trained = {}
    for name in ("invariant", "intervention", "variance", "variant"):
        method = build(share=0.4, **settings)
        method.loss(batch(), epoch=2)[name].backward()
        grown = {key.split(".")[0] for key, p in method.named_parameters() if p.grad is not None and p.grad.any()}
        trained[name] = grown
    everything = {"model", "generator", "scorer", "invariant_classifier"}
    assert trained == {
        "invariant": everything,
        "intervention": everything,
        "variance": everything,
        "variant": {"variant_classifier"},
    }


def test_weights_of_interventions() -> None:
    designed = build(intervention_weight=0.01)
    assert [designed.alpha(epoch) for epoch in (0, 1, 50)] == pytest.approx([0, 0.01, 0.01 * 50**1.6])
    for start in (0.01, 10.0):  # what is set does not matter
        published = build(variant="as_published", intervention_weight=start, ramp_epochs=200)
        assert [published.alpha(epoch) for epoch in (0, 50, 200, 400)] == pytest.approx(
            [0, 0.8483, 0.9999, 0.9999], abs=1e-4
        )


@pytest.mark.parametrize("model", list(MODELS))
def test_the_variant_part_leaves_no_trace_in_running_averages(model: str) -> None:
    method, data = build(model=model, share=0.4), batch()
    other = copy.deepcopy(method)
    torch.manual_seed(1)
    method.loss(data, 1)
    torch.manual_seed(1)
    other.predict(data)  # in training mode too, but only of the invariant part
    for (name, a), b in zip(method.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b, atol=0, rtol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("model", ["gin", "gin-vn"])
@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_generator_and_classifier_divide_the_layers(model: str, layers: int) -> None:
    torch.manual_seed(0)
    whole = MODELS.build(model, SPEC, dim=16, layers=layers)
    method = METHODS.build("dir", whole, TASKS["multiclass"], **LAYERS)
    assert isinstance(method, DIR)
    assert (len(method.generator.layers), len(method.model.layers)) == (min(layers, 2), max(layers - 2, 1))
    assert method.generator.dropout.cut == 0 < method.model.dropout.cut
    sum(method.loss(batch(), 2).values()).backward()
    assert [name for name, p in method.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_a_model_without_parts_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="use gin or gin-vn"):
        build(model="gps", **LAYERS)


def test_scores_follow_edges_into_another_order() -> None:
    method, data = build().eval(), batch()
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))
    moved = data.clone()
    moved.edge_index, moved.edge_attr = data.edge_index[:, order], data.edge_attr[order]
    torch.testing.assert_close(method.edge_scores(moved), method.edge_scores(data)[order], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(method(moved), method(data), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", list(MODELS))
def test_on_every_model(model: str) -> None:
    method, data = build(model=model), batch()
    terms = method.loss(data, 2)
    sum(terms.values()).backward()
    assert all(term.isfinite() for term in terms.values())
    assert all(p.grad is not None and p.grad.any() for p in method.scorer.parameters())
    assert method.eval().predict(data).logits.isfinite().all()
