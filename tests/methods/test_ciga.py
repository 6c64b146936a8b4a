"""CIGA's terms computed directly, and what each of them trains."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.methods import METHODS
from goodformer.methods.cal import membership
from goodformer.methods.ciga import CIGA, contrast, hinge
from goodformer.models import MODELS
from goodformer.nn.layout import Layout
from goodformer.nn.selection import SelectedEdges
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import NETWORKS, batch

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))


def build(model: str = "gin", task: Task | None = None, **settings: object) -> CIGA:
    torch.manual_seed(0)
    made = METHODS.build("ciga", MODELS.build(model, SPEC, dim=16, dropout_rate=0.0), task or Task(), **settings)
    assert isinstance(made, CIGA)
    return made


def embedded(method: CIGA, data: Batch, h: Tensor, part: SelectedEdges) -> Tensor:
    """Embeddings of a part (B, D): all layers on the graph's features, or those after the first two on h."""
    weight = part.edge_weight
    if len(method.model.layers) == 3:
        states = method.model(data, weight)
    else:
        (layer,), (norm,), (edges,) = method.model.layers, method.model.norms, method.model.edges
        states = torch.relu(norm(layer(h, Layout(data), edges(data), weight)))
    return torch.stack([(states * part.node_factor)[data.batch == g].mean(0) for g in range(data.num_graphs)])


def contrast_by_hand(z: Tensor, y: list[int], temperature: float) -> Tensor:
    """Anchor by anchor, positive by positive; a negative label is a missing one."""
    anchors = []
    for i in range(len(y)):
        positives = [p for p in range(len(y)) if p != i and y[p] == y[i] >= 0]
        if positives:
            everything = torch.stack([torch.exp(z[i] @ z[a] / temperature) for a in range(len(y)) if a != i]).sum()
            terms = [z[i] @ z[p] / temperature - everything.log() for p in positives]
            anchors.append(-torch.stack(terms).mean())
    return torch.stack(anchors).mean()


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_the_contrast_equals_a_direct_computation(temperature: float) -> None:
    z, y = F.normalize(torch.randn(8, 5)), [0, 0, 1, 2, 1, 1, 0, 3]  # 2 and 3 are alone
    got = contrast(z, membership(Task("multiclass", 4), torch.tensor(y)), temperature)
    torch.testing.assert_close(got, contrast_by_hand(z, y, temperature))


def test_the_contrast_of_several_targets_passes_over_missing_labels() -> None:
    z = F.normalize(torch.randn(5, 3))
    y = torch.tensor([[0, 1], [0, math.nan], [1, 1], [math.nan, 1], [1, 0]])
    columns = [[0, 0, 1, -1, 1], [1, -1, 1, 1, 0]]
    anchors = [4, 3]  # graphs with a companion, by target
    expected = sum(n * contrast_by_hand(z, labels, 1.0) for n, labels in zip(anchors, columns, strict=True)) / 7
    torch.testing.assert_close(contrast(z, membership(Task("binary", 2), y)), expected)


def test_no_companion_no_contrast() -> None:
    z = F.normalize(torch.randn(3, 4)).requires_grad_()
    assert contrast(z, membership(Task(), torch.arange(3))) == 0
    assert contrast(z[:1], membership(Task(), torch.tensor([0]))) == 0


def test_the_hinge_counts_graphs_whose_variant_part_does_worse() -> None:
    invariant = torch.tensor([1.0, 2.0, 0.5, 3.0], requires_grad=True)
    variant = torch.tensor([1.5, 1.0, 2.5, 3.0], requires_grad=True)
    term = hinge(invariant, variant)
    assert float(term.detach()) == pytest.approx((1.5 + 2.5) / 2, abs=1e-5)
    term.backward()
    assert variant.grad.tolist() == pytest.approx([0.5, 0, 0.5, 0], abs=1e-5)
    assert invariant.grad is None
    assert hinge(torch.ones(2), torch.zeros(2)) == 0


@pytest.mark.parametrize("model", ["gin", "gin-vn"])
@pytest.mark.parametrize(("generator", "scorer"), [("network", "mlp"), ("layers", "linear")])
def test_the_loss_is_its_equation(model: str, generator: str, scorer: str) -> None:
    settings = {"share": 0.4, "contrast_weight": 0.7, "hinge_weight": 0.3, "generator": generator, "scorer": scorer}
    method, data = build(model, **settings).eval(), batch()
    terms = method.loss(data, 0)
    h = method.featurizer(data)
    score = method.scorer(torch.cat((h[data.edge_index[0]], h[data.edge_index[1]]), 1))[:, 0]
    graph, keep = data.batch[data.edge_index[0]], torch.zeros(data.num_edges, dtype=torch.bool)
    sums = torch.zeros(data.num_graphs, 16)
    for g in range(data.num_graphs):
        (mine,) = torch.where(graph == g)
        keep[mine[score[mine].argsort(descending=True)][: math.ceil(0.4 * len(mine))]] = True
        nodes = data.edge_index[:, keep & (graph == g)].unique() if len(mine) else torch.where(data.batch == g)[0]
        sums[g] = h[nodes].sum(0)
    torch.testing.assert_close(terms["contrast"], 0.7 * contrast_by_hand(F.normalize(sums), data.y.tolist(), 1.0))
    found = method.featurise(data)
    torch.testing.assert_close(found.invariant.edge_weight, score.sigmoid() * keep)
    torch.testing.assert_close(found.variant.edge_weight, (-score).sigmoid() * ~keep)
    y_c, y_s = (
        classifier(embedded(method, data, h, part))
        for classifier, part in (
            (method.invariant_classifier, found.invariant),
            (method.variant_classifier, found.variant),
        )
    )
    l_c, l_s = (F.cross_entropy(logits, data.y, reduction="none") for logits in (y_c, y_s))
    torch.testing.assert_close(terms["invariant"], l_c.mean())
    torch.testing.assert_close(terms["hinge"], 0.3 * l_s[l_s > l_c].mean(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(method.predict(data).logits, y_c)


def test_the_first_version_has_no_hinge() -> None:
    method = build(hinge_weight=0.0)
    assert set(method.loss(batch(), 0)) == {"invariant", "contrast"}
    assert method.variant_classifier is None


def test_the_variant_part_leaves_no_trace_in_running_averages() -> None:
    averages = []
    for weight in (0.0, 1.0):
        method = build(hinge_weight=weight)
        method.train().loss(batch(), 0)
        averages.append({name: value for name, value in method.model.named_buffers() if "running" in name})
    first, second = averages
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("model", NETWORKS)
def test_the_risk_alone_trains_the_scorer_on_every_model(model: str) -> None:
    method = build(model)
    method.train().loss(batch((9, 14, 6), p=0.4), 0)["invariant"].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in method.scorer.parameters())


def test_the_contrast_alone_brings_a_class_together() -> None:
    method, data = build(share=0.5), batch((9, 14, 6, 12, 8, 10), p=0.4)
    data.y = torch.tensor([0, 1, 0, 1, 0, 1])
    optimiser = torch.optim.Adam(method.featurizer.parameters(), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        method.train().loss(data, 0)["contrast"].backward()
        optimiser.step()
    with torch.no_grad():
        z = method._representation(method.featurise(data), Layout(data))
    likeness = z @ z.T
    same = data.y[:, None] == data.y
    assert likeness[same].min() > likeness[~same].max()
