"""Molecules as graphs, in the column layout of PyG's ``from_smiles``: from SMILES, mol blocks or RDKit molecules.

The only data file that imports RDKit. Every text is parsed once; scaffolds, fingerprints and canonical SMILES come from
the parsed molecule. Atoms and bonds of a graph are in RDKit's canonical order, and chirality is that of the molecule,
not of its notation: all SMILES of a molecule yield the same graph. Letters: R rows given, G molecules accepted, N
atoms, E directed bonds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import current_process, get_context
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler, rdFingerprintGenerator, rdMolDescriptors
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.Scaffolds import MurckoScaffold
from torch import Tensor

from goodformer.data.cache import cached
from goodformer.data.graphs import GIVEN, GraphSet, bounds
from goodformer.data.similarity import BITS
from goodformer.errors import InputError, check_name
from goodformer.limits import LIMITS, VARIABLE, limit
from goodformer.spec import Features
from goodformer.transforms.environments import MOLECULE
from goodformer.transforms.properties import rebuilt as from_codes

if TYPE_CHECKING:
    from torch_geometric.data import Data

Mol = Chem.Mol
Texts = Sequence[str | None]
Column = tuple[Callable[[Any], int], int, Tensor | None]
S = TypeVar("S")
T = TypeVar("T")

VERSION = 2
"""Increased when the same text yields a different graph, so that cached graphs are rebuilt."""
KEPT_FROM = 5_000
"""Number of molecules from which results are cached on disk and computed by several processes (about two seconds)."""
CHUNK = 512
STANDARDS = ("none", "parent", "tautomer")
"""How molecules are standardised: not at all; largest fragment, neutral; the same as RDKit's canonical tautomer."""
SMILES, BLOCK, BINARY = "smiles", "block with smiles", "binary with smiles"
"""The kinds of text, as they appear in cache keys. The bytes of RDKit's binary format stand for one letter each."""
NO_PROPERTIES = Chem.PropertyPickleOptions.NoProps
RDKIT: str = rdBase.rdkitVersion
"""Another version may reject other rows and write scaffolds differently."""

