"""Methods on counts of molecules: probabilities of scikit-learn, missing labels, explanation, and what is said."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import Crippen
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from scipy.sparse import csr_matrix
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Batch

from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import collect
from goodformer.errors import InputError
from goodformer.explain import posthoc
from goodformer.methods.base import predicted_direction
from goodformer.methods.counts import CountMethod
from goodformer.methods.forest import Forest
from goodformer.methods.gaussian import GaussianProcess
from goodformer.methods.linear import Linear
from goodformer.models.fingerprint import Fingerprint
from goodformer.models.gin import GIN
from goodformer.nn import trees
from goodformer.spec import Features, FeatureSpec, Task
from goodformer.transforms import encode
from tests.apply.molecules import molecules
from tests.nn.graphs import batch

BINARY = Task("binary", 1, "rocauc")
SMILES, LABELS = (np.array(part)[::2] for part in molecules())


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    """Half of the molecules with their labels."""
    found = collect(SMILES.tolist()).graphs
    ready = found.with_node("environments_2", encode("environments:2", found.structure(FEATURES)))
    ready.graph["y"] = torch.from_numpy(LABELS).float()[:, None]
    ready.graph["env"] = torch.arange(len(ready)) % 4
    return ready


def whole(graphs: GraphSet) -> Batch:
    return graphs.batch(range(len(graphs)))


def made(graphs: GraphSet, kind: type[CountMethod] = Forest, task: Task = BINARY, **settings: object) -> CountMethod:
    method = kind(Fingerprint(FEATURES, table=256), task, **settings)
    method.fit([graphs.batch(range(50)), graphs.batch(range(50, len(graphs)))], seed=3)
    return method.eval()


def test_probabilities_are_those_of_scikit_learn_on_rdkit_counts(graphs: GraphSet) -> None:
    generator = GetMorganGenerator(radius=2, fpSize=256)
    rows = np.array([generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(one)) for one in SMILES], np.float32)
    forest = RandomForestClassifier(30, class_weight="balanced", random_state=3).fit(rows, LABELS)
    method = made(graphs, trees=30)
    p = method.grown(method.model.counts(whole(graphs)))[:, 0, 0]
    np.testing.assert_allclose(p, forest.predict_proba(rows)[:, 1], atol=1e-6)
    smoothed = (30 * p + 1) / 32
    torch.testing.assert_close(method(whole(graphs))[:, 0].double(), smoothed.logit(), atol=1e-5, rtol=1e-5)


def test_every_target_has_a_forest_grown_from_its_known_labels(graphs: GraphSet) -> None:
    task = Task("binary", 2, "rocauc")
    ready = graphs.subset(range(len(graphs)))
    ready.graph["y"] = torch.cat((ready.graph["y"], 1 - ready.graph["y"]), 1)
    ready.graph["y"][::2, 1] = torch.nan
    method = made(ready, task=task, trees=10)
    rows, known = method.model.counts(whole(ready)).numpy(), np.arange(1, len(ready), 2)
    expected = RandomForestClassifier(10, class_weight="balanced", random_state=4).fit(rows[known], 1 - LABELS[known])
    p = method.grown(torch.from_numpy(rows))[:, 1, 0]
    np.testing.assert_allclose(p, expected.predict_proba(rows)[:, 1], atol=1e-6)
    assert torch.allclose(method(whole(ready))[:, 0], made(graphs, trees=10)(whole(graphs))[:, 0])


def test_classes_without_training_graphs_have_a_vote_of_one(graphs: GraphSet) -> None:
    ready = graphs.subset(range(len(graphs)))
    ready.graph["y"] = 2 * torch.from_numpy(LABELS).long()  # classes 0 and 2 of three
    task = Task("multiclass", 3)
    for method in (made(ready, task=task, trees=10), made(ready, Linear, task), made(ready, GaussianProcess, task)):
        p = method(whole(ready)).softmax(-1)
        assert (p[:, 1] < 0.1).all()
        assert (p.argmax(1) == ready.graph["y"]).float().mean() > 0.9


@pytest.mark.parametrize("kind", [Forest, Linear, GaussianProcess])
def test_contributions_add_up_to_the_prediction(graphs: GraphSet, kind: type[CountMethod]) -> None:
    method = made(graphs, kind)
    data = whole(graphs)
    counts = method.model.counts(data)
    ones = torch.ones(len(counts), 1)
    constant, terms = method.contributions(counts, ones)
    output = method.grown(counts)[:, 0, 0] if isinstance(method, Forest) else method.logits(counts)[:, 0]
    torch.testing.assert_close((constant + terms.sum(1)).to(output), output, atol=1e-5, rtol=1e-5)
    # Edges take up the terms of the environments that are there, in the direction of the prediction.
    said = torch.where(method(data)[:, 0] > 0, 1.0, -1.0)
    scores = method.edge_scores(data)
    pairs = torch.zeros(len(counts)).index_add(0, data.batch[data.edge_index[0]], scores / 2)
    present = (terms * (counts > 0)).sum(1) * said
    torch.testing.assert_close(pairs, present.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [Forest, Linear, GaussianProcess])
@pytest.mark.parametrize(
    "task",
    [
        BINARY,
        Task("binary", 2, "rocauc"),
        Task("multiclass", 2),
        Task("regression", 1, "rmse", centre=(0.5,), scale=(2.0,)),
    ],
)
def test_one_pass_gives_the_logits_and_their_contributions(
    graphs: GraphSet, kind: type[CountMethod], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, y = graphs.subset(range(len(graphs))), graphs.graph["y"]
    ready.graph["y"] = y[:, 0].long() if task.kind == "multiclass" else torch.cat((y, 1 - y), 1)[:, : task.outputs]
    method = made(ready, kind, task).double()
    monkeypatch.setattr(trees, "REMEMBERED", 3000)  # ten rows of the forest at a time
    counts = method.model.counts(whole(ready))
    direction = predicted_direction(task, method.logits(counts)).to(counts)
    logits, terms = method.explained(counts)
    assert torch.equal(logits, method.logits(counts))
    assert torch.equal(terms, method.contributions(counts, direction)[1])


def test_contributions_of_stumps_equal_occlusion(graphs: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """With trees of one split, emptying a column changes p by the change of its own term."""
    monkeypatch.setattr("sklearn.ensemble.RandomForestClassifier", partial(RandomForestClassifier, max_depth=1))
    method = made(graphs, trees=40)
    rows = method.model.counts(whole(graphs))
    ones = torch.ones(len(rows), 1)
    _, terms = method.contributions(rows, ones)
    used = method.grown.feature[method.grown.child != torch.arange(len(method.grown.child))].unique().tolist()
    assert len(used) > 3
    assert len(method.grown.child) == 3 * 40  # stumps indeed
    for column in used:
        empty = rows.clone()
        empty[:, column] = 0
        drop = method.grown(rows) - method.grown(empty)
        change = terms[:, column] - method.contributions(empty, ones)[1][:, column]
        torch.testing.assert_close(drop[:, 0, 0], change, atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", [Forest, Linear, GaussianProcess])
def test_edge_scores_rank_edges_like_occlusion(graphs: GraphSet, kind: type[CountMethod]) -> None:
    method = made(graphs, kind)
    nitro = graphs.subset(np.flatnonzero(LABELS)[:12].tolist())
    own = split(method, nitro)
    other = posthoc.edge_scores(method, nitro)
    agreement = [spearmanr(one, two).statistic for one, two in zip(own, other, strict=True)]
    assert np.mean(agreement) > 0.5
    # The best edge lies in the nitro group or next to it.
    for place, scores in enumerate(own):
        graph = nitro[place]
        charged = (graph.x[:, 3] != 5).nonzero().flatten()
        assert bool(torch.isin(graph.edge_index[:, int(scores.argmax())], charged).any())


def split(method: CountMethod, graphs: GraphSet) -> list[torch.Tensor]:
    """The edge scores of each graph."""
    return list(method.edge_scores(whole(graphs)).split(graphs.edge_ptr.diff().tolist()))


def test_only_the_seed_is_random(graphs: GraphSet) -> None:
    one, two = made(graphs, trees=5), made(graphs, trees=5)
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())
    two.fit([whole(graphs)], seed=4)
    assert not torch.equal(one.grown.feature, two.grown.feature)


def test_means_and_deviations_of_continuous_features_are_columns() -> None:
    data = batch()
    model = Fingerprint(FeatureSpec(Features.continuous(4)), table=32)
    rows = model.counts(data)[:, 32:]
    for place in range(data.num_graphs):
        x = data.x[data.batch == place]
        expected = torch.cat((x.mean(0), x.std(0, correction=0)))
        torch.testing.assert_close(rows[place], expected, atol=1e-5, rtol=1e-5)


def test_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="use it with model fingerprint"):
        Forest(GIN(FEATURES, dim=8), BINARY)


@pytest.mark.parametrize("kind", [Forest, Linear, GaussianProcess])
@pytest.mark.parametrize("columns", [{"table": 0, "pairs": 128}, {"table": 128, "pairs": 128}])
def test_pairs_of_nodes_are_counted_and_explained(
    graphs: GraphSet, kind: type[CountMethod], columns: dict[str, int]
) -> None:
    method = kind(Fingerprint(FEATURES, **columns), BINARY)
    method.fit([whole(graphs)], seed=0)
    method.eval()
    data = whole(graphs)
    counts = method.model.counts(data)
    pairs = counts[:, columns["table"] :]
    sizes = data.ptr.diff()
    assert torch.all(pairs.sum(1) <= sizes * (sizes - 1) / 2)
    assert torch.all(pairs.sum(1) >= data.ptr.diff() - 1)  # the molecules are connected
    np.testing.assert_array_less(0.9, roc_auc_score(LABELS, method(data)[:, 0].detach()))
    direction = torch.ones(len(sizes), 1).to(counts)
    _, terms = method.contributions(counts, direction)
    scores = method.model.spread(data, terms.to(counts))
    in_graph = torch.zeros(len(sizes)).index_add(0, data.batch[data.edge_index[0]], scores.float()) / 2
    there = (terms.float() * (counts > 0)).sum(1)  # columns that the graph lacks belong to no edge
    torch.testing.assert_close(in_graph, there, atol=1e-4, rtol=1e-3)
    said = method.model.spread(data, method.explained(counts)[1].to(counts))
    assert torch.equal(method.predict(data).edge_scores, said)
    assert torch.equal(method.edge_scores(data), said)
    ones = torch.ones(data.edge_index.shape[1])
    torch.testing.assert_close(method.weighted_logits(data, ones), method(data))
    assert not torch.allclose(method.weighted_logits(data, ones / 2), method(data))


@pytest.mark.parametrize("kind", [Forest, Linear, GaussianProcess])
def test_sums_of_properties_are_columns_and_explained(graphs: GraphSet, kind: type[CountMethod]) -> None:
    ready = graphs.with_node("properties_38", encode("properties:38", graphs.structure(FEATURES)))
    method = kind(Fingerprint(FEATURES, table=128, properties=38), BINARY)
    assert method.model.encodings == ("environments:2", "properties:38")
    data = whole(ready)
    method.fit([data], seed=0)
    method.eval()
    counts = method.model.counts(data)
    logp = [Crippen.MolLogP(Chem.MolFromSmiles(one)) for one in SMILES]
    assert counts[:, 128].tolist() == pytest.approx(logp, abs=1e-4)
    np.testing.assert_array_less(0.9, roc_auc_score(LABELS, method(data)[:, 0].detach()))
    _, terms = method.contributions(counts, torch.ones(len(SMILES), 1).to(counts))
    terms = terms * (counts != 0)  # columns that the graph lacks belong to no edge
    terms[:, :128] = 0  # environments have their own test
    scores = method.model.spread(data, terms.to(counts))
    in_graph = torch.zeros(len(SMILES)).index_add(0, data.batch[data.edge_index[0]], scores.float()) / 2
    torch.testing.assert_close(in_graph, terms.sum(1).float(), atol=1e-4, rtol=1e-3)


def test_a_fingerprint_that_counts_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="table or pairs"):
        Fingerprint(FEATURES, table=0)


def test_the_size_of_leaves_suits_unseen_environments() -> None:
    """Column 0 predicts everywhere, roughly; columns of one environment each predict there alone and exactly."""
    random = np.random.default_rng(0)
    env, y = np.repeat(np.arange(8), 60), random.integers(0, 2, 480).astype(float)
    counts = random.integers(0, 2, (480, 64)).astype(np.float32)
    counts[:, 0] = np.where(random.random(480) < 0.75, y, 1 - y)
    for number in range(8):
        own = env == number
        counts[own, 1 + 6 * number : 7 + 6 * number] = y[own, None]
    nodes = []
    for groups in (env, np.zeros(480)):
        method = Forest(Fingerprint(FEATURES, table=64), BINARY, trees=30, min_leaf=None)
        method.learn(csr_matrix(counts), y[:, None], groups, 0, 1)
        nodes.append(len(method.grown.child))
    assert nodes[0] < nodes[1]  # larger leaves where environments are left out


def test_a_target_without_labels_is_refused() -> None:
    method = Forest(Fingerprint(FEATURES, table=64), Task("binary", 2, "rocauc"), trees=2)
    y = np.array([[0.0, np.nan], [1.0, np.nan]])
    with pytest.raises(InputError, match="target 2 has no label in training"):
        method.learn(csr_matrix(np.ones((2, 64), np.float32)), y, np.zeros(2), 0, 1)


def test_sums_of_properties_do_not_depend_on_the_order_of_atoms(graphs: GraphSet) -> None:
    """A rounding error would move a molecule across a threshold between two sums that should be equal."""
    model = Fingerprint(FEATURES, table=128, properties=38)
    found = whole(graphs.with_node("properties_38", encode("properties:38", graphs.structure(FEATURES))))
    counts = model.counts(found)[:, -38:]
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        mixed = torch.randperm(found.num_nodes, generator=generator)
        within = mixed[found.batch[mixed].argsort(stable=True)]  # atoms of a molecule stay together
        found.properties_38 = found.properties_38[within]
        assert torch.equal(model.counts(found)[:, -38:], counts)
