"""Structural formulas with what decides in colour, read back from the files."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb
from PIL import Image
from rdkit import Chem
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.molecule import featurise
from goodformer.draw import molecules
from goodformer.draw.molecules import CHOSEN, OTHERS, Highlights, draw_molecule, draw_molecules, highlights
from goodformer.draw.palette import GREY, INK
from goodformer.errors import InputError

PROPANOL = "CCCO"
DATA = Path(os.environ.get("GOODFORMER_DATA", "/nowhere"))


def graph_of(smiles: str) -> Data:
    """The graph with atoms and bonds as in the SMILES."""
    graph = featurise([smiles]).graphs.as_given()[0]
    low, high = graph.edge_index[:, ::2].sort(0).values
    bonds = (low * graph.num_nodes + high).argsort()
    order = torch.stack([2 * bonds, 2 * bonds + 1], 1).flatten()
    graph.edge_index, graph.edge_attr = graph.edge_index[:, order], graph.edge_attr[order]
    return graph


def coloured(part: Highlights) -> dict[tuple[int, int], Any]:
    """Colours by the atoms of each bond."""
    bonds = [part.mol.GetBondWithIdx(number) for number in part.bonds]
    pairs = [tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in bonds]
    return dict(zip(pairs, part.bonds.values(), strict=True))


def scored(graph: Data, seed: int = 0) -> Tensor:
    return torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))


def fills(path: Path) -> dict[int, set[str]]:
    """Colours that fill each bond in an SVG, by RDKit's number of the bond."""
    found: dict[int, set[str]] = {}
    for element in ElementTree.parse(path).iter():
        bond = re.match(r"bond-(\d+) ", element.get("class", ""))
        fill = re.search(r"fill:(#[0-9A-Fa-f]{6})", element.get("style", ""))
        if bond and fill:
            found.setdefault(int(bond[1]), set()).add(fill[1].lower())
    return found


def pixels(path: Path, colour: str) -> int:
    """How many pixels of a picture have just this colour."""
    image = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return int((np.abs(image - np.round(255 * np.array(to_rgb(colour)))).max(-1) <= 1).sum())


def test_chosen_bonds_are_strong_and_the_rest_shaded_by_score(tmp_path: Path) -> None:
    graph = graph_of(PROPANOL)  # bonds 0: C-C, 1: C-C, 2: C-O
    scores = torch.tensor([0.0, 0.0, 1.0, 1.0, 9.0, 5.0])
    path = draw_molecule(PROPANOL, graph.edge_index, scores, tmp_path / "one.svg", "propanol", k=1)
    found = fills(path)
    assert to_hex(CHOSEN(1.0)) in found[2]
    assert to_hex(OTHERS(1.0)) in found[1]
    assert found[0] <= {"#ffffff", "#000000"}
    assert not any(to_hex(CHOSEN(1.0)) in found[bond] for bond in (0, 1))


def test_the_best_of_several_chosen_bonds_is_the_strongest() -> None:
    graph = graph_of(PROPANOL)
    part = highlights(PROPANOL, graph.edge_index, torch.tensor([3.0, 3.0, 2.0, 2.0, 1.0, 1.0]), k=2)
    assert part.bonds[0] == pytest.approx(CHOSEN(1.0)[:3])
    assert part.bonds[1] == pytest.approx(CHOSEN(0.0)[:3])
    assert part.atoms[0] == pytest.approx(CHOSEN(1.0)[:3])  # that of its only bond
    assert part.atoms[1] == pytest.approx(CHOSEN(0.8)[:3], abs=0.01)  # 2.75 between 1.75 (atom 2) and 3
    assert part.atoms[3] == pytest.approx(OTHERS(0.0)[:3])  # oxygen, which no chosen bond touches


