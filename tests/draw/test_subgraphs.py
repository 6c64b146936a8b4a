"""The picture of found and true subgraphs."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.image import imread
from torch_geometric.data import Data

from goodformer.draw.palette import FOUND, TRUE
from goodformer.draw.subgraphs import REST, SCALE, Sketch, _crossings, draw_subgraphs, sketch, subgraph_figure
from goodformer.errors import InputError
from goodformer.explain.explanation import edge_record
from goodformer.explain.subgraph import score_edges

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
    one, top, record = sketch(graph, scores, 5), score_edges(graph.edge_index, scores, 5), edge_record(graph, scores)
    assert one.pairs[one.chosen].tolist() == sorted(top.subgraph.T.tolist()) == sorted(record["edges"][:5])
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


def drawn(axes: Axes) -> dict[str, set[tuple[tuple[float, float], ...]]]:
    """The lines of a panel by colour, each as its two ends in ascending order."""
    found: dict[str, set[tuple[tuple[float, float], ...]]] = {}
    for lines in (one for one in axes.collections if isinstance(one, LineCollection)):
        colours = lines.get_colors()
        for place, segment in enumerate(lines.get_segments()):
            ends = tuple(sorted(tuple(np.round(end, 6).tolist()) for end in segment))
            found.setdefault(to_hex(colours[place % len(colours)]), set()).add(ends)
    return found


def ends_of(one: Sketch, rows: object) -> set[tuple[tuple[float, float], ...]]:
    """The ends of some edges of a sketch, as `drawn` gives them."""
    return {tuple(sorted(tuple(np.round(end, 6).tolist()) for end in line)) for line in one.positions[one.pairs[rows]]}


def dots(axes: Axes) -> dict[str, set[tuple[float, float]]]:
    """The nodes of a panel by colour."""
    found = [one for one in axes.collections if isinstance(one, PathCollection) and len(one.get_offsets())]
    return {to_hex(one.get_facecolor()[0]): {tuple(np.round(at, 6)) for at in one.get_offsets()} for one in found}


def test_chosen_edges_are_red_and_true_edges_black() -> None:
    """Scores choose one wrong edge, so that found and true edges differ."""
    graphs = [motif_graph(base) for base in (nx.path_graph(6), nx.star_graph(4), nx.ladder_graph(3))]
    sketches = []
    for number, graph in enumerate(graphs):
        scores = graph.edge_truth + 0.1 * torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(number))
        scores[(graph.edge_index < 2).all(0)] += 5  # edge 0-1 of the base
        sketches.append(sketch(graph, scores, k=number + 3))
    figure = subgraph_figure(sketches, ["first", "second", "third"], "found by us")
    blocks = figure.subfigs[0].subfigs
    titles = [block.get_suptitle() for block in blocks[:3]]
    assert titles == [f"{name}  ·  {k} of 6 edges found" for name, k in (("first", 2), ("second", 3), ("third", 4))]
    for one, block in zip(sketches, blocks, strict=False):
        found, true = block.axes
        assert (found.get_xlabel(), true.get_xlabel()) == ("found by us", "true invariant subgraph")
        assert drawn(found)[FOUND] == ends_of(one, one.chosen)
        assert drawn(true) == {TRUE: ends_of(one, one.truth), REST: ends_of(one, ~one.truth)}
        for axes, strong, colour in ((found, one.chosen, FOUND), (true, one.truth, TRUE)):
            touched = {tuple(np.round(one.positions[node], 6)) for node in np.unique(one.pairs[strong])}
            assert dots(axes)[colour] == touched
            assert len(dots(axes)[REST]) == len(one.positions) - len(touched)
        rest = [place for place in np.argsort(one.scores) if not one.chosen[place]]
        assert ends_of(one, [rest[0]]) <= drawn(found)[to_hex(SCALE(0.0))]
        assert ends_of(one, [rest[-1]]) <= drawn(found)[to_hex(SCALE(1.0))]
    legend = figure.subfigs[1].legends[0]
    entries = zip(legend.get_texts(), legend.get_lines(), strict=True)
    colours = {text.get_text(): to_hex(line.get_color()) for text, line in entries}
    assert [colours[text] for text in colours] == [FOUND, to_hex(SCALE(1.0)), to_hex(SCALE(0.0)), TRUE]
    assert ["chosen" in text or "true" in text for text in colours] == [True] * 4


def test_without_truth_there_is_one_panel_and_the_title_as_given() -> None:
    graph = motif_graph(nx.path_graph(9))
    scores = torch.linspace(0, 1, graph.num_edges)
    del graph.edge_truth
    one = sketch(graph, scores, k=4)
    (block,) = subgraph_figure([one], ["a title"], "chosen").subfigs[0].subfigs
    assert block.get_suptitle() == "a title"
    assert len(block.axes) == 1
    assert drawn(block.axes[0])[FOUND] == ends_of(one, one.chosen)
    assert len(drawn(block.axes[0])[FOUND]) == 4
    assert TRUE not in drawn(block.axes[0])


def test_the_picture_is_a_complete_file(tmp_path: Path) -> None:
    graph = motif_graph(nx.path_graph(4))
    given = [graph] * 2, [torch.zeros(graph.num_edges)] * 2
    path = draw_subgraphs(*given, tmp_path / "deep" / "found.png", ["price in $", "$x_{$"])
    assert imread(path).shape[1] > imread(path).shape[0] / 2
    assert draw_subgraphs(*given, tmp_path / "deep" / "a.svg", ["", ""]).read_text().count("<svg")
    assert sorted(one.name for one in path.parent.iterdir()) == ["a.svg", "found.png"]


@pytest.mark.parametrize("nodes", [1, 3, 150])
def test_odd_graphs_are_drawn(tmp_path: Path, nodes: int) -> None:
    lonely = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=nodes)
    assert draw_subgraphs([lonely], [torch.zeros(0)], tmp_path / "odd.png", ["no edge"]).stat().st_size > 1000


@pytest.mark.parametrize(("name", "titles"), [("a.docx", ["one"]), ("a.png", [])])
def test_bad_calls_say_what_to_do(tmp_path: Path, name: str, titles: list[str]) -> None:
    graph = motif_graph(nx.path_graph(4))
    with pytest.raises(InputError):
        draw_subgraphs([graph], [torch.zeros(graph.num_edges)], tmp_path / name, titles)
    assert not list(tmp_path.iterdir())
