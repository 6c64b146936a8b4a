"""Scores found afterwards: do they find the edges that decide, and are they what they say they are."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.nn import GINEConv, global_mean_pool

from goodformer.data.graphs import GraphSet
from goodformer.engine.precision import edge_auc
from goodformer.errors import InputError
from goodformer.explain.posthoc import ALGORITHMS, PathGradient, WeightedMethod, _explainer, edge_scores
from goodformer.methods import METHODS
from goodformer.methods.base import Method, losses
from goodformer.models import MODELS
from goodformer.spec import Features, FeatureSpec, Task
from goodformer.transforms import encode
from tests.methods.test_contract import build
from tests.nn.graphs import random_graph, relabelled

DECIDING = 2
TYPES = FeatureSpec(Features.categorical(2), Features.categorical(4))
CONTINUOUS = FeatureSpec(Features.continuous(4), Features.continuous(3))
TASKS = [Task("multiclass", 3), Task("binary", 1, "rocauc"), Task("binary", 4, "rocauc")]


def toy(seed: int) -> Data:
    """A random graph with four types of edges; its class is whether it has edges of the deciding type."""
    generator = torch.Generator().manual_seed(seed)
    index = random_graph(12, 0.25, generator)
    low, high = index.sort(dim=0).values
    kinds = torch.randint(3, (12, 12), generator=generator)
    kinds[kinds == DECIDING] = 3
    if seed % 2:
        for place in torch.randperm(index.shape[1], generator=generator)[:3].tolist():
            kinds[low[place], high[place]] = DECIDING
    attr = kinds[low, high][:, None]
    x = torch.randint(2, (12, 1), generator=generator)
    return Data(x=x, edge_index=index, edge_attr=attr, edge_truth=attr[:, 0] == DECIDING, y=torch.tensor([seed % 2]))


@pytest.fixture(scope="module")
def trained() -> tuple[Method, GraphSet]:
    """GIN and ERM that have learnt the toy, and graphs with deciding edges that they have not seen."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS.build("gin", TYPES, dim=16, layers=2, dropout_rate=0.0)
        method = METHODS.build("erm", model, Task("multiclass", 2))
        train = GraphSet.from_list([toy(seed) for seed in range(400)])
        adam = torch.optim.Adam(method.parameters(), 0.01)
        for step in range(120):
            batch = train.batch(torch.randint(400, (64,), generator=torch.Generator().manual_seed(step)))
            adam.zero_grad()
            method.loss(batch, 0)["risk"].backward()
            adam.step()
    test = GraphSet.from_list([toy(seed) for seed in range(401, 461, 2)])
    logits = method.eval()(test.batch(range(len(test))))
    assert (logits.argmax(1) == 1).double().mean() > 0.9
    return method, test


def found(scores: list[Tensor], graphs: GraphSet) -> float:
    """Chance that a deciding edge outscores another one of the same graph, mean over graphs."""
    return sum(edge_auc(one, graph.edge_truth) for one, graph in zip(scores, graphs, strict=True)) / len(graphs)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_deciding_edges_come_first(trained: tuple[Method, GraphSet], algorithm: str) -> None:
    method, graphs = trained
    least = {"occlusion": 0.97, "gradient": 0.97, "mask": 0.9}[algorithm]
    assert found(edge_scores(method, graphs, algorithm=algorithm), graphs) > least


