"""Pictures of molecules: structural formulas with highlighted bonds and atoms.

The only file that draws with RDKit.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from xml.etree import ElementTree as XML

import torch
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D
from torch import Tensor

from goodformer import files
from goodformer.batch import Graph
from goodformer.data.molecule import CHIRALITY, labelled, rebuilt, restored
from goodformer.draw import inline
from goodformer.draw.canvas import shortened
from goodformer.draw.palette import FRAME, GREY, INK, PAPER
from goodformer.errors import InputError
from goodformer.explain.subgraph import Size, score_edges, shades

Colour = tuple[float, float, float]
Molecule: TypeAlias = "str | bytes | Graph"

CHOSEN = LinearSegmentedColormap.from_list("chosen", ["#f9a08c", "#ec4a34"])
"""From the lowest to the highest score among the chosen bonds."""
OTHERS = LinearSegmentedColormap.from_list("others", [PAPER, "#fde2c4"])
"""From the lowest to the highest score among the other bonds."""
TITLE, SUBTITLE, HAIR_LINE = to_rgb(INK), to_rgb(GREY), to_rgb(FRAME)

COLUMNS = 3
SWATCH = 40
"""Width in pixels of a colour scale of the key."""
MIDDLE, START = 0, 1
"""RDKit's codes for the alignment of letters."""
SMALLEST, WIDEST = 380, 1680
"""Width in pixels of the panel of a small molecule, and of panels side by side."""
TALLEST, SHARE = 30_000, 0.8
"""Height in pixels of a picture, below what PNG writers refuse, and of a panel as a share of its width."""
MOST = 500
"""Largest number of molecules in one picture."""
LONGEST_BOND = 0.095
"""Length of a bond as a share of its panel's width, unless the molecule is too large for that."""
INLINE = 150
"""Largest number of atoms of a molecule that is drawn inside a page."""
PER_LENGTH, TIGHTEST = 23, 18
"""Pixels of a panel for each unit of a molecule's length, and below how many it gets a wider panel; a bond is 1.5."""
TITLE_SIZE, LINE = 16, 22
"""Height in pixels of a title's letters, and of its line."""
LETTER = 0.55 * TITLE_SIZE
"""Width in pixels of a letter, on average."""
BOND = 1.8
"""Width in pixels of the line of a bond."""


@dataclass(frozen=True)
class Highlights:
    """A molecule with coordinates, and the colour of each bond and atom."""

    mol: Any
    bonds: dict[int, Colour]
    atoms: dict[int, Colour]

    @property
    def length(self) -> float:
        """Longer side of the drawing."""
        places = self.mol.GetConformer().GetPositions()
        return float((places.max(0) - places.min(0)).max()) if len(places) else 0.0


def draw_molecule(
    molecule: Molecule,
    edge_index: Tensor,
    scores: Tensor,
    path: str | os.PathLike[str],
    title: str = "",
    k: Size = None,
    caption: str = "chosen: the best bonds",
) -> Path:
    """Draw one molecule with the bonds its scores choose.

    Args:
        molecule: A SMILES string, RDKit's binary form of a molecule, or a graph in the layout of
            `goodformer.data.molecule.FEATURES`.
        edge_index: The ends of each scored directed edge as atom numbers in the order of the string, (2, E).
        scores: Score of each directed edge, (E,), larger = more decisive.
        path: Picture file, .png or .svg.
        title: One or two lines under the molecule.
        k: Number or share of bonds to choose; by default as the scores suggest.
        caption: What the chosen bonds are.
    """
    return draw_molecules([molecule], [edge_index], [scores], path, [title], k, caption)