HYBRIDISATIONS = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "OTHER")
STEREO = ("STEREONONE", "STEREOANY", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")

FEATURES = MOLECULE
"""Nine columns per atom: element, chirality, degree with hydrogens, charge + 5, hydrogens, unpaired electrons,
hybridisation, aromatic, in a ring. Three per bond: type, stereo, conjugated. A value outside its column's range takes
the nearest code; kinds of hybridisation and stereo without a code count as OTHER and STEREOANY.

Chirality differs from PyG, whose codes 1 (clockwise) and 2 (counterclockwise) depend on the order of atoms in the
SMILES: here 1 is R or r and 2 is S or s; 3 is a chiral atom of unknown label."""
LETTERS = 20
"""Letters of a SMILES for each atom that it may have."""
CHIRALITY, ROUNDS = 1, 3
"""Column of chirality, and how often labels are corrected when a molecule is rebuilt."""
TETRAHEDRAL = (1, 2)
"""RDKit's tags for clockwise and counterclockwise neighbours."""
LABEL, LABELS, CHIRAL = "_CIPCode", {"R": 1, "r": 1, "S": 2, "s": 2}, 3
"""RDKit's property for the label of an atom, its codes, and the code of a chiral atom of unknown label."""


def _table(kinds: Mapping[str, Any], codes: Sequence[str], otherwise: str) -> Tensor:
    """Return the code of each of RDKit's numbers for one kind of value."""
    table = torch.full((max(map(int, kinds.values())) + 1,), codes.index(otherwise))
    for name, number in kinds.items():
        table[int(number)] = codes.index(name if name in codes else otherwise)
    return table


ATOM: tuple[Column, ...] = (
    (Chem.Atom.GetAtomicNum, 0, None),
    (Chem.Atom.GetChiralTag, 0, None),
    (Chem.Atom.GetTotalDegree, 0, None),
    (Chem.Atom.GetFormalCharge, -5, None),
    (Chem.Atom.GetTotalNumHs, 0, None),
    (Chem.Atom.GetNumRadicalElectrons, 0, None),
    (Chem.Atom.GetHybridization, 0, _table(Chem.HybridizationType.names, HYBRIDISATIONS, "OTHER")),
    (Chem.Atom.GetIsAromatic, 0, None),
    (Chem.Atom.IsInRing, 0, None),
)
"""For each atom column: how it is read, its smallest value, and its codes where they differ from RDKit's numbers."""
BOND: tuple[Column, ...] = (
    (Chem.Bond.GetBondType, 0, None),
    (Chem.Bond.GetStereo, 0, _table(Chem.BondStereo.names, STEREO, "STEREOANY")),
    (Chem.Bond.GetIsConjugated, 0, None),
)
DESCRIPTORS: dict[str, Callable[[Any], float]] = {
    "heavy atoms": Chem.Mol.GetNumHeavyAtoms,
    "molecular weight": rdMolDescriptors.CalcExactMolWt,
    "logP": lambda mol: rdMolDescriptors.CalcCrippenDescriptors(mol)[0],
    "polar surface area": rdMolDescriptors.CalcTPSA,
    "H-bond donors": rdMolDescriptors.CalcNumHBD,
    "H-bond acceptors": rdMolDescriptors.CalcNumHBA,
    "rotatable bonds": rdMolDescriptors.CalcNumRotatableBonds,
    "rings": rdMolDescriptors.CalcNumRings,
    "aromatic rings": rdMolDescriptors.CalcNumAromaticRings,
    "share of sp3 carbon": rdMolDescriptors.CalcFractionCSP3,
}
"""Properties by which chemists compare sets of molecules."""
ENDS = (Chem.Bond.GetBeginAtomIdx, Chem.Bond.GetEndAtomIdx)


@dataclass(frozen=True)
class Rejected:
    """A row that RDKit does not accept as a molecule, or that is not a valid graph.

    Attributes:
        row: Position of the row in the input, counted from 0.
        text: Content of the row.
        reason: Why it was rejected.
    """

    row: int
    text: str
    reason: str


class Parsed:
    """Molecules in RDKit's binary form (about 400 bytes each), so that no later question parses a text again.

    Molecules whose graphs come from the disk cache are parsed when they are first needed.

    Attributes:
        smiles: SMILES of each molecule (G): as given, or written by RDKit.
    """

    def __init__(
        self, smiles: Sequence[str], store: list[bytes | None] | None = None, places: npt.NDArray[Any] | None = None
    ) -> None:
        self.smiles = tuple(smiles)
        self._store: list[bytes | None] = [None] * len(self.smiles) if store is None else store  # shared by subsets
        self._places = np.arange(len(self.smiles)) if places is None else places

    def __len__(self) -> int:
        return len(self.smiles)

    def subset(self, places: Sequence[int]) -> Parsed:
        """Return some of the molecules; what is parsed for one set is known to the other."""
        return Parsed([self.smiles[place] for place in places], self._store, self._places[list(places)])

    @staticmethod
    def concat(parts: Sequence[Parsed]) -> Parsed:
        """Return the molecules of all parts."""
        store = [part._store[at] for part in parts for at in part._places]
        return Parsed([text for part in parts for text in part.smiles], store)

    def scaffolds(self, progress: bool = False) -> list[str]:
        """Return the Murcko scaffold of each molecule as SMILES without chirality; empty where there is no ring."""
        return self._written("scaffolds", _scaffold, progress)

    def canonical(self) -> list[str]:
        """Return RDKit's SMILES of each molecule with chirality; equal strings mean equal molecules."""
        return self._written("canonical", Chem.MolToSmiles)

    def fingerprints(self, bits: int = BITS) -> npt.NDArray[np.bool_]:
        """Return Morgan fingerprints of radius 2 (G, bits)."""
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)
        found = np.zeros((len(self), bits), dtype=bool)
        for row, binary in enumerate(self.binaries()):
            found[row] = generator.GetFingerprintAsNumPy(restored(binary))
        return found

    def descriptors(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return common properties of each molecule (G,) by name; see `DESCRIPTORS`."""
        rows = [[write(mol) for write in DESCRIPTORS.values()] for mol in map(restored, self.binaries())]
        table = np.array(rows, dtype=np.float64).reshape(len(self), len(DESCRIPTORS))
        return {name: table[:, place] for place, name in enumerate(DESCRIPTORS)}

    def contain(self, patterns: Sequence[str], progress: bool = False) -> npt.NDArray[np.bool_]:
        """Return whether each molecule contains each SMARTS pattern (G, P); from the disk cache if there are many."""

        def build() -> dict[str, Tensor]:
            work = partial(_search_chunk, patterns=tuple(patterns))
            parts = _in_chunks(work, self.binaries(progress), None, progress, "molecules searched")
            return {"contain": torch.from_numpy(np.concatenate([np.zeros((0, len(patterns)), dtype=bool), *parts]))}

        many = len(self) >= KEPT_FROM
        key = _key("contain", self.smiles, {"patterns": list(patterns)})
        return (cached(key, build) if many else build())["contain"].numpy()

    def matched(self, patterns: Sequence[str]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Return which atoms of all molecules (N,) belong to a match of any SMARTS pattern, and the matched bonds.

        Atoms are in the order of the texts, and a bond is given by its two atoms in that order (2, K). A bond belongs
        to a match if it stands for a bond of the pattern. All matches count, not only the first.
        """
        parts = _in_chunks(partial(_match_chunk, patterns=tuple(patterns)), self.binaries(), None, False)
        atoms = np.concatenate([np.zeros(0, dtype=bool), *(part[0] for part in parts)])
        starts = np.cumsum([0, *(len(part[0]) for part in parts)])
        ends = [part[1] + start for part, start in zip(parts, starts, strict=False)]
        return atoms, np.concatenate([np.zeros((2, 0), dtype=np.int64), *ends], axis=1)

    def _written(self, kind: str, write: Callable[[Any], str], progress: bool = False) -> list[str]:
        """Return one string per molecule, from the disk cache if there are many."""

        def build() -> dict[str, Tensor]:
            work = partial(_write_chunk, write=write)
            parts = _in_chunks(work, self.binaries(progress), None, progress, kind)
            return {kind: packed([text for part in parts for text in part])}

        many = len(self) >= KEPT_FROM
        tensors = cached(_key(kind, self.smiles, None), build) if many else build()
        written: list[str] = unpacked(tensors[kind])
        return written

    def binaries(self, progress: bool = False) -> list[bytes]:
        """Return the molecules in binary form; those that are only known as text are parsed now."""
        unread = [place for place, at in enumerate(self._places) if self._store[at] is None]
        texts = [self.smiles[place] for place in unread]
        parts = _in_chunks(partial(_read_chunk, kind=SMILES), texts, None, progress)
        binaries = [binary for part in parts for binary in part.binaries]
        for place, binary in zip(unread, binaries, strict=True):
            self._store[self._places[place]] = binary
        return [self._store[at] or b"" for at in self._places]


@dataclass(frozen=True)
class Molecules:
    """Graphs of the rows that are molecules, and the rows that are not.

    Attributes:
        graphs: Atoms and bonds in canonical order. Bond b of a molecule is its edges 2b (from the atom with the smaller
            number to the other) and 2b + 1 (back), with equal ``attr``. The node attribute ``given`` is the number of
            each atom in its text, see `GraphSet.as_given`.
        rows: Row of each graph, ascending (G,).
        rejected: The other rows, ascending.
        parsed: The molecules of the graphs. Unless SMILES were given, these number the atoms differently.
    """

    graphs: GraphSet
    rows: Tensor
    rejected: tuple[Rejected, ...]
    parsed: Parsed


def featurise(
    smiles: Texts,
    processes: int | None = None,
    progress: bool = False,
    key: Mapping[str, Any] | None = None,
    standardise: str = "none",
) -> Molecules:
    """Return the graphs of SMILES strings; rows that are not molecules are listed with the reason.

    Args:
        smiles: One string per row; None for an empty row.
        processes: Number of processes; by default one, or one per processor from `KEPT_FROM` rows on.
        progress: Whether to show a progress bar on the error stream.
        key: Caches the result on disk under this key and a hash of the strings. Without a key, only inputs of at least
            `KEPT_FROM` rows are cached.
        standardise: One of `STANDARDS`. The SMILES in ``parsed`` are those of the standardised molecules, and atoms are
            numbered as in these.
    """
    return _molecules(SMILES, smiles, processes, progress, key, standardise)


def featurise_blocks(blocks: Texts, standardise: str = "none") -> Molecules:
    """Return the graphs of mol blocks (records of SDF files) without explicit hydrogens; see `featurise`."""
    return _molecules(BLOCK, blocks, None, False, None, standardise)


def featurise_molecules(molecules: Sequence[Mol | None], standardise: str = "none") -> Molecules:
    """Return the graphs of RDKit molecules without explicit hydrogens; see `featurise`."""
    texts = [None if one is None else one.ToBinary(int(NO_PROPERTIES)).decode("latin-1") for one in molecules]
    made = _molecules(BINARY, texts, None, False, None, standardise)
    return replace(made, rejected=tuple(replace(one, text="RDKit molecule") for one in made.rejected))


def symbol(element: int) -> str:
    """Return the symbol of an element, given its number."""
    return str(Chem.GetPeriodicTable().GetElementSymbol(element))


def rejected_note(rejected: Sequence[Rejected], rows: int, place: Callable[[int], str], named: int = 3) -> str:
    """Return a sentence about the rejected rows that names the first few; empty if there are none."""
    if not rejected:
        return ""
    shown = [f"{place(one.row)} ({one.reason})" for one in rejected[:named]]
    rest = f" and {len(rejected) - named} more" if len(rejected) > named else ""
    return f"RDKit {RDKIT} rejects {len(rejected)} of {rows:,} rows: {', '.join(shown)}{rest}."


def worker_count() -> int:
    """Return how many processes may read molecules: one per processor, or one where processes cannot be forked."""
    may_fork = hasattr(os, "sched_getaffinity") and not current_process().daemon
    return len(os.sched_getaffinity(0)) if may_fork else 1


# Parsing --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParsedChunk:
    """Some rows as arrays, small enough to be sent between processes.

    Attributes:
        x: Atom codes (N, 9).
        atoms: Number of each atom in its text (N,).
        index: Bonds in both directions, numbered within each molecule (2, E).
        attr: Bond codes (E, 3).
        nodes: Number of atoms per molecule (G,).
        edges: Number of directed bonds per molecule (G,).
        rows: Accepted rows (G,).
        rejected: The other rows and why.
        smiles: SMILES of each molecule, unless rows are SMILES that are not standardised.
        binaries: RDKit's binary form of each molecule.
    """

    x: npt.NDArray[np.uint8]
    atoms: npt.NDArray[np.int32]
    index: npt.NDArray[np.int32]
    attr: npt.NDArray[np.uint8]
    nodes: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    rejected: list[tuple[int, str]]
    smiles: list[str]
    binaries: list[bytes]


def _read_chunk(texts: Texts, first: int, kind: str, standardise: str = "none") -> ParsedChunk:
    """Parse some rows; the first has number ``first``."""
    atom: list[list[int]] = [[] for _ in ATOM]
    bond: list[list[int]] = [[] for _ in (*ENDS, *BOND)]
    counts: list[tuple[int, int, int]] = []
    ranks: list[int] = []
    chiral: list[int] = []
    rejected: list[tuple[int, str]] = []
    smiles: list[str] = []
    binaries: list[bytes] = []
    with rdBase.BlockLogs(), rdBase.CaptureErrorLog() as log:
        for row, text in enumerate(texts, first):
            mol = _parse(kind, text, log)
            if standardise != "none" and not isinstance(mol, str):
                mol = _standardised(mol, standardise)
            if isinstance(mol, str):
                rejected.append((row, mol))
                continue
            # Access by number takes half the time of RDKit's iterators.
            atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
            bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
            for column, (read, _, _) in zip(atom, ATOM, strict=True):
                column.extend(map(read, atoms))
            for column, read in zip(bond, (*ENDS, *(read for read, _, _ in BOND)), strict=True):
                column.extend(map(read, bonds))
            rank, codes = _numbered(mol)
            ranks += rank
            chiral += codes
            counts.append((row, len(atoms), 2 * len(bonds)))
            binaries.append(mol.ToBinary(int(NO_PROPERTIES)))
            if kind != SMILES or standardise != "none":
                smiles.append(Chem.MolToSmiles(mol))
    atom[CHIRALITY] = chiral
    rows, nodes, edges = np.array(counts, dtype=np.int32).reshape(-1, 3).T
    x, ends = _codes(atom, ATOM, FEATURES.node), np.array(bond[:2], dtype=np.int64)  # (N, 9), (2, E / 2)
    x, numbers, ends, order = _sorted(x, np.array(ranks, dtype=np.int64), ends, nodes, edges // 2)
    index = np.stack([ends, ends[::-1]], 2).reshape(2, -1).astype(np.int32)  # there and back, one after the other
    attr = _codes(bond[2:], BOND, FEATURES.edge)[order].repeat(2, 0)
    return ParsedChunk(x, numbers.astype(np.int32), index, attr, nodes, edges, rows, rejected, smiles, binaries)


def _sorted(
    x: npt.NDArray[np.uint8],
    rank: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int32],
    bonds: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Bring atoms and bonds into canonical order.

    Args:
        x: Atom codes in the order of the text (N, 9).
        rank: Canonical number of each atom in its molecule (N,).
        ends: Atoms of each bond, numbered within each molecule (2, E / 2).
        nodes: Number of atoms per molecule (G,).
        bonds: Number of bonds per molecule (G,).

    Returns:
        The codes, the number of each atom in its text, the ends of the bonds, the smaller number first, and the place
        of each of these bonds among the given ones.
    """
    start = np.concatenate([[0], nodes.cumsum(dtype=np.int64)])[:-1]  # (G,)
    first, owner = np.repeat(start, nodes), np.repeat(np.arange(len(nodes)), bonds)
    back = np.empty(len(rank), dtype=np.int64)
    back[rank + first] = np.arange(len(rank))
    ends = np.sort(rank[ends + start[owner]], 0)
    order = np.lexsort((ends[1], ends[0], owner))
    return x[back], back - first, ends[:, order], order


def _numbered(mol: Any) -> tuple[list[int], list[int]]:
    """Return canonical number and chirality of each atom, neither of which depends on the order of atoms.

    Where RDKit finds no label R or S, both are read from the canonical SMILES: the same text for every notation.
    """
    atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
    rank: list[int] = list(Chem.CanonicalRankAtoms(mol, includeAtomMaps=False))
    tags = [int(atom.GetChiralTag()) for atom in atoms]
    if not any(tags):
        return rank, tags
    if all(atom.HasProp(LABEL) for atom, tag in zip(atoms, tags, strict=True) if tag in TETRAHEDRAL):
        return rank, [_chirality(atom) for atom in atoms]
    twin = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    if twin is None or twin.GetNumAtoms() != len(atoms):
        return rank, [CHIRAL if tag in TETRAHEDRAL else tag for tag in tags]
    rdCIPLabeler.AssignCIPLabels(twin)
    rank, codes = [0] * len(atoms), [0] * len(atoms)
    for place, number in enumerate(mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]):
        rank[number], codes[number] = place, _chirality(twin.GetAtomWithIdx(place))
    return rank, codes


def _chirality(atom: Any) -> int:
    """Return the code of an atom's label, or its tag if it has none."""
    tag = int(atom.GetChiralTag())
    return LABELS.get(atom.GetProp(LABEL), tag) if tag in TETRAHEDRAL and atom.HasProp(LABEL) else tag


def _parse(kind: str, text: str | None, log: Any) -> Any:
    """Return the molecule of a text, or the reason why there is none, taken from what RDKit logs."""
    if text is None or not text.strip():
        return "empty"
    if kind == SMILES and not text.isascii() and not text.split(None, 1)[0].isascii():
        return "contains a character that SMILES do not have"  # RDKit would silently stop reading there
    if kind == SMILES and len(text.split(None, 1)[0]) > LETTERS * limit("atoms"):
        return f"{len(text):,} letters, more than {LETTERS} for each of {limit('atoms'):,} atoms"
    if kind == BINARY:
        return _checked(_whole(text))
    earlier = len(log.messages)
    plain = text.encode("ascii", "replace").decode()  # RDKit's messages may end within a character
    mol = Chem.MolFromSmiles(plain) if kind == SMILES else Chem.MolFromMolBlock(plain)
    if mol is not None:
        return _checked(mol)
    said = log.messages[earlier:]
    lines = [re.sub(r"^\[[\d:]+\] ?", "", line) for line in said.splitlines()]
    first = next((line for line in lines if line.strip()), "RDKit cannot read it")
    words = re.sub(r"^SMILES Parse Error: ", "", first)
    words = re.sub(r",? (while parsing|for input):.*$", "", words)
    place = re.search(r"around (position \d+)", said)
    return re.sub(r"\s+", " ", words).strip() + (f" at {place[1]}" if place else "")


def _whole(binary: str) -> Any:
    """Return a molecule that was made in any way as if it had been read from SMILES, or the reason why it is none."""
    mol = restored(binary.encode("latin-1"))
    try:
        mol = Chem.RemoveHs(mol)
    except (Chem.MolSanitizeException, RuntimeError, ValueError) as error:
        return str(error).partition("\n")[0]
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def _checked(mol: Any) -> Any:
    """Return a molecule, or the reason why its size is refused."""
    if isinstance(mol, str):
        return mol
    atoms = mol.GetNumAtoms()
    large = f"{atoms:,} atoms, more than the limit of {limit('atoms'):,} ({VARIABLE}=atoms={atoms} accepts it)"
    return "no atoms" if not atoms else mol if atoms <= limit("atoms") else large


def _standardised(mol: Any, how: str) -> Any:
    """Return the molecule's largest fragment, neutral, or its canonical tautomer; or the reason why there is none."""
    try:
        parent = rdMolStandardize.ChargeParent(mol)
        if how == "tautomer":
            parent = rdMolStandardize.TautomerEnumerator().Canonicalize(parent)
        found = Chem.MolFromSmiles(Chem.MolToSmiles(parent))  # atoms in the order of the SMILES
    except (RuntimeError, ValueError) as error:
        return f"cannot be standardised ({str(error).partition(chr(10))[0]})"
    return found if found is not None and found.GetNumAtoms() else "cannot be standardised"


def _codes(columns: Sequence[Sequence[int]], how: Sequence[Column], features: Features) -> npt.NDArray[np.uint8]:
    """Return the codes (N, F) of the values read, each within its column's range."""
    codes = np.empty((len(columns[0]), len(columns)), dtype=np.uint8)
    for number, (values, (_, lowest, table), size) in enumerate(zip(columns, how, features.sizes, strict=True)):
        read = np.array(values, dtype=np.int64) - lowest
        codes[:, number] = np.clip(read if table is None else table.numpy()[read], 0, size - 1)
    return codes


def _molecules(
    kind: str,
    texts: Texts,
    processes: int | None,
    progress: bool,
    key: Mapping[str, Any] | None,
    standardise: str = "none",
) -> Molecules:
    """Return the molecules of the texts; graphs come from the disk cache where possible."""
    check_name("standardisation", standardise, STANDARDS)
    binaries: list[bytes | None] | None = None

    def build() -> dict[str, Tensor]:
        nonlocal binaries
        work = partial(_read_chunk, kind=kind, standardise=standardise)
        parts = _in_chunks(work, texts, processes, progress)
        binaries = [binary for part in parts for binary in part.binaries]
        return _joined(parts)

    worth_keeping = key is not None or len(texts) >= KEPT_FROM
    how: dict[str, Any] = {} if standardise == "none" else {"standardise": standardise}
    most = {} if limit("atoms") == LIMITS["atoms"] else {"atoms": limit("atoms")}
    tensors = cached(_key(kind, texts, {**(key or {}), **how, **most}), build) if worth_keeping else build()
    graphs = GraphSet(
        {"x": tensors["x"].long(), GIVEN: tensors["atoms"].long()},
        {"index": tensors["index"].long(), "attr": tensors["attr"].long()},
        {},
        bounds(tensors["nodes"].long()),
        bounds(tensors["edges"].long()),
    )
    rejected = tuple(Rejected(row, texts[row] or "", reason) for row, reason in unpacked(tensors["rejected"]))
    rows = tensors["rows"].long()
    smiles = unpacked(tensors["smiles"]) if kind != SMILES or how else [texts[row] for row in rows.tolist()]
    return Molecules(graphs, rows, rejected, Parsed(smiles, binaries))


def _joined(parts: Sequence[ParsedChunk]) -> dict[str, Tensor]:
    """Return all parts joined, in the types in which they are cached."""
    empty = _read_chunk([], 0, SMILES)
    joined = {
        name: torch.from_numpy(np.concatenate([getattr(part, name) for part in (empty, *parts)], axis))
        for name, axis in (("x", 0), ("atoms", 0), ("index", 1), ("attr", 0), ("nodes", 0), ("edges", 0), ("rows", 0))
    }
    for name in ("index", "atoms"):
        if joined[name].numel() and int(joined[name].max()) < 2**15:
            joined[name] = joined[name].short()
    joined["smiles"] = packed([text for part in parts for text in part.smiles])
    return {**joined, "rejected": packed([pair for part in parts for pair in part.rejected])}


def _key(kind: str, texts: Texts, key: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what decides the result: the texts, RDKit's version and the version of this code."""
    digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()
    return {"molecules": kind, "version": VERSION, "rdkit": RDKIT, "texts": digest, "key": dict(key or {})}


def packed(value: Any) -> Tensor:
    """Return JSON values as a tensor of bytes, which the cache can store."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def unpacked(tensor: Tensor) -> Any:
    """Invert `packed`."""
    return json.loads(tensor.numpy().tobytes())


# Many molecules -------------------------------------------------------------------------------------------------------


def restored(binary: Any) -> Any:
    """Return the molecule of its binary form."""
    return Chem.Mol(binary)


def _scaffold(mol: Any) -> str:
    """Return the Murcko scaffold of a molecule as SMILES."""
    scaffold: str = MurckoScaffold.MurckoScaffoldSmiles(mol=mol, includeChirality=False)
    return scaffold


def _write_chunk(binaries: Sequence[bytes], first: int, write: Callable[[Any], str]) -> list[str]:
    """Return one string per molecule."""
    with rdBase.BlockLogs():
        return [write(restored(binary)) for binary in binaries]


def _queries(patterns: Sequence[str]) -> list[Any]:
    """Return the patterns in RDKit's form."""
    found: list[Any] = [Chem.MolFromSmarts(text) for text in patterns]
    for text, query in zip(patterns, found, strict=True):
        if query is None:
            raise InputError(f"{text!r} is not a SMARTS pattern; correct it.")
    return found


def _search_chunk(binaries: Sequence[bytes], first: int, patterns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return whether each molecule contains each pattern (G, P)."""
    queries = _queries(patterns)
    rows = [[mol.HasSubstructMatch(query) for query in queries] for mol in map(restored, binaries)]
    return np.array(rows, dtype=bool).reshape(len(binaries), len(queries))


def _match_chunk(
    binaries: Sequence[bytes], first: int, patterns: Sequence[str]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return the atoms of all matches, molecule after molecule, and the two atoms of each matched bond (2, K)."""
    queries = _queries(patterns)
    joined = [[(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in query.GetBonds()] for query in queries]
    found, ends, start = [np.zeros(0, dtype=bool)], [], 0
    for mol in map(restored, binaries):
        atoms = np.zeros(mol.GetNumAtoms(), dtype=bool)
        for query, pairs in zip(queries, joined, strict=True):
            for match in mol.GetSubstructMatches(query, maxMatches=mol.GetNumAtoms() * 100):
                atoms[list(match)] = True
                ends += [(match[one] + start, match[other] + start) for one, other in pairs]
        found.append(atoms)
        start += len(atoms)
    return np.concatenate(found), np.array(ends, dtype=np.int64).reshape(-1, 2).T


def _in_chunks(
    work: Callable[[Sequence[S], int], T],
    items: Sequence[S],
    processes: int | None,
    progress: bool,
    what: str = "molecules",
) -> list[T]:
    """Apply ``work`` to stretches of items, by several processes if there are many, and return the results in order."""
    starts = range(0, len(items), CHUNK)
    stretches = [list(items[start : start + CHUNK]) for start in starts]
    workers = processes or (worker_count() if len(items) >= KEPT_FROM else 1)
    with ExitStack() as stack:
        results: Iterable[T]
        if workers > 1 and len(stretches) > 1:
            # Forked processes need not import this package again, and the workers use nothing that holds threads.
            pool = stack.enter_context(ProcessPoolExecutor(min(workers, len(stretches)), get_context("fork")))
            results = pool.map(work, stretches, starts)
        else:
            results = map(work, stretches, starts)
        return list(_shown(results, len(items), what) if progress and items else results)


def _shown(results: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield the results while a bar on the error stream follows them; print the time taken at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console, start = Console(stderr=True), time.perf_counter()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        for result in results:
            bar.advance(task, CHUNK)
            yield result
    took = time.perf_counter() - start
    console.print(f"{total:,} {what} in {took:.1f} s, {1000 * took / max(total, 1):.2f} s per 1,000", highlight=False)


# Back to RDKit --------------------------------------------------------------------------------------------------------


def rebuilt(graph: Data) -> Any:
    """Return the RDKit molecule of atom and bond codes, without checking it again."""
    once = graph.edge_index[0] < graph.edge_index[1]
    return from_codes(graph.x.numpy(), graph.edge_index[:, once].numpy(), graph.edge_attr[once, 0].numpy())


def labelled(mol: Any, codes: Sequence[int]) -> Any:
    """Return the molecule with the chirality of the codes; atoms whose label cannot be restored have none."""
    wanted = {number: code for number, code in enumerate(codes) if code in TETRAHEDRAL}
    atoms = {number: mol.GetAtomWithIdx(number) for number in wanted}
    for atom in atoms.values():
        atom.SetChiralTag(Chem.ChiralType.CHI_TETRAHEDRAL_CW)
    for _ in range(ROUNDS if wanted else 0):  # a label may depend on other labels
        Chem.AssignStereochemistry(mol, cleanIt=False, force=True)
        wrong = [number for number, atom in atoms.items() if atom.HasProp(LABEL) and _chirality(atom) != wanted[number]]
        for number in wrong:
            atoms[number].InvertChirality()
        if not wrong:
            break
    for atom in atoms.values():
        if not atom.HasProp(LABEL):
            atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    return mol
