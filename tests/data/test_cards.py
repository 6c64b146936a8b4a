"""Data cards: what is counted is what is there, and the picture shows graphs of every split."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from rdkit import Chem
from torch_geometric.data import Data

from goodformer.data import cards, load_benchmark
from goodformer.data.benchmark import FEW, Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise, rebuilt
from goodformer.draw import card as card_picture
from goodformer.draw.molecules import depict
from goodformer.registry import InputError
from goodformer.spec import SPLITS, Task

SMILES = (
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[N+](C)(C)CC([O-])=O.[Na+]",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "O=[N+]([O-])c1ccc(cc1)S(=O)(=O)Nc1ncccn1",
    "C#CCN1CCC(=C(Cl)Br)C1",
    "C",
    "c1cc[nH]c1",
    "[CH3][Hg]Cl",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path_factory.getbasetemp() / "cards-cache"))


def motif(**settings: object) -> Benchmark:
    """A small GOOD-Motif."""
    return load_benchmark("good-motif", **{"graphs": 300, **settings})


def molecules(domains: int, y: torch.Tensor | None = None, names: tuple[str, ...] = ()) -> Benchmark:
    """Molecules over some domains, all splits alike but for the domains of val and test."""
    graphs = featurise(SMILES * 10).graphs
    count = len(graphs)
    labels = (torch.arange(count) % 2).float()[:, None] if y is None else y
    splits = {}
    for split in SPLITS:
        first = {"val": domains, "test": 2 * domains}.get(split, 0)
        marks = {"y": labels, "env": torch.zeros(count).long(), "domain": torch.arange(count) % domains + first}
        splits[split] = GraphSet(graphs.node, graphs.edge, marks, graphs.node_ptr, graphs.edge_ptr)
    task = Task("binary", labels.shape[1], "rocauc")
    return Benchmark("mine", "assay", "covariate", splits, task, FEATURES, domain_names=names)


# Facts ----------------------------------------------------------------------------------------------------------------


def test_shares_by_domain_against_a_loop() -> None:
    bench = motif(shift="concept")
    for graphs in bench.splits.values():
        found, counts, shares = cards.shares_by_domain(graphs, bench.task)
        domains, y = graphs.graph["domain"].tolist(), graphs.graph["y"].tolist()
        assert found.tolist() == sorted(set(domains))
        for domain, count, balance in zip(found.tolist(), counts.tolist(), shares.tolist(), strict=True):
            members = [label for label, own in zip(y, domains, strict=True) if own == domain]
            assert count == len(members)
            assert balance == pytest.approx([members.count(label) / count for label in range(3)])


def test_missing_labels_count_neither_way() -> None:
    nan = float("nan")
    y = torch.tensor([[1.0, nan], [0.0, nan], [nan, 1.0], [1.0, nan]]).repeat(20, 1)
    graphs = molecules(2).splits["train"]
    graphs.graph["y"] = y
    _, counts, shares = cards.shares_by_domain(graphs, Task("binary", 2, "rocauc"))
    assert counts.tolist() == [40, 40]
    assert shares[0].tolist() == [1.0, 1.0]  # rows 0, 2 of four: 1 and missing; missing and 1
    assert shares[1, 0] == 0.5
    assert shares[1, 1].isnan()


def test_facts_of_few_domains_name_each() -> None:
    facts = cards.facts(motif())
    assert facts["over_domains"] is None
    assert [row["domain"] for row in facts["by_domain"] if row["split"] == "train"] == ["wheel", "tree", "ladder"]
    assert [row["domain"] for row in facts["by_domain"] if row["split"] in ("val", "test")] == ["star", "path"]
    assert sum(row["graphs"] for row in facts["by_domain"]) == 300
    assert facts["seen_in_training"] == {"train": 1.0, "id_val": 1.0, "id_test": 1.0, "val": 0.0, "test": 0.0}
    assert facts["notes"].startswith("Generated after GOOD's recipe")


def test_facts_of_many_domains_are_a_summary() -> None:
    bench = molecules(FEW + 1)
    marks = bench.splits["train"].graph
    marks["domain"] = torch.where(torch.arange(80) < 45, 0, torch.where(torch.arange(80) < 70, 1, marks["domain"] + 2))
    facts = cards.facts(bench)
    assert facts["by_domain"] is None
    train = facts["over_domains"]["train"]
    found, counts = np.unique(marks["domain"].numpy(), return_counts=True)
    assert train["domains"] == len(found)
    assert train["largest"] == {"domain": "0", "graphs": 45}
    assert train["smallest"]["graphs"] == counts.min()
    assert train["counted"] == 2
    own = [bench.splits["train"].graph["y"][marks["domain"] == domain].mean() for domain in (0, 1)]
    assert train["balance_quartiles"][0] == pytest.approx(np.quantile(own, [0.25, 0.5, 0.75]), abs=1e-4)
    assert facts["over_domains"]["val"]["balance_quartiles"] == []
    described = bench.describe()["train"]["domains"]
    assert described == {"number": len(found), "largest": 45, "smallest": counts.min()}


def test_domains_have_names_where_they_were_given() -> None:
    bench = molecules(2, names=("", "c1ccccc1"))
    assert [cards.domain_name(bench, domain) for domain in (0, 1, 2)] == ["none", "c1ccccc1", "2"]


def test_an_empty_split_is_no_trouble(tmp_path: Path) -> None:
    bench = motif()
    empty = replace(bench, splits={**bench.splits, "val": bench.splits["val"].subset([])})
    facts = cards.facts(empty)
    assert facts["seen_in_training"]["val"] is None
    assert not [row for row in facts["by_domain"] if row["split"] == "val"]
    assert card_picture.draw_card(empty, tmp_path / "card.png").exists()
    many = molecules(FEW + 1)
    many = replace(many, splits={**many.splits, "test": many.splits["test"].subset([])})
    assert cards.facts(many)["over_domains"]["test"] == {"domains": 0}
    assert card_picture.draw_card(many, tmp_path / "many.png").exists()


# Pictures -------------------------------------------------------------------------------------------------------------


def test_samples_go_through_classes_and_domains() -> None:
    bench = load_benchmark("sp-motif", graphs=300)
    graphs = bench.splits["train"]
    numbers = card_picture.chosen(graphs, 3)
    assert graphs.graph["y"][numbers].tolist() == [0, 1, 2]
    assert graphs.graph["domain"][numbers].tolist() == [0, 1, 2]
    assert card_picture.chosen(graphs.subset([5]), 3) == [0]
    assert card_picture.chosen(graphs.subset([]), 3) == []


@pytest.mark.parametrize(
    "settings", [{"domain": "basis"}, {"domain": "size"}, {"domain": "basis", "shift": "none"}], ids=str
)
def test_pictures_are_wide_enough_to_read(settings: dict[str, str], tmp_path: Path) -> None:
    path = card_picture.draw_card(motif(**settings), tmp_path / "deep" / "card.png")
    assert imread(path).shape[1] == 1200
    assert path.stat().st_size < 150_000
    assert [file.name for file in path.parent.iterdir()] == ["card.png"]


@pytest.mark.parametrize("domains", [2, FEW + 1])
@pytest.mark.parametrize("targets", [1, 3])
def test_molecules_are_drawn(domains: int, targets: int, tmp_path: Path) -> None:
    y = (torch.arange(80)[:, None] // torch.arange(1, targets + 1) % 2).float()
    path = card_picture.draw_card(molecules(domains, y), tmp_path / "card.svg")
    assert path.read_text().count("<image") == 7


def letters(figure: Figure) -> list[Text]:
    """All letters that are drawn, tick labels beyond the ends of an axis left out."""
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    for axes in figure.findobj(Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            beyond = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
            found = [text for text in found if text not in [tick.label1 for tick in beyond]]
    return found


def test_no_letters_overlap() -> None:
    for bench in (motif(), motif(domain="size"), molecules(FEW + 1, names=("a long name of a domain",) * 40)):
        canvas = FigureCanvasAgg(card_picture._figure(bench))
        canvas.draw()
        texts = letters(canvas.figure)
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
        pairs = [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]
        assert len(texts) > 40
        assert not [(texts[i].get_text(), texts[j].get_text()) for i, j in pairs]
        assert all(box.x0 >= 0 and box.x1 <= 1200 and box.y0 >= 0 for box in boxes)


def test_a_picture_of_no_known_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"end it in \.png"):
        card_picture.draw_card(motif(), tmp_path / "card.gif")


@pytest.mark.parametrize("smiles", SMILES)
def test_a_molecule_is_rebuilt_from_its_codes(smiles: str) -> None:
    (graph,) = featurise([smiles]).graphs
    again = Chem.MolFromSmiles(Chem.MolToSmiles(rebuilt(graph)))
    assert Chem.MolToSmiles(again) == Chem.MolToSmiles(Chem.MolFromSmiles(smiles), isomericSmiles=False)


def test_a_formula_is_a_picture_of_the_size_asked_for(tmp_path: Path) -> None:
    graphs = featurise(SMILES[:2]).graphs
    for graph in graphs:
        (tmp_path / "one.png").write_bytes(depict(graph, 300, 200))
        picture = imread(tmp_path / "one.png")
        assert picture.shape[:2] == (200, 300)
        assert (picture[..., :3].min(-1) < 0.5).mean() > 0.005
    odd = Data(x=graphs[0].x, edge_index=graphs[0].edge_index, edge_attr=graphs[0].edge_attr.clone())
    odd.edge_attr[:, 0] = 12  # all bonds aromatic: no Kekulé structure, drawn all the same
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
    assert card_picture.draw_card(bench, tmp_path / "card.png").stat().st_size > 20_000
