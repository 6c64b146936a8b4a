"""What every encoding must do, whichever it is."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from goodformer.errors import InputError
from goodformer.transforms import ENCODINGS, VERSIONS, Structure, encode, parse_encoding
from tests.transforms.graphs import awkward, packed

every = pytest.mark.parametrize("name", list(ENCODINGS))
real = pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "environments"])


def test_every_encoding_has_a_version() -> None:
    assert VERSIONS.keys() == ENCODINGS.keys()


@real
@pytest.mark.parametrize("width", [1, 2, 5, 8, 20])
def test_awkward_graphs_have_finite_encodings_of_the_asked_width(name: str, width: int) -> None:
    edge_index, ptr = packed(awkward())
    encoding = encode(f"{name}:{width}", Structure(edge_index, ptr))
    assert encoding.shape == (int(ptr[-1]), width)
    assert encoding.dtype == torch.float32
    assert encoding.isfinite().all()


@real
def test_a_single_node_and_an_edgeless_graph_tell_nothing_but_zero(name: str) -> None:
    edge_index, ptr = packed([nx.empty_graph(1), nx.empty_graph(3)])
    encoding = encode(f"{name}:4", Structure(edge_index, ptr))
    assert not encoding[:1].any()
    if name != "laplacian":  # three loose nodes still have two directions orthogonal to the constant one
        assert not encoding.any()


@every
def test_a_graph_alone_is_encoded_as_among_others(name: str) -> None:
    graphs = awkward() + [nx.star_graph(n) for n in range(3, 20)] + [nx.wheel_graph(n) for n in range(5, 20)]
    edge_index, ptr = packed(graphs)
    together = encode(f"{name}:8", Structure(edge_index, ptr))
    for position, graph in enumerate(graphs):
        alone = encode(f"{name}:8", Structure(*packed([graph])))
        assert torch.equal(together[ptr[position] : ptr[position + 1]], alone)


@every
def test_prefixes_of_a_wider_encoding_are_the_narrower_one(name: str) -> None:
    edge_index, ptr = packed(awkward())
    wide, narrow = (encode(f"{name}:{width}", Structure(edge_index, ptr)) for width in (12, 5))
    assert torch.equal(wide[:, : narrow.shape[1]], narrow)


@every
def test_order_repetition_and_direction_of_edges_and_self_loops_do_not_matter(name: str) -> None:
    edge_index, ptr = packed(awkward())
    plain = encode(f"{name}:6", Structure(edge_index, ptr))
    one_way = edge_index[:, edge_index[0] < edge_index[1]]
    loops = torch.arange(int(ptr[-1])).expand(2, -1)
    messy = torch.cat([loops, one_way, one_way.flip(1)], 1)
    assert torch.equal(plain, encode(f"{name}:6", Structure(messy, ptr)))


@every
def test_empty_graphs_and_no_graphs_are_passed_over(name: str) -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    width = 4 if name == "environments" else 3
    assert encode(f"{name}:3", Structure(edge_index, torch.tensor([0, 0, 2, 2]))).shape == (2, width)
    assert encode(f"{name}:3", Structure(edge_index[:, :0], torch.tensor([0]))).shape == (0, width)


@every
def test_nothing_is_changed_in_place(name: str) -> None:
    edge_index, ptr = packed(awkward())
    before = edge_index.clone(), ptr.clone()
    encode(f"{name}:4", Structure(edge_index, ptr))
    assert torch.equal(edge_index, before[0])
    assert torch.equal(ptr, before[1])


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(InputError, match=r"unknown encoding 'laplacan'; did you mean laplacian"):
        encode("laplacan:8", Structure(torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 1])))


@pytest.mark.parametrize("text", ["laplacian", "laplacian:", "laplacian:0", "laplacian:-1", "laplacian:two"])
def test_a_missing_or_bad_width_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="has no width"):
        parse_encoding(text)