def draw_molecules(
    molecules: Sequence[Molecule],
    edge_indices: Sequence[Tensor],
    scores: Sequence[Tensor],
    path: str | os.PathLike[str],
    titles: Sequence[str],
    k: Size = None,
    caption: str = "chosen: the best bonds",
    note: str = "",
    marked: Sequence[bool] | None = None,
) -> Path:
    """Draw a grid of molecules, each with the bonds its scores choose; see `draw_molecule`.

    A ``note`` is a last line under all, for what the picture does not show. A molecule that is not ``marked`` has no
    colours; by default all are.
    """
    if not len(molecules) == len(edge_indices) == len(scores) == len(titles) or not molecules:
        raise InputError(
            f"draw_molecules got {len(molecules)} molecules, {len(edge_indices)} edge indices, {len(scores)} scores "
            f"and {len(titles)} titles; pass at least one molecule, and one of each per molecule."
        )
    if len(molecules) > MOST:
        raise InputError(f"one picture holds {MOST} molecules, not {len(molecules)}; draw fewer at a time.")
    target, canvases = Path(path), {".png": rdMolDraw2D.MolDraw2DCairo, ".svg": rdMolDraw2D.MolDraw2DSVG}
    if target.suffix not in canvases:
        raise InputError(f"cannot draw molecules as {target.suffix or target.name!r}; use the suffix .png or .svg.")
    shown = [True] * len(molecules) if marked is None else marked
    parts = [
        highlights(molecule, ends, values, k, one)
        for molecule, ends, values, one in zip(molecules, edge_indices, scores, shown, strict=True)
    ]
    files.make_folder(target.parent)
    files.write_bytes(target, _drawing(canvases[target.suffix], parts, titles, caption, note))
    return target


@dataclass(frozen=True)
class Formula:
    """A structural formula for a page that marks its atoms.

    Attributes:
        svg: The picture.
        elements: Symbol of each atom.
        places: Position of each atom in the picture, in pixels.
    """

    svg: str
    elements: list[str]
    places: list[tuple[float, float]]


def formula(
    molecule: Molecule,
    edge_index: Tensor,
    scores: Tensor,
    k: Size = None,
    marked: bool = True,
    width: int = 420,
    height: int = 320,
) -> Formula:
    """Draw one molecule as in `draw_molecules`, without title and key, and return it with the places of its atoms."""
    part = highlights(molecule, edge_index, scores, k, marked)
    canvas: Any = rdMolDraw2D.MolDraw2DSVG(width, height)
    _set_options(canvas.drawOptions(), width)
    colours = {"highlightAtomColors": part.atoms, "highlightBondColors": part.bonds}
    canvas.DrawMolecule(part.mol, highlightAtoms=list(part.atoms), highlightBonds=list(part.bonds), **colours)
    points = [canvas.GetDrawCoords(atom) for atom in range(part.mol.GetNumAtoms())]
    canvas.FinishDrawing()
    places = [(round(point.x, 1), round(point.y, 1)) for point in points]
    return Formula(canvas.GetDrawingText(), [atom.GetSymbol() for atom in part.mol.GetAtoms()], places)


def depict(graph: Graph, width: int = 400, height: int = 300) -> bytes:
    """Return the structural formula of a graph's molecule as a PNG picture.

    Codes hold everything that a formula shows except wedges: elements, charges, hydrogens and bonds.

    Args:
        graph: ``x``, ``edge_index`` and ``edge_attr`` in the layout of `goodformer.data.molecule.FEATURES`.
        width: Pixels across.
        height: Pixels down.
    """
    canvas = rdMolDraw2D.MolDraw2DCairo(width, height)
    options: Any = canvas.drawOptions()
    options.useBWAtomPalette()
    options.bondLineWidth, options.scaleBondWidth, options.padding = 2.4, False, 0.04
    options.fixedBondLength, options.minFontSize, options.flagCloseContactsDist = 44, 12, -1
    options.prepareMolsBeforeDrawing = False
    with rdBase.BlockLogs():
        canvas.DrawMolecule(_prepared(rebuilt(graph)))
    canvas.FinishDrawing()
    drawn: bytes = canvas.GetDrawingText()
    return drawn


