"""The picture of a data set shows what was counted: bars, colours, samples and names."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import PathPatch, Polygon, Rectangle
from matplotlib.text import Text
from torch_geometric.data import Data

from goodformer.data import cards, load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.draw import card, palette
from goodformer.draw.canvas import literal_text
from goodformer.draw.molecules import depict
from goodformer.errors import InputError
from goodformer.spec import SPLIT_NAMES, SPLITS, Task

SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "C#CCN1CCC(=C(Cl)Br)C1", "C", "[CH3][Hg]Cl")
DRAWN = ("train", "val", "test")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path_factory.getbasetemp() / "cards-cache"))


def paths(rows: list[tuple[int, float, int]], binary: bool) -> GraphSet:
    """Path graphs from triples of size, label and domain."""
    graphs = []
    for size, label, domain in rows:
        u = torch.arange(size - 1)
        index = torch.cat([torch.stack([u, u + 1]), torch.stack([u + 1, u])], 1)
        y = torch.tensor([[float(label)]]) if binary else torch.tensor([int(label)])
        graphs.append(Data(edge_index=index, num_nodes=size, y=y, env=0, domain=domain))
    return GraphSet.from_list(graphs)


TRAIN = [(2, 0, 0)] * 5 + [(3, 1, 0)] * 3 + [(4, 2, 1)] * 2
VAL = [(6, 0, 1), (7, 2, 2), (7, 2, 2), (7, 1, 2)]
TEST = [(9, 1, 2), (9, 1, 2), (9, 1, 0), (9, 0, 2), (20, 2, 2)]


def small(binary: bool = False, domain: str = "lab", names: tuple[str, ...] = ("a", "b", "c")) -> Benchmark:
    """A benchmark in which no two splits, classes or domains have the same share."""
    rows = {"train": TRAIN, "id_val": TRAIN[2:7], "id_test": TRAIN[4:], "val": VAL, "test": TEST}
    splits = {
        split: paths([(size, min(label, 1) if binary else label, own) for size, label, own in part], binary)
        for split, part in rows.items()
    }
    task = Task("binary", 1, "rocauc") if binary else Task("multiclass", 3, "accuracy")
    return Benchmark("mine", domain, "covariate", splits, task, domain_names=names)


def panels(figure: Figure) -> list[Axes]:
    """The three panels under the samples."""
    return figure.findobj(Axes)[-3:]


def bars(axes: Axes) -> list[tuple[float, float, float, str]]:
    """Row, start, width and colour of every horizontal bar."""
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [
        (
            round(bar.get_y() + bar.get_height() / 2, 6),
            round(bar.get_x(), 3),
            round(bar.get_width(), 3),
            to_hex(bar.get_facecolor()),
        )
        for bar in found
    ]


def row_names(axes: Axes) -> list[str]:
    return [tick.get_text() for tick in axes.get_yticklabels()]


def test_class_bars_have_the_shares_of_the_classes() -> None:
    bench = small()
    axes = panels(card.card_figure(bench))[1]
    legend = axes.get_legend()
    assert legend is not None
    colours = [to_hex(patch.get_facecolor()) for patch in legend.get_patches()]
    assert [text.get_text() for text in legend.get_texts()] == ["class 0", "class 1", "class 2"]
    assert len(set(colours)) == 3
    assert row_names(axes) == list(SPLIT_NAMES.values())
    for place, split in enumerate(SPLITS):
        y = bench.splits[split].graph["y"].tolist()
        expected, start = {}, 0.0
        for label in range(3):
            width = 100 * y.count(label) / len(y)
            expected[colours[label]] = (round(start, 3), round(width, 3))
            start += width
        assert {bar[3]: bar[1:3] for bar in bars(axes) if bar[0] == place} == expected
        tick = axes.get_yticklabels()[place]
        assert to_hex(tick.get_color()) == palette.SPLIT_LETTERS[split]


def test_bars_of_a_binary_target_have_the_share_of_ones() -> None:
    bench = small(binary=True)
    for axes in panels(card.card_figure(bench))[1:]:
        shown = row_names(axes)
        for row, _, width, colour in bars(axes):
            name = shown[int(row)]
            split = next(key for key, value in SPLIT_NAMES.items() if name.split(" · ")[0] == value)
            graphs = bench.splits[split].graph
            own = graphs["y"][:, 0]
            if " · " in name:
                own = own[graphs["domain"] == "abc".index(name[-1])]
            assert width == pytest.approx(100 * float(own.mean()), abs=1e-3)
            assert colour == palette.SPLITS[split]
        printed = [text.get_text() for text in axes.texts]
        assert printed == [f"{width:.3g}" for _, _, width, _ in bars(axes)]
    assert len(bars(axes)) == 2 + 2 + 2  # two domains in each of the three splits


def test_domain_bars_have_the_shares_of_the_domains() -> None:
    bench = small()
    axes = panels(card.card_figure(bench))[0]
    assert row_names(axes) == ["a", "b", "c"]
    by_colour = {palette.SPLITS[split]: split for split in DRAWN}
    found = {(round(row), by_colour[colour]): width for row, _, width, colour in bars(axes)}
    expected = {}
    for split in DRAWN:
        domains = bench.splits[split].graph["domain"].tolist()
        for domain in set(domains):
            expected[domain, split] = round(100 * domains.count(domain) / len(domains), 3)
    assert found == expected
    legend = axes.get_legend()
    assert legend is not None
    named = zip(legend.get_texts(), legend.get_patches(), strict=True)
    assert {text.get_text(): to_hex(patch.get_facecolor()) for text, patch in named} == {
        SPLIT_NAMES[split]: palette.SPLITS[split] for split in DRAWN
    }


def test_classes_by_domain_are_those_of_the_domain() -> None:
    bench = small()
    axes = panels(card.card_figure(bench))[2]
    assert row_names(axes) == [
        *("training · a", "training · b"),
        *("OOD validation · b", "OOD validation · c"),
        *("OOD test · a", "OOD test · c"),
    ]
    widths = {(row, start): width for row, start, width, _ in bars(axes) if width}
    assert widths[0, 0.0] == 62.5  # five of eight graphs of lab a are of class 0
    assert widths[0, 62.5] == 37.5
    assert widths[1, 0.0] == 100
    assert {width for (row, _), width in widths.items() if row == 3} == {33.333, 66.667}
    assert {width for (row, _), width in widths.items() if row == 5} == {25.0, 50.0}


def test_sizes_are_a_histogram_of_each_split() -> None:
    bench = small(domain="size")
    axes = panels(card.card_figure(bench))[0]
    outlines = [patch for patch in axes.patches if isinstance(patch, Polygon) and not patch.get_fill()]
    by_colour = {to_hex(patch.get_edgecolor()): patch.get_xy() for patch in outlines}
    areas = [patch for patch in axes.patches if isinstance(patch, Polygon) and patch.get_fill()]
    filled = {to_hex(patch.get_facecolor()): patch.get_xy() for patch in areas}
    assert {colour: corners[:, 1].max() for colour, corners in filled.items()} == pytest.approx(
        {colour: corners[:, 1].max() for colour, corners in by_colour.items()}
    )
    assert {colour: corners[corners[:, 1].argmax(), 0] for colour, corners in filled.items()} == {
        colour: corners[corners[:, 1].argmax(), 0] for colour, corners in by_colour.items()
    }
    for split in DRAWN:
        corners = by_colour[palette.SPLITS[split]]
        sizes = bench.splits[split].sizes.tolist()
        for size in set(sizes):
            tops = [a[1] for a, b in pairwise(corners) if {a[0], b[0]} == {size - 0.5, size + 0.5} and a[1] == b[1]]
            assert max(tops) == pytest.approx(100 * sizes.count(size) / len(sizes))


def test_rare_large_graphs_are_in_a_last_bin_that_names_them() -> None:
    bench = small(domain="size")
    many = replace(bench, splits={**bench.splits, "test": paths([(9, 0, 2)] * 300 + [(60, 0, 2)], binary=False)})
    axes = Figure().subplots()
    card._draw_sizes(axes, many)
    assert "9 to 60" in axes.get_xlabel()
    assert axes.get_xlim()[1] < 20


def test_several_targets_have_a_dot_each_over_the_bar_of_their_mean() -> None:
    shares = np.array([[0.1, 0.3], [0.2, 0.8], [0.5, 0.6]])
    axes = Figure().subplots()
    card._draw_bars(axes, molecules(2, 2), ["x", "y", "z"], shares, ["train", "val", "test"])
    assert [(row, width) for row, _, width, _ in bars(axes)] == [(0, 20), (1, 50), (2, 55)]
    dots = [one.get_offsets().tolist() for one in axes.collections if isinstance(one, PathCollection)]
    assert dots == [[[10, 0], [20, 1], [50, 2]], [[30, 0], [80, 1], [60, 2]]]


def test_boxes_lie_over_the_domains_of_their_split() -> None:
    """Many domains: the box of a split covers the shares of label 1 of its own domains."""
    count = 20 * (cards.FEW + 1)
    splits = {}
    for place, split in enumerate(SPLITS):
        rows = [(2, float(n % 20 < 2 * place + n // 20 % 2 + 1), n // 20) for n in range(count)]
        splits[split] = paths(rows, binary=True)
    bench = Benchmark("mine", "lab", "covariate", splits, Task("binary", 1, "rocauc"))
    figure = card.card_figure(bench)
    left, _, right = panels(figure)
    boxes = [patch for patch in right.patches if isinstance(patch, PathPatch)]
    assert [to_hex(box.get_facecolor()) for box in boxes] == [palette.SPLITS[split] for split in DRAWN]
    for box, split in zip(boxes, DRAWN, strict=True):
        place = SPLITS.index(split)
        low, high = 5 * (2 * place + 1), 5 * (2 * place + 2)
        inside = box.get_path().vertices[:, 0]
        assert low <= inside.min() <= inside.max() <= high
    assert [name.split("\n") for name in row_names(right)] == [[SPLIT_NAMES[one], "9 domains"] for one in DRAWN]
    assert len(row_names(left)) == card.LARGEST
    assert f"{cards.FEW + 1} in training" in left.texts[0].get_text()


def test_samples_are_drawn_under_their_split_with_their_own_facts() -> None:
    bench = small()
    figure = card.card_figure(bench)
    top = figure.subfigs[0]
    for block, split in zip(top.subfigs, DRAWN, strict=True):
        graphs = bench.splits[split]
        title = block.get_suptitle()
        assert title == f"{SPLIT_NAMES[split]}: {len(graphs)} graphs"
        for axes, number in zip(block.axes, card.chosen(graphs, card.SAMPLES[split]), strict=True):
            domain, label = int(graphs.graph["domain"][number]), int(graphs.graph["y"][number])
            size = int(graphs.sizes[number])
            assert axes.get_xlabel() == f"{'abc'[domain]}\nclass {label}, {size} nodes"
            lines = [one for one in axes.collections if isinstance(one, LineCollection)]
            assert sum(len(one.get_segments()) for one in lines) == size - 1


def test_many_domains_are_counted_in_all_and_in_each_split() -> None:
    rows = {"val": [(2, 0, 20), (2, 1, 21), (3, 1, 21)], "test": [(2, 0, 30)]}
    splits = {split: paths(rows.get(split, [(2, n % 2, n % 8) for n in range(12)]), binary=True) for split in SPLITS}
    axes = Figure().subplots()
    card._draw_domains(axes, Benchmark("mine", "lab", "covariate", splits, Task("binary", 1, "rocauc")))
    (text,) = axes.texts
    assert re.findall(r"\d+", text.get_text()) == ["11", "8", "2", "1"]
    assert row_names(axes) == [f"lab {domain}" for domain in (0, 1, 2, 21, 20, 30)]
    widths = [round(width, 1) for _, _, width, _ in bars(axes)]
    assert widths == [16.7, 16.7, 16.7, 66.7, 33.3, 100]


def test_true_edges_of_a_sample_are_black() -> None:
    bench = load_benchmark("good-motif", graphs=300)
    figure = card.card_figure(bench)
    axes = figure.subfigs[0].subfigs[0].axes[0]
    graph = bench.splits["train"][card.chosen(bench.splits["train"], 3)[0]]
    lines = [one for one in axes.collections if isinstance(one, LineCollection)]
    counts = {to_hex(one.get_colors()[0]): len(one.get_segments()) for one in lines}
    true = int(graph.edge_truth.sum()) // 2
    assert counts[palette.TRUE] == true
    assert sum(counts.values()) - true == graph.num_edges // 2 - true
    (dots,) = [one for one in axes.collections if isinstance(one, PathCollection)]
    nodes = [to_hex(colour) == palette.TRUE for colour in dots.get_facecolors()]
    touched = graph.edge_index[:, graph.edge_truth].unique().tolist()
    assert [node for node, black in enumerate(nodes) if black] == touched


def test_samples_go_through_classes_and_domains() -> None:
    graphs = load_benchmark("sp-motif", graphs=300).splits["train"]
    numbers = card.chosen(graphs, 3)
    assert graphs.graph["y"][numbers].tolist() == [0, 1, 2]
    assert graphs.graph["domain"][numbers].tolist() == [0, 1, 2]
    assert card.chosen(graphs.subset([5]), 3) == [0]
    assert card.chosen(graphs.subset([]), 3) == []


def molecules(domains: int, targets: int = 1, names: tuple[str, ...] = ()) -> Benchmark:
    """Molecules over some domains; val and test have domains of their own."""
    graphs = featurise(SMILES * 16).graphs
    y = (torch.arange(80)[:, None] // torch.arange(1, targets + 1) % 2).float()
    splits = {}
    for split in SPLITS:
        first = {"val": domains, "test": 2 * domains}.get(split, 0)
        marks = {"y": y, "env": torch.zeros(80).long(), "domain": torch.arange(80) % domains + first}
        splits[split] = GraphSet(graphs.node, graphs.edge, marks, graphs.node_ptr, graphs.edge_ptr)
    return Benchmark(
        "mine", "assay", "covariate", splits, Task("binary", targets, "rocauc"), FEATURES, 1, "", {}, names
    )


@pytest.mark.parametrize(("domains", "targets"), [(2, 3), (cards.FEW + 1, 1)])
def test_molecules_are_drawn_as_formulas(domains: int, targets: int, tmp_path: Path) -> None:
    path = card.draw_card(molecules(domains, targets), tmp_path / "card.svg")
    assert path.read_text().count("<image") == 7


def test_the_picture_is_wide_enough_to_read(tmp_path: Path) -> None:
    path = card.draw_card(small(domain="size"), tmp_path / "deep" / "card.png")
    assert imread(path).shape[1] == 1200
    assert path.stat().st_size < 150_000
    assert [file.name for file in path.parent.iterdir()] == ["card.png"]


def test_names_with_dollar_signs_are_shown_as_they_are(tmp_path: Path) -> None:
    names = ("$x_{$", "a$b$c", "$\\frac$")
    assert card.draw_card(small(names=names), tmp_path / "card.png").exists()


def test_an_empty_split_is_drawn() -> None:
    for number, bench in enumerate((small(), small(domain="size"), small(binary=True))):
        empty = replace(bench, splits={**bench.splits, "val": bench.splits["val"].subset([])})
        assert len(card.card_figure(empty).findobj(Axes)) == 7 + 3, number


def letters(figure: Figure) -> list[Text]:
    """All visible text, without tick labels beyond the ends of an axis."""
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    for axes in figure.findobj(Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            beyond = [tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
            found = [text for text in found if text not in beyond]
    return found


def test_no_letters_overlap() -> None:
    names = ("a long name of a domain",) * 40
    for bench in (
        load_benchmark("good-motif", graphs=300),
        small(domain="size"),
        molecules(cards.FEW + 1, names=names),
    ):
        with literal_text():
            canvas = FigureCanvasAgg(card.card_figure(bench))
        canvas.draw()
        texts = letters(canvas.figure)
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
        pairs = [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]
        assert len(texts) > 40
        assert not [(texts[i].get_text(), texts[j].get_text()) for i, j in pairs]
        inside = [box.x0 >= 0 and box.x1 <= 1200 and box.y0 >= 0 for box in boxes]
        assert not [text.get_text() for text, fits in zip(texts, inside, strict=True) if not fits]


def test_a_picture_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png"):
        card.draw_card(small(), tmp_path / "card.gif")


def test_a_formula_is_a_picture_of_the_size_asked_for(tmp_path: Path) -> None:
    graphs = featurise(SMILES[:2]).graphs
    for graph in graphs:
        (tmp_path / "one.png").write_bytes(depict(graph, 300, 200))
        picture = imread(tmp_path / "one.png")
        assert picture.shape[:2] == (200, 300)
        assert (picture[..., :3].min(-1) < 0.5).mean() > 0.005
    odd = Data(x=graphs[0].x, edge_index=graphs[0].edge_index, edge_attr=graphs[0].edge_attr.clone())
    odd.edge_attr[:, 0] = 12  # all bonds aromatic: there is no Kekulé structure
    assert depict(odd, 200, 200).startswith(b"\x89PNG")


def test_the_card_of_a_real_file(tmp_path: Path) -> None:
    file = Path(os.environ.get("GOODFORMER_DATA", "")) / "bace" / "bace.csv"
    if not file.is_file():
        pytest.skip("GOODFORMER_DATA names no folder with bace/bace.csv")
    bench = load_benchmark("table", path=str(file), target="Class", split="scaffold")
    facts = cards.facts(bench)
    assert sum(row["graphs"] for row in facts["statistics"].values()) == 1513
    assert facts["seen_in_training"]["test"] == 0
    assert facts["over_domains"]["train"]["largest"]["graphs"] > 20
    assert card.draw_card(bench, tmp_path / "card.png").stat().st_size > 20_000
    assert np.isfinite(facts["statistics"]["train"]["mean_nodes"])