def test_the_order_of_edges_does_not_matter(tmp_path: Path) -> None:
    smiles = "CC(=O)Nc1ccc(O)cc1"
    graph = graph_of(smiles)
    scores, order = scored(graph), torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(5))
    first = draw_molecule(smiles, graph.edge_index, scores, tmp_path / "a.svg")
    second = draw_molecule(smiles, graph.edge_index[:, order], scores[order], tmp_path / "b.svg")
    assert first.read_bytes() == second.read_bytes()


def test_a_png_opens_and_has_the_colours(tmp_path: Path) -> None:
    smiles = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Oc1ccccc1C(=O)O"]
    graphs = [graph_of(one) for one in smiles]
    path = draw_molecules(
        smiles,
        [graph.edge_index for graph in graphs],
        [scored(graph) for graph in graphs],
        tmp_path / "deep" / "two.png",
        ["paracetamol\npredicted 1", "aspirin\npredicted 0"],
        k=3,
    )
    width, height = Image.open(path).size
    assert width > height > 300
    assert pixels(path, to_hex(CHOSEN(1.0))) > 300
    assert pixels(path, "#ffffff") > width * height / 2
    assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize(
    "smiles",
    [
        "C",
        "[Na+].[Cl-]",
        "[Na+].CC(=O)[O-].O",
        "[H][H]",
        "[2H]OC([2H])([2H])[2H]",
        "[H]OC([H])([H])[H]",
        "C" * 200,
        "CCC1=[O+][Cu-3]2([O+]=C(CC)C1)[O+]=C(CC)CC(CC)=[O+]2",
        "F/C=C/[C@@H](N)C(=O)O",
        "c1ccc2c(c1)[nH]c1ccccc12",
    ],
    ids=lambda smiles: smiles[:12],
)
@pytest.mark.parametrize("form", ["png", "svg"])
def test_odd_molecules_are_drawn(tmp_path: Path, smiles: str, form: str) -> None:
    graph = graph_of(smiles)
    path = draw_molecule(smiles, graph.edge_index, scored(graph), tmp_path / f"odd.{form}", "a title\nof two lines")
    assert path.stat().st_size > 1500
    from_codes = draw_molecule(
        graph, graph.edge_index, scored(graph), tmp_path / f"codes.{form}", "a title\nof two lines"
    )
    assert from_codes.stat().st_size == pytest.approx(path.stat().st_size, rel=0.2)


def test_hydrogens_that_are_nodes_are_drawn_as_atoms() -> None:
    smiles = "[H]C([H])([H])[H]"
    hidden = highlights(smiles, torch.empty(2, 0, dtype=torch.long), torch.empty(0))
    assert hidden.mol.GetNumAtoms() == 1
    star = torch.tensor([[0, 1, 1, 1], [1, 2, 3, 4]])
    assert highlights(smiles, star, torch.rand(4)).mol.GetNumAtoms() == 5


@pytest.mark.parametrize("smiles", ["N[C@@H](C)C(=O)O", "F/C=C/Cl", "[O-][N+](=O)c1ccccc1", "[Na+].[Cl-]", "[CH3]"])
def test_codes_give_back_the_molecule(smiles: str) -> None:
    graph = graph_of(smiles)
    part = highlights(graph, graph.edge_index, scored(graph))
    assert Chem.CanonSmiles(Chem.MolToSmiles(part.mol)) == Chem.CanonSmiles(smiles)


def test_a_molecule_that_breaks_the_rules_is_drawn_from_its_codes(tmp_path: Path) -> None:
    """Neopentane with one carbon more on its centre: five bonds."""
    graph = graph_of("CC(C)(C)C")
    more = torch.tensor([[1, 5], [5, 1]])
    odd = Data(
        x=torch.cat((graph.x, graph.x[:1])),
        edge_index=torch.cat((graph.edge_index, more), 1),
        edge_attr=torch.cat((graph.edge_attr, graph.edge_attr[:2])),
    )
    path = draw_molecule(odd, odd.edge_index, scored(odd), tmp_path / "a.svg")
    assert len(fills(path)) == 5
    odd.x[0, 0] = 500
    with pytest.raises(InputError, match="do not describe a molecule"):
        draw_molecule(odd, odd.edge_index, scored(odd), tmp_path / "b.svg")