def molecule_svg(
    molecule: Molecule,
    edge_index: Tensor | None = None,
    scores: Tensor | None = None,
    width: int = 260,
    height: int = 190,
) -> str:
    """Return a structural formula as SVG for an HTML page, see `goodformer.draw.inline`.

    Args:
        molecule: See `draw_molecule`.
        edge_index: The ends of each directed edge, (2, E); needed for scores.
        scores: Score of each directed edge, (E,); no highlights by default.
        width: Units across.
        height: Units down.
    """
    mol = _parsed(molecule, None if edge_index is None else edge_index.cpu())
    count = mol.GetNumAtoms()
    if count > INLINE:
        return inline.whole(width, height, "", f"a molecule of {count} atoms, too large to draw")
    canvas = rdMolDraw2D.MolDraw2DSVG(width, height, -1, -1, True)  # letters stay text
    options: Any = canvas.drawOptions()
    options.useBWAtomPalette()
    options.prepareMolsBeforeDrawing = options.clearBackground = options.scaleBondWidth = False
    options.bondLineWidth, options.fixedBondLength, options.padding = 1.5, 26, 0.06
    options.flagCloseContactsDist = -1
    with rdBase.BlockLogs():
        rdDepictor.Compute2DCoords(mol, canonOrient=True)
        rdDepictor.StraightenDepiction(mol)
        mol = _prepared(mol)
        canvas.DrawMolecule(mol)
    points = [(point.x, point.y) for point in map(canvas.GetDrawCoords, range(count))]
    canvas.FinishDrawing()
    bands = ""
    if edge_index is not None and scores is not None and scores.numel():
        bond = math.dist(*(points[end] for end in edge_index[:, 0].tolist()))
        bands = inline.highlights(score_edges(edge_index, scores.double()), points, max(0.5 * bond, 3))
    return inline.whole(width, height, bands + _compact(canvas.GetDrawingText()), f"a molecule of {count} atoms")


def _compact(svg: str) -> str:
    """Return RDKit's drawing with all lines in one path, all surfaces in another, and letters, in the text's colour."""
    lines: list[str] = []
    filled: list[str] = []
    letters: list[str] = []
    for element in XML.fromstring(svg.encode("iso-8859-1")):
        style, d = element.get("style", ""), _shortened_path(element.get("d", ""))
        if element.tag.endswith("path"):
            (lines if "fill:none" in style else filled).append(d)
        elif element.tag.endswith("text"):
            size = re.search(r"font-size:(\d+)px", style)
            x, y = (f"{float(element.get(name, '0')):.0f}" for name in "xy")
            small = f' font-size="{size.group(1)}"' if size and size.group(1) != "12" else ""
            letters.append(f'<text x="{x}" y="{y}"{small}>{element.text}</text>')
    return (
        f'<path d="{"".join(lines)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        + (f'<path d="{"".join(filled)}" fill="currentColor"/>' if filled else "")
        + (f'<g fill="currentColor" font-size="12" font-family="sans-serif">{"".join(letters)}</g>' if letters else "")
    )


def _shortened_path(d: str) -> str:
    """Return a path without the spaces and zeros that it does not need."""
    return re.sub(r" ?([MLCQZ]) ?", r"\1", d.replace(".0", "")).replace(",", " ")


def highlights(
    molecule: Molecule, edge_index: Tensor, scores: Tensor, k: Size = None, marked: bool = True
) -> Highlights:
    """Lay out the molecule and colour each bond by its score and each atom by the mean score of its bonds.

    A molecule that is not ``marked`` has no colours.
    """
    mol = _parsed(molecule, edge_index.cpu())
    with rdBase.BlockLogs():
        rdDepictor.Compute2DCoords(mol, canonOrient=True)
        rdDepictor.StraightenDepiction(mol)
        mol = _prepared(mol)
    if not marked:
        return Highlights(mol, {}, {})
    edges = score_edges(edge_index, scores.double(), k)
    touched = torch.zeros(mol.GetNumAtoms(), dtype=torch.bool)
    touched[edges.nodes] = True
    bonds = [mol.GetBondBetweenAtoms(a, b).GetIdx() for a, b in edges.ends.T.tolist()]
    bond_colours = _colours(edges.scores, edges.chosen)
    atoms = edges.node_scores(mol.GetNumAtoms())
    own = [atom for atom in range(mol.GetNumAtoms()) if not atoms[atom].isnan()]
    colours = _colours(atoms, touched)
    return Highlights(mol, dict(zip(bonds, bond_colours, strict=True)), {atom: colours[atom] for atom in own})