class Twin(nn.Module):
    """The trained GIN out of PyG's own layers, for PyG's own explainer."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = copy.deepcopy(method)
        self.gin = self.method.model
        self.layers = nn.ModuleList(GINEConv(layer.mlp, eps=0.0) for layer in self.gin.layers)
        self.method.load_state_dict(method.state_dict())  # PyG's layers draw new weights when they are made

    def forward(self, x: Tensor, edge_index: Tensor, graph: Batch) -> Tensor:
        h = self.gin.nodes(graph)
        for depth, layer in enumerate(self.layers):
            h = self.gin.norms[depth](layer(h, edge_index, self.gin.edges[depth](graph)))
            h = h if depth == len(self.layers) - 1 else h.relu()
        return self.method.classifier(global_mean_pool(h, graph.batch))


def test_pygs_own_explainer_does_not_find_more(trained: tuple[Method, GraphSet]) -> None:
    method, graphs = trained
    few = graphs.subset(range(5))
    twin = Twin(method).eval()
    batch = few.batch(range(5))
    torch.testing.assert_close(twin(batch.x, batch.edge_index, batch), method(batch))
    config = ModelConfig(mode="multiclass_classification", task_level="graph", return_type="raw")
    explainer = Explainer(twin, GNNExplainer(epochs=100), "model", config, edge_mask_type="object")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        alone = [few.batch([place]) for place in range(5)]
        theirs = [explainer(one.x, one.edge_index, graph=one).edge_mask.detach() for one in alone]
    for algorithm in ALGORITHMS:
        assert found(edge_scores(method, few, algorithm=algorithm), few) >= found(theirs, few) - 0.02


def several(task: Task, model: str = "gin", sizes: tuple[int, ...] = (7, 1, 12, 2)) -> tuple[Method, GraphSet]:
    """A method with random weights and graphs of all sizes, one without an edge among them."""
    torch.manual_seed(0)
    method = METHODS.build("erm", MODELS.build(model, CONTINUOUS, dim=16), task).eval()
    generator = torch.Generator().manual_seed(1)
    rows = []
    for n in sizes:
        index = random_graph(n, 0.4, generator)
        attr = torch.randn(index.shape[1], 3, generator=generator)
        rows.append(Data(x=torch.randn(n, 4, generator=generator), edge_index=index, edge_attr=attr))
    return method, encoded(method, GraphSet.from_list(rows))


def encoded(method: Method, graphs: GraphSet) -> GraphSet:
    for text in method.encodings:
        graphs = graphs.with_node(text.replace(":", "_"), encode(text, graphs.structure()))
    return graphs


def odds(method: Method, batch: Batch, weight: Tensor) -> Tensor:
    """log p / (1 - p) of what the method predicts, with weighted edges (B,), in double precision."""
    with torch.no_grad():
        said = method.weighted_logits(batch, torch.ones(batch.num_edges))
        y = said.argmax(1) if method.task.kind == "multiclass" else (said > 0).double()
        log_p = -losses(method.task, method.weighted_logits(batch, weight).double(), y)
    assert method.task.kind == "multiclass" or method.task.outputs == 1
    return log_p - torch.log1p(-log_p.exp())


@pytest.mark.parametrize("task", TASKS[:2], ids=str)
def test_occlusion_is_the_change_without_the_edge(task: Task) -> None:
    method, graphs = several(task)
    for graph, scores in zip(graphs, edge_scores(method, graphs), strict=True):
        batch = Batch.from_data_list([graph])
        whole = odds(method, batch, torch.ones(batch.num_edges))
        for edge in range(batch.num_edges):
            same = (batch.edge_index.sort(dim=0).values == batch.edge_index[:, [edge]].sort(dim=0).values).all(0)
            assert float(scores[edge]) == pytest.approx(float(whole - odds(method, batch, (~same).float())), abs=1e-4)


@pytest.mark.parametrize("task", TASKS[:2], ids=str)
def test_gradients_add_up_to_what_all_edges_change(task: Task) -> None:
    method, graphs = several(task)
    explainer = _explainer(method, "gradient")
    explainer.algorithm.steps = 200
    batch = graphs.batch(range(len(graphs)))
    mask = explainer(batch.x, batch.edge_index, graphs=batch).edge_mask
    single = batch.edge_index[0] < batch.edge_index[1]  # each undirected edge once
    total = torch.zeros(len(graphs)).double().index_add(0, batch.batch[batch.edge_index[0, single]], mask[single])
    change = odds(method, batch, torch.ones(batch.num_edges)) - odds(method, batch, torch.zeros(batch.num_edges))
    torch.testing.assert_close(total, change.double(), atol=0.02, rtol=0.02)


def test_targets_are_averaged() -> None:
    method, graphs = several(TASKS[2])
    each = []
    for target in range(4):
        single = METHODS.build("erm", method.model, TASKS[1]).eval()
        single.classifier.weight.data = method.classifier.weight.data[[target]]
        single.classifier.bias.data = method.classifier.bias.data[[target]]
        each.append(torch.cat(edge_scores(single, graphs)))
    torch.testing.assert_close(torch.cat(edge_scores(method, graphs)), torch.stack(each).mean(0), atol=1e-4, rtol=1e-3)


def test_a_certain_model_is_explained_too() -> None:
    method, graphs = several(TASKS[1])
    before = torch.cat(edge_scores(method, graphs))
    method.classifier.weight.data *= 1000  # probabilities are 1 now, whatever single edge is taken away
    method.classifier.bias.data *= 1000
    assert set(method(graphs.batch([0, 2])).sigmoid().flatten().tolist()) <= {0.0, 1.0}
    torch.testing.assert_close(torch.cat(edge_scores(method, graphs)), 1000 * before, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_one_answer_alone_in_a_batch_and_twice(algorithm: str) -> None:
    method, graphs = several(TASKS[0])
    together = edge_scores(method, graphs, algorithm=algorithm)
    again = edge_scores(method, graphs, algorithm=algorithm)
    alone = edge_scores(method, graphs, batch_size=1, algorithm=algorithm)
    for first, second, third in zip(together, again, alone, strict=True):
        assert torch.equal(first, second)
        torch.testing.assert_close(first, third, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_renumbered_nodes_keep_their_scores(algorithm: str) -> None:
    method, graphs = several(TASKS[0])
    graph = graphs[2]
    graph.cycle_walks_6 = graph.laplacian_8 = graph.eigenvalues_8 = graph.x
    other = relabelled(graph, torch.randperm(12, generator=torch.Generator().manual_seed(3)))
    sets = [GraphSet.from_list([one]) for one in (graph, other)]
    first, second = (edge_scores(method, one, algorithm=algorithm)[0] for one in sets)
    torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_answers_to_its_edges(name: str) -> None:
    method, graphs = several(TASKS[0], name, (5, 1, 9))
    for algorithm in ("occlusion", "gradient"):
        scores = edge_scores(method, graphs, algorithm=algorithm)
        assert [len(one) for one in scores] == graphs.edge_ptr.diff().tolist()
        assert all(bool(one.isfinite().all()) for one in scores)
        assert scores[-1].std() > 0


@pytest.mark.parametrize("training", [True, False])
def test_the_method_is_left_as_it_was(training: bool) -> None:
    method, graphs = several(TASKS[0])
    method.train(training)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    edge_scores(method, graphs, algorithm="gradient")
    assert all(module.training is training for module in method.modules())
    assert all(torch.equal(before[name], value) for name, value in method.state_dict().items())
    assert all(parameter.grad is None for parameter in method.parameters())


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_is_explained_one_way_or_the_other(name: str) -> None:
    method = build(name, TASKS[0])
    own = type(method).edge_scores is not Method.edge_scores
    assert own or type(method).weighted_logits is not Method.weighted_logits


def test_what_cannot_be_explained_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    method, graphs = several(TASKS[0])
    with pytest.raises(InputError, match="unknown algorithm 'saliency'"):
        edge_scores(method, graphs, algorithm="saliency")
    monkeypatch.setattr(type(method), "weighted_logits", Method.weighted_logits)
    with pytest.raises(InputError, match="ERM has neither edge scores nor weighted logits"):
        edge_scores(method, graphs)


def test_pyg_refuses_what_the_algorithms_do_not_do() -> None:
    method, _ = several(TASKS[0])
    config = ModelConfig(mode="multiclass_classification", task_level="graph", return_type="raw")
    refused: Callable[[], Explainer] = lambda: Explainer(  # noqa: E731
        WeightedMethod(method), PathGradient(method.task), "model", config, node_mask_type="object"
    )
    with pytest.raises(ValueError, match="does not support"):
        refused()
