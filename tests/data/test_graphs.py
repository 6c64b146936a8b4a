"""A GraphSet cuts the same batches as PyG does from a list of graphs."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Data

from goodformer.data import GraphSet, load_benchmark
from goodformer.errors import InputError


@pytest.fixture(scope="module")
def motif() -> GraphSet:
    benchmark = load_benchmark("good-motif", graphs=200).with_encodings(["laplacian:4", "closed_walks:3"])
    return benchmark.splits["train"]


def triangle(**fields) -> Data:
    edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    return Data(**{"x": torch.rand(3, 2), "edge_index": edges, "y": torch.tensor([1]), **fields})


def assert_same_graphs(one: Data, other: Data) -> None:
    assert set(one.keys()) == set(other.keys())
    for name in one.keys():  # noqa: SIM118
        assert one[name].dtype == other[name].dtype, name
        assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize("indices", [[0], [5, 3, 3, 119], list(range(120)), [-1, 0]])
def test_batches_equal_those_of_pyg(motif: GraphSet, indices: list[int]) -> None:
    batch = motif.__getitems__(indices)
    expected = Batch.from_data_list([motif[index] for index in indices])
    assert_same_graphs(batch, expected)
    assert batch.num_graphs == expected.num_graphs == len(indices)
    assert batch.num_nodes == expected.num_nodes
    assert batch.num_edges == expected.num_edges


def test_a_batch_carries_everything_and_moves(motif: GraphSet) -> None:
    batch = motif.batch(torch.tensor([4, 2]))
    names = {"x", "edge_index", "edge_truth", "y", "env", "domain", "laplacian_4", "closed_walks_3", "batch", "ptr"}
    assert names <= set(batch.keys())
    assert batch.to("meta").x.device.type == "meta"
    assert batch.edge_attr is None
    assert "edge_attr" not in batch
    with pytest.raises(AttributeError, match="no 'colour'; it has x"):
        _ = batch.colour
    assert_same_graphs(pickle.loads(pickle.dumps(batch)), batch)


def test_changing_a_batch_does_not_change_the_set(motif: GraphSet) -> None:
    before = motif.node["x"].clone()
    batch = motif.batch(range(len(motif)))
    batch.x += 1
    batch.edge_index += 1
    assert torch.equal(motif.node["x"], before)
    assert int(motif.edge["index"].min()) == 0


def test_a_loader_gives_every_graph_once(motif: GraphSet) -> None:
    loader = DataLoader(motif, batch_size=50, shuffle=True, collate_fn=lambda batch: batch)
    batches = list(loader)
    assert [batch.num_graphs for batch in batches] == [50, 50, 20]
    seen = torch.cat([batch.laplacian_4.abs().sum(1) for batch in batches]).sort().values
    torch.testing.assert_close(seen, motif.node["laplacian_4"].abs().sum(1).sort().values)


def test_positions_outside_are_index_errors(motif: GraphSet) -> None:
    for index in (len(motif), -len(motif) - 1):
        with pytest.raises(IndexError):
            motif[index]
        with pytest.raises(IndexError):
            motif.batch([0, index])
    assert len(list(motif)) == len(motif)


def test_subset_concat_and_flat_tensors_are_inverse(motif: GraphSet) -> None:
    halves = [motif.subset(range(70)), motif.subset(torch.arange(70, 120))]
    for whole in (GraphSet.concat(halves), GraphSet.from_tensors(motif.tensors())):
        assert whole.tensors().keys() == motif.tensors().keys()
        assert all(torch.equal(value, motif.tensors()[name]) for name, value in whole.tensors().items())
    assert len(motif.subset([])) == 0
    assert repr(motif).startswith("GraphSet(120 graphs")


def test_concat_needs_the_same_attributes(motif: GraphSet) -> None:
    other = motif.with_node("extra", torch.zeros(int(motif.node_ptr[-1])))
    with pytest.raises(InputError, match="'extra' is missing in one part"):
        GraphSet.concat([motif, other])


def test_with_node_shares_the_rest_and_checks_its_length(motif: GraphSet) -> None:
    new = motif.with_node("extra", torch.zeros(int(motif.node_ptr[-1])))
    assert "extra" in new.node
    assert "extra" not in motif.node
    assert new.edge["index"] is motif.edge["index"]
    with pytest.raises(InputError, match="'extra' has 3 entries"):
        motif.with_node("extra", torch.zeros(3))


def test_global_edges_point_into_their_graph(motif: GraphSet) -> None:
    graph = torch.repeat_interleave(motif.sizes)
    assert torch.equal(graph[motif.edge_index[0]], motif.edge_graph)
    assert torch.equal(graph[motif.edge_index[1]], motif.edge_graph)


def test_from_list_inverts_iteration(motif: GraphSet) -> None:
    again = GraphSet.from_list(list(motif))
    assert_same_graphs(again.batch([3, 1]), _without(motif.batch([3, 1]), "laplacian_4", "closed_walks_3", "motif"))


def _without(batch: Batch, *names: str) -> Batch:
    for name in names:
        del batch[name]
    return batch


def test_from_list_fills_in_what_is_not_given() -> None:
    graphs = GraphSet.from_list([Data(num_nodes=2), Data(num_nodes=1, edge_index=torch.empty(2, 0, dtype=torch.long))])
    assert graphs.node["x"].tolist() == [[1], [1], [1]]
    assert graphs.edge["index"].shape == (2, 0)
    assert graphs.graph["env"].tolist() == graphs.graph["domain"].tolist() == [0, 0]
    assert "y" not in graphs.graph


def test_from_list_keeps_codes_integer_and_targets_real() -> None:
    graphs = GraphSet.from_list(
        [triangle(x=torch.tensor([1, 2, 3]), y=torch.tensor([[0.0, float("nan")]]), edge_attr=torch.arange(6), env=2)]
    )
    assert graphs.node["x"].tolist() == [[1], [2], [3]]
    assert graphs.node["x"].dtype == graphs.edge["attr"].dtype == torch.long
    assert graphs.graph["y"].shape == (1, 2)
    assert graphs.graph["env"].tolist() == [2]


@pytest.mark.filterwarnings("ignore:Unable to accurately infer")
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Data(x=torch.empty(0, 2)), "graph 1 is empty"),
        (Data(), "graph 1 is empty"),
        (triangle(x=torch.tensor([[0.0, float("nan")]] * 3)), "graph 1 has NaN or infinity in x"),
        (triangle(x=torch.tensor([[0.0, float("inf")]] * 3)), "graph 1 has NaN or infinity in x"),
        (triangle(edge_index=torch.tensor([[0], [3]])), "graph 1 has an edge to node 3 but its 3 nodes"),
        (triangle(edge_index=torch.tensor([[0], [-1]])), "graph 1 has an edge to node -1"),
        (triangle(edge_index=torch.zeros(2, 3)), "graph 1 has edge_index .* give integers"),
        (triangle(edge_index=torch.zeros(3, 2, dtype=torch.long)), "graph 1 has edge_index"),
        (triangle(x=torch.rand(3, 2, 2)), "graph 1 has x of shape"),
        (triangle(x=torch.rand(3, 5)), "graph 1 has x .* as in graph 0"),
        (triangle(x=torch.ones(3, 2, dtype=torch.long)), "graph 1 has x .* as in graph 0"),
        (triangle(y=torch.tensor([1, 2])), "graph 1 has y .* as in graph 0"),
        (triangle(y=None), "graph 1 and graph 0 differ in y"),
        (triangle(edge_attr=torch.rand(6, 1)), "graph 1 and graph 0 differ in attr"),
        (triangle(edge_attr=torch.rand(5, 1)), "graph 1 has edge_attr"),
        (triangle(edge_truth=torch.ones(2)), "graph 1 has edge_truth"),
        (triangle(env=torch.tensor([0, 1])), "graph 1 has env"),
        ("graph", "graph 1 is a str"),
    ],
)
def test_from_list_names_the_graph_it_refuses(graph: Data, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        GraphSet.from_list([triangle(), graph])
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["env", "domain"])
def test_the_first_graph_is_checked_too(field: str) -> None:
    with pytest.raises(InputError, match=f"graph 0 has {field}"):
        GraphSet.from_list([triangle(**{field: torch.tensor([0, 1])})])


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InputError, match="list of graphs is empty"):
        GraphSet.from_list([])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_graphs_in_any_order_batch_as_in_pyg(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    graphs = []
    for n in sizes:
        pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
        edges = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        y, env = torch.tensor([n % 3]), torch.tensor([0])
        graphs.append(
            Data(x=torch.rand(n, 2), edge_index=edges, edge_attr=torch.rand(len(pairs), 1), y=y, env=env, domain=env)
        )
    indices = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=8))
    batch = GraphSet.from_list(graphs).batch(indices)
    assert_same_graphs(batch, Batch.from_data_list([graphs[index] for index in indices]))