def _colours(values: Tensor, chosen: Tensor) -> list[Colour]:
    """Return strong colours for chosen values and pale ones for the rest, stronger for higher values."""
    strong, pale = torch.zeros_like(values), torch.zeros_like(values)
    strong[chosen], pale[~chosen] = shades(values[chosen]), shades(values[~chosen])
    if int(chosen.sum()) == 1:
        strong[chosen] = 1.0
    both = zip(chosen.tolist(), strong.tolist(), pale.tolist(), strict=True)
    return [_rgb(CHOSEN, high) if best else _rgb(OTHERS, low) for best, high, low in both]


def _rgb(scale: LinearSegmentedColormap, share: float) -> Colour:
    red, green, blue, _ = scale(share)
    return float(red), float(green), float(blue)


def _parsed(molecule: Molecule, edge_index: Tensor | None) -> Any:
    """Return the molecule whose bonds are the edges, if given; explicit hydrogens are atoms if the edges have them."""
    if isinstance(molecule, bytes):
        return restored(molecule)
    if not isinstance(molecule, str):
        return _rebuilt(molecule)
    wanted = {frozenset(pair) for pair in ([] if edge_index is None else edge_index.T.tolist())}
    for remove_hydrogens in (True, False):
        settings: Any = Chem.SmilesParserParams()
        settings.removeHs = remove_hydrogens
        with rdBase.BlockLogs():
            mol = Chem.MolFromSmiles(molecule, settings)
        if mol is None:
            raise InputError(f"{molecule!r} is not a molecule that RDKit can read; give a valid SMILES string.")
        bonds = {frozenset((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())) for bond in mol.GetBonds()}
        if edge_index is None or wanted == bonds:
            return mol
    raise InputError(
        f"the {len(wanted)} edges are not the {mol.GetNumBonds()} bonds of {molecule!r}; "
        "give the edge index of the same molecule, atoms in the order of the string."
    )


def _rebuilt(graph: Graph) -> Any:
    """Return the molecule of atom and bond codes.

    A molecule that violates RDKit's rules, such as carbon with five bonds, is drawn without wedges.
    """
    from torch_geometric.data import Data  # takes two seconds
    from torch_geometric.utils import to_rdmol

    flat = Data(graph.x.clone(), graph.edge_index, graph.edge_attr)
    flat.x[:, CHIRALITY] = 0  # PyG reads these codes differently
    with rdBase.BlockLogs():
        try:
            return labelled(to_rdmol(flat), graph.x[:, CHIRALITY].tolist())
        except (Chem.MolSanitizeException, ValueError, RuntimeError):
            pass
        try:
            return rebuilt(graph)
        except (LookupError, ValueError, RuntimeError):
            raise InputError(
                "the node features of a graph do not describe a molecule; pass its SMILES string."
            ) from None