def bond_length(path: Path, number: int) -> float:
    """Length in pixels of the line of the first panel's bond, which no label shortens."""
    for element in ElementTree.parse(path).iter():
        line = re.match(r"M ([\d.]+),([\d.]+) L ([\d.]+),([\d.]+)$", element.get("d", "").strip())
        if line and element.get("class", "").startswith(f"bond-{number} ") and "fill:none" in element.get("style", ""):
            a, b, c, d = map(float, line.groups())
            return float(np.hypot(a - c, b - d))
    raise AssertionError("no such bond")


def test_each_molecule_ownits_own_panel(tmp_path: Path) -> None:
    shares = {}
    for name, other in (("small", "CCCC"), ("large", "C" * 34)):
        both = [graph_of("CCCC"), graph_of(other)]
        path = tmp_path / f"{name}.svg"
        ends = [graph.edge_index for graph in both]
        draw_molecules(["CCCC", other], ends, [scored(graph) for graph in both], path, ["", ""])
        width = float(re.search(r"width='(\d+)px'", path.read_text())[1]) / 2
        shares[name] = bond_length(path, 0) / width
    assert shares["large"] == pytest.approx(shares["small"], rel=0.1)
    assert shares["small"] > 0.08


def test_the_key_says_what_the_chosen_bonds_are(tmp_path: Path) -> None:
    """RDKit draws each letter as a path, and each blank as an empty one."""
    graph = graph_of(PROPANOL)
    drawn = [
        draw_molecule(PROPANOL, graph.edge_index, scored(graph), tmp_path / "a.svg", caption=caption).read_text()
        for caption in ("x", "bonds that matter")
    ]
    assert drawn[1].count("<path") - drawn[0].count("<path") == len("bonds that matter") - 1


@pytest.mark.parametrize(("smiles", "count"), [("C" * 100, 60), ("CCO", 250)])
def test_a_picture_of_many_is_no_taller_than_png_allows(tmp_path: Path, smiles: str, count: int) -> None:
    graph = graph_of(smiles)
    ends, scores = [graph.edge_index] * count, [scored(graph)] * count
    path = draw_molecules([smiles] * count, ends, scores, tmp_path / "a.png", ["a\nb"] * count)
    width, height = Image.open(path).size
    assert width > 900
    assert height < 30_100
    with pytest.raises(InputError, match=r"500 molecules.* 501"):
        draw_molecules([smiles] * 501, ends[:1] * 501, scores[:1] * 501, tmp_path / "b.png", [""] * 501)


