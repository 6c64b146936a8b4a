"""The picture of found and true subgraphs."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from torch_geometric.data import Data

from goodformer.draw.palette import FOUND, TRUE
from goodformer.draw.subgraphs import SCALE, _crossings, draw_subgraphs, sketch
from goodformer.explain.record import edge_record
from goodformer.explain.subgraph import top_subgraph
from goodformer.registry import InputError

MOTIF = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]


def motif_graph(base: nx.Graph) -> Data:
    """A house joined to the given base, with edge truth, both directions stored."""
    n = base.number_of_nodes()
    graph = nx.Graph(base)
    graph.add_edges_from((a + n, b + n) for a, b in MOTIF)
    graph.add_edge(0, n)
    ends = torch.tensor(list(graph.edges))
    index = torch.cat([ends, ends.flip(1)]).T.contiguous()
    return Data(edge_index=index, num_nodes=n + 5, edge_truth=(index >= n).all(0))


def pixels(path: Path, colour: object) -> int:
    """How many pixels of the picture have just this colour."""
    image = imread(path)[..., :3]
    return int((np.abs(image - np.array(to_rgb(colour))).max(-1) < 0.02).sum())


def test_perfect_scores_choose_the_motif() -> None:
    graph = motif_graph(nx.path_graph(8))
    one = sketch(graph, graph.edge_truth.float())
    assert one.chosen.sum() == one.hits == len(MOTIF)
    assert len(one.pairs) == graph.num_edges // 2
    assert one.positions.shape == (13, 2)
    assert np.isfinite(one.positions).all()


def test_directions_are_averaged() -> None:
    graph = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    one = sketch(graph, torch.tensor([1.0, 0.0, 0.4, 0.4]), k=1)
    assert one.scores.tolist() == pytest.approx([0.5, 0.4])
    assert one.chosen.tolist() == [True, False]


def test_the_picture_chooses_what_the_subgraph_and_the_record_do() -> None:
    graph = motif_graph(nx.wheel_graph(7))
    scores = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(2)).round(decimals=1)  # with ties
    one, top, record = sketch(graph, scores, 5), top_subgraph(graph.edge_index, scores, 5), edge_record(graph, scores)
    assert one.pairs[one.chosen].tolist() == sorted(top.edges.T.tolist()) == sorted(record["edges"][:5])
    assert sum(record["truth"][:5]) == one.hits


def test_positions_repeat() -> None:
    graph = motif_graph(nx.wheel_graph(7))
    scores = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1))
    assert np.array_equal(sketch(graph, scores).positions, sketch(graph, -scores).positions)


def test_crossings_are_counted() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert _crossings(square, np.array([[0, 1], [1, 2], [2, 3], [0, 3]])) == 0
    assert _crossings(square, np.array([[0, 2], [1, 3], [0, 1]])) == 1
    assert _crossings(square, np.empty((0, 2), dtype=int)) == 0


@pytest.mark.parametrize("base", [nx.path_graph(9), nx.star_graph(7), nx.ladder_graph(6), nx.balanced_tree(2, 3)])
def test_a_plain_graph_is_drawn_without_tangles(base: nx.Graph) -> None:
    one = sketch(motif_graph(base), torch.zeros(2 * (base.number_of_edges() + 7)))
    assert _crossings(one.positions, one.pairs) == 0


def test_picture_shows_found_in_red_and_true_in_black(tmp_path: Path) -> None:
    graphs = [motif_graph(base) for base in (nx.path_graph(9), nx.star_graph(7), nx.ladder_graph(5))]
    scores = [graph.edge_truth + 0.1 * torch.rand(graph.num_edges) for graph in graphs]
    path = draw_subgraphs(graphs, scores, tmp_path / "deep" / "found.png", ["true house, predicted house"] * 3)
    assert path.stat().st_size > 20_000
    assert imread(path).shape[1] > imread(path).shape[0] / 2
    assert pixels(path, FOUND) > 1000
    assert pixels(path, TRUE) > 1000
    assert not list(path.parent.glob(".*"))


def test_picture_without_truth_has_no_black_motif(tmp_path: Path) -> None:
    graph = motif_graph(nx.path_graph(9))
    scores = torch.linspace(0, 1, graph.num_edges)
    del graph.edge_truth
    path = draw_subgraphs([graph], [scores], tmp_path / "found.png", [""], k=4)
    assert pixels(path, FOUND) > 300
    assert pixels(path, SCALE(1.0)[:3]) > 5
    assert pixels(path, TRUE) < 300


@pytest.mark.parametrize("nodes", [1, 3, 150])
def test_odd_graphs_are_drawn(tmp_path: Path, nodes: int) -> None:
    lonely = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=nodes)
    assert draw_subgraphs([lonely], [torch.zeros(0)], tmp_path / "odd.png", ["no edge"]).stat().st_size > 1000


def test_vector_formats(tmp_path: Path) -> None:
    graph = motif_graph(nx.path_graph(4))
    assert draw_subgraphs([graph], [torch.zeros(graph.num_edges)], tmp_path / "a.svg", [""]).read_text().count("<svg")


@pytest.mark.parametrize(("name", "titles"), [("a.docx", ["one"]), ("a.png", [])])
def test_bad_calls_say_what_to_do(tmp_path: Path, name: str, titles: list[str]) -> None:
    graph = motif_graph(nx.path_graph(4))
    with pytest.raises(InputError):
        draw_subgraphs([graph], [torch.zeros(graph.num_edges)], tmp_path / name, titles)
    assert not list(tmp_path.iterdir())