def _drawing(canvas_of: Any, parts: Sequence[Highlights], titles: Sequence[str], caption: str, note: str) -> bytes:
    """Return the finished picture: panels in rows, a title under each, a key and a note at the bottom."""
    under = LINE * max(title.count("\n") + 1 for title in titles) + 14
    columns, width = _panels(parts, under)
    rows, height = -(-len(parts) // columns), round(SHARE * width)
    pitch = height + under
    key = _key(caption, columns * width) if any(part.atoms or part.bonds for part in parts) else []
    bottom = rows * pitch + 18 + LINE * (key[-1].line + 1 if key else 0)
    canvas = canvas_of(columns * width, bottom + LINE * bool(note), width, height)
    canvas.ClearDrawing()
    _set_options(canvas.drawOptions(), width)
    corners = [(place % columns * width, place // columns * pitch) for place in range(len(parts))]
    for part, title, corner in zip(parts, titles, corners, strict=True):
        canvas.SetOffset(*corner)
        marked = {"highlightAtomColors": part.atoms, "highlightBondColors": part.bonds}
        canvas.DrawMolecule(part.mol, highlightAtoms=list(part.atoms), highlightBonds=list(part.bonds), **marked)
        canvas.SetOffset(0, 0)
        _draw_title(canvas, title, (corner[0] + width / 2, corner[1] + height), width)
    canvas.SetFillPolys(False)
    canvas.SetColour(HAIR_LINE)
    canvas.SetLineWidth(1)
    for left, top in corners:  # a thin frame around each panel
        canvas.DrawRect(Point2D(left + 3, top + 3), Point2D(left + width - 3, top + pitch - 3), True)
    _draw_key(canvas, rows * pitch, key)
    _write(canvas, note, Point2D(14, bottom), SUBTITLE, START)
    canvas.FinishDrawing()
    text = canvas.GetDrawingText()
    return text if isinstance(text, bytes) else text.encode()


def _panels(parts: Sequence[Highlights], under: int) -> tuple[int, int]:
    """Return the number of panels side by side and the width of each; titles take ``under`` pixels.

    A panel is wide enough for the longest molecule, up to a limit. Very long molecules get fewer panels side by side,
    unless the picture would become too tall.
    """
    longest = max(part.length for part in parts)
    most = min(len(parts), COLUMNS)
    columns = max(min(most, int(WIDEST / (TIGHTEST * longest))), 1) if longest else most
    while columns < most and _tallest_width(len(parts), columns, under) < WIDEST / columns:
        columns += 1
    wanted = max(SMALLEST, PER_LENGTH * longest)
    return columns, int(min(wanted, WIDEST / columns, _tallest_width(len(parts), columns, under)))


def _tallest_width(parts: int, columns: int, under: int) -> float:
    """Return the panel width at which a picture reaches its largest height."""
    return (TALLEST / -(-parts // columns) - under) / SHARE


def _set_options(options: Any, width: int) -> None:
    """Set black letters and lines on coloured bands; each molecule fills its panel."""
    options.useBWAtomPalette()
    options.prepareMolsBeforeDrawing = False
    options.clearBackground = False  # done once for all panels
    options.fixedBondLength = LONGEST_BOND * width
    options.bondLineWidth = BOND
    options.scaleBondWidth = False
    options.flagCloseContactsDist = -1  # crowded atoms do not matter here
    options.minFontSize = 7
    options.padding = 0.06
    options.highlightRadius = 0.32
    options.highlightBondWidthMultiplier = 12
    options.scaleHighlightBondWidth = True


def _draw_title(canvas: Any, title: str, middle: tuple[float, float], width: int) -> None:
    """Draw the lines under a molecule, cut to the panel's width."""
    letters = int(width / LETTER)
    for line, text in enumerate(title.split("\n")):
        place = Point2D(middle[0], middle[1] + LINE * (line + 0.5))
        _write(canvas, shortened(text, letters), place, TITLE if line == 0 else SUBTITLE, MIDDLE)


def _write(canvas: Any, text: str, place: Point2D, colour: Colour, align: int) -> None:
    """Write one line of text."""
    canvas.SetColour(colour)
    canvas.SetFontSize(TITLE_SIZE)
    canvas.DrawString(text, place, align, True)


class KeyEntry(NamedTuple):
    """A colour scale and what it means, at a place of the key."""

    scale: LinearSegmentedColormap
    text: str
    left: float
    line: int


def _key(caption: str, width: int) -> list[KeyEntry]:
    """Return the entries of the colour key, side by side if the picture is wide enough."""
    second = "other bonds, by score"
    left, right = (SWATCH + 28 + LETTER * len(text) for text in (caption, second))
    beside = 14 + left + right <= width
    return [KeyEntry(CHOSEN, caption, 14, 0), KeyEntry(OTHERS, second, 14 + left if beside else 14, int(not beside))]


def _draw_key(canvas: Any, top: int, key: Sequence[KeyEntry]) -> None:
    """Draw the colour key."""
    canvas.SetFillPolys(True)
    for scale, text, left, line in key:
        middle = top + 8 + LINE * (line + 0.5)
        for step in range(8):
            canvas.SetColour(_rgb(scale, step / 7))
            corner = left + SWATCH / 8 * step
            canvas.DrawRect(Point2D(corner, middle - 6), Point2D(corner + SWATCH / 8, middle + 6), True)
        _write(canvas, text, Point2D(left + SWATCH + 10, middle), SUBTITLE, START)


def _prepared(mol: Any) -> Any:
    """Return the molecule with wedges and, if possible, double bonds."""
    try:
        return rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=True, addChiralHs=False)
    except Chem.KekulizeException:
        return rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=False, addChiralHs=False)