def test_every_text_stands_beside_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Titles lie under the molecules of their own panels, the words of the key right of their own colours."""
    written: dict[str, tuple[float, float]] = {}
    colours: dict[str, str] = {}
    write = molecules._write

    def note(canvas: Any, text: str, place: Any, *style: Any) -> None:
        written[text] = (place.x, place.y)
        colours[text] = to_hex(style[0])
        write(canvas, text, place, *style)

    monkeypatch.setattr(molecules, "_write", note)
    smiles, titles = ["CCC", "CCCCO", "C1CC1", "CCCCCCN"], ["first\na", "second\nb", "third\nc", "fourth\nd"]
    graphs = [graph_of(one) for one in smiles]
    ends, scores = [graph.edge_index for graph in graphs], [scored(graph) for graph in graphs]
    path = draw_molecules(smiles, ends, scores, tmp_path / "a.svg", titles, 1, "what is chosen", "what is missing")
    columns = 3  # small molecules; the fourth begins the second row
    for place, title in enumerate(titles):
        name, more = (written[line] for line in title.split("\n"))
        assert [colours[line] for line in title.split("\n")] == [INK, GREY]
        assert name[0] == more[0] == (place % columns + 0.5) * 380
        assert (place // columns) * 304 < name[1] < more[1] < (place // columns + 1) * 380
    below = [written[text][1] for text in ("fourth", "what is chosen", "what is missing")]
    assert below == sorted(below)
    boxes: dict[float, set[str]] = {}
    for element in ElementTree.parse(path).iter():
        corner = re.match(r"M ([\d.]+),([\d.]+) ", element.get("d", ""))
        fill = re.search(r"fill:(#[0-9A-Fa-f]{6})", element.get("style", ""))
        if (
            corner
            and fill
            and abs(float(corner[2]) - written["what is chosen"][1]) < 7
            and "class" not in element.attrib
        ):
            boxes.setdefault(float(corner[1]), set()).add(fill[1].lower())
    words = written["what is chosen"][0], written["other bonds, by score"][0]
    strong = {colour for left, own in boxes.items() if left < words[0] for colour in own}
    pale = {colour for left, own in boxes.items() if words[0] + 150 < left < words[1] for colour in own}
    assert {to_hex(CHOSEN(share)) for share in (0.0, 1.0)} <= strong
    assert to_hex(OTHERS(1.0)) in pale
    assert not strong & pale


def test_atoms_have_the_colours_of_their_own_bonds(tmp_path: Path) -> None:
    """The chosen bond of propanol is the last one, so its first carbon stays white and its oxygen is red."""
    graph = graph_of(PROPANOL)
    path = draw_molecule(PROPANOL, graph.edge_index, torch.tensor([0.0, 0, 1, 1, 9, 9]), tmp_path / "a.svg", k=1)
    found: dict[int, set[str]] = {}
    for element in ElementTree.parse(path).iter():
        atom = re.fullmatch(r"atom-(\d+)", element.get("class", ""))
        fill = re.search(r"fill:(#[0-9A-Fa-f]{6})", element.get("style", ""))
        if atom and fill and element.tag.endswith("ellipse"):
            found.setdefault(int(atom[1]), set()).add(fill[1].lower())
    part = highlights(PROPANOL, graph.edge_index, torch.tensor([0.0, 0, 1, 1, 9, 9]), k=1)
    assert found == {atom: {to_hex(colour)} for atom, colour in part.atoms.items()}
    assert found[3] == {to_hex(CHOSEN(1.0))}
    assert found[0] == {to_hex(OTHERS(0.0))}


def test_a_note_is_a_line_under_all(tmp_path: Path) -> None:
    graph, texts = graph_of(PROPANOL), []
    for note in ("", "larger ones left out"):
        path = tmp_path / "a.svg"
        draw_molecules([PROPANOL], [graph.edge_index], [scored(graph)], path, [""], note=note)
        texts.append(path.read_text())
    heights = [int(re.search(r"height='(\d+)px'", text)[1]) for text in texts]
    assert heights[1] == heights[0] + 22
    assert texts[1].count("<path") - texts[0].count("<path") == len("larger ones left out")


def test_a_long_title_is_cut_and_a_large_molecule_gets_a_large_panel(tmp_path: Path) -> None:
    small, large = "CCO", "CC" * 40
    sizes = []
    for smiles in (small, large):
        graph = graph_of(smiles)
        path = draw_molecule(smiles, graph.edge_index, scored(graph), tmp_path / "a.png", "x" * 500)
        sizes.append(Image.open(path).size[0])
    assert sizes[0] < 500 < sizes[1] == 1680


def test_a_large_molecule_has_fewer_beside_it(tmp_path: Path) -> None:
    """A peptide of 241 atoms among others: its bonds keep a length at which they can be told apart."""
    others, peptide = ["CCO", "CCN", "CCC"], "NCC(=O)" * 60 + "O"
    shapes = []
    for last in ("CCCC", peptide):
        graphs = [graph_of(one) for one in (*others, last)]
        ends, scores = [graph.edge_index for graph in graphs], [scored(graph) for graph in graphs]
        path = draw_molecules(
            [last, *others], ends[-1:] + ends[:-1], scores[-1:] + scores[:-1], tmp_path / "a.svg", [""] * 4
        )
        size = re.search(r"width='(\d+)px' height='(\d+)px'", path.read_text())
        shapes.append((int(size[1]), int(size[2])))
    assert shapes[0][0] == 3 * 380
    assert shapes[1][0] == 1680
    assert shapes[1][1] > 4 * 0.8 * 1680  # one below the other
    assert bond_length(path, 0) > 5


@pytest.mark.parametrize(
    ("smiles", "name", "word"),
    [("CCO", "a.docx", "\\.png or \\.svg"), ("CCC(", "a.png", "valid SMILES"), ("CCOC", "a.png", "bonds of")],
)
def test_bad_calls_say_what_to_do(tmp_path: Path, smiles: str, name: str, word: str) -> None:
    graph = graph_of("CCO")
    with pytest.raises(InputError, match=word):
        draw_molecule(smiles, graph.edge_index, scored(graph), tmp_path / name)
    with pytest.raises(InputError, match="0 titles"):
        draw_molecules(["CCO"], [], [], tmp_path / "a.png", [])
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not (DATA / "hiv" / "HIV.csv").is_file(), reason="GOODFORMER_DATA holds no hiv/HIV.csv")
def test_real_molecules_are_drawn_from_smiles_and_from_codes(tmp_path: Path) -> None:
    with (DATA / "hiv" / "HIV.csv").open() as file:
        rows = [row["smiles"] for row in csv.DictReader(file)]
    taken = [*rows[::4000], max(rows, key=len)]
    read = featurise(taken)
    smiles, graphs = [taken[row] for row in read.rows.tolist()], list(read.graphs.as_given())
    indices, scores = [graph.edge_index for graph in graphs], [scored(graph) for graph in graphs]
    path = draw_molecules(smiles, indices, scores, tmp_path / "hiv.png", [""] * len(graphs))
    assert pixels(path, to_hex(CHOSEN(1.0))) > 1000
    for one, graph, score in zip(smiles, graphs, scores, strict=True):
        assert coloured(highlights(one, graph.edge_index, score)) == coloured(
            highlights(graph, graph.edge_index, score)
        )


def test_a_formula_says_where_its_atoms_are() -> None:
    """The letters of an atom lie around its place."""
    graph = featurise(["OCCCCN"]).graphs.as_given()[0]
    drawn = molecules.formula("OCCCCN", graph.edge_index, torch.rand(graph.edge_index.shape[1]))
    assert drawn.elements == ["O", "C", "C", "C", "C", "N"]
    assert len(drawn.places) == 6
    for atom, letter in ((0, 0), (5, -1)):  # OH begins with its O, H2N ends with its N
        paths = re.findall(rf"class='atom-{atom}' d='([^']*)' fill='#000000'", drawn.svg)
        numbers = [float(word) for word in re.findall(r"[0-9.]+", paths[letter])]
        middle = np.mean(numbers[::2]), np.mean(numbers[1::2])
        assert middle == pytest.approx(drawn.places[atom], abs=4)


def test_the_key_has_room_for_its_words_and_needs_marks(tmp_path: Path) -> None:
    long, smiles = "bonds with the highest mean score of all members", ["CCO", "CCN", "CCC"]
    for width, line in ((1140, 0), (380, 1)):
        first, second = molecules._key(long, width)
        assert second.line == line
        assert second.line or second.left > first.left + molecules.SWATCH + molecules.LETTER * len(long)
    edges = [torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])] * 3
    pictures = []
    for marked in ([True] * 3, [False] * 3):
        path = tmp_path / f"{marked[0]}.svg"
        draw_molecules(smiles, edges, [torch.arange(4.0)] * 3, path, smiles, caption="the-key", marked=marked)
        pictures.append(path.read_text())
    reds = [text.lower().count(to_hex(CHOSEN(1.0))) for text in pictures]
    assert reds[0] > 0 == reds[1]
