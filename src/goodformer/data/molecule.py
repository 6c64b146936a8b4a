"""Molecules as graphs: SMILES or mol blocks in, atoms and bonds out, in the column layout of PyG's ``from_smiles``.

The only file of this room that knows RDKit. Letters: R rows given, G molecules accepted, N atoms, E directed bonds.
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
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Scaffolds import MurckoScaffold
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.cache import cached
from goodformer.data.graphs import GraphSet
from goodformer.registry import InputError
from goodformer.spec import Features, FeatureSpec

Texts = Sequence[str | None]
T = TypeVar("T")

VERSION = 1
"""Raised whenever the same text gives another graph, so that cached ones are made anew."""
KEPT_FROM = 5_000
"""Number of molecules from which on the result is kept on disk: about two seconds of work."""
CHUNK = 512
BLOCK = "block with smiles"
"""What mol blocks are called among kinds of text, also where results are kept."""
RDKIT: str = rdBase.rdkitVersion
"""Another version may reject other rows and write scaffolds otherwise."""

HYBRIDISATIONS = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "OTHER")
STEREO = ("STEREONONE", "STEREOANY", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")

FEATURES = FeatureSpec(Features.categorical(119, 9, 11, 12, 9, 5, 8, 2, 2), Features.categorical(22, 6, 2))
"""Nine columns an atom: element, chirality, degree with hydrogens, charge + 5, hydrogens, unpaired electrons,
hybridisation, aromatic, in a ring. Three a bond: type, stereo, conjugated. A value beyond a column takes its nearest
code; kinds of hybridisation and stereo that have no code count as OTHER and STEREOANY."""


def _table(kinds: Mapping[str, Any], codes: Sequence[str], otherwise: str) -> Tensor:
    """The code of each of RDKit's numbers of one kind."""
    table = torch.full((max(map(int, kinds.values())) + 1,), codes.index(otherwise))
    for name, number in kinds.items():
        table[int(number)] = codes.index(name if name in codes else otherwise)
    return table


ATOM: tuple[tuple[Callable[[Any], int], int, Tensor | None], ...] = (
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
"""How each column of an atom is read, its smallest value, and the codes where RDKit numbers it otherwise."""
BOND: tuple[tuple[Callable[[Any], int], int, Tensor | None], ...] = (
    (Chem.Bond.GetBondType, 0, None),
    (Chem.Bond.GetStereo, 0, _table(Chem.BondStereo.names, STEREO, "STEREOANY")),
    (Chem.Bond.GetIsConjugated, 0, None),
)
ENDS = (Chem.Bond.GetBeginAtomIdx, Chem.Bond.GetEndAtomIdx)


@dataclass(frozen=True)
class Rejected:
    """A row that is no molecule RDKit accepts, or no sound graph.

    Attributes:
        row: Its place in what was given, counted from 0.
        text: What stood there.
        reason: What RDKit has against it.
    """

    row: int
    text: str
    reason: str


@dataclass(frozen=True)
class Molecules:
    """Graphs of the rows that are molecules, and the rows that are not.

    Attributes:
        graphs: Atoms in RDKit's order, which is that of the text. Bond b of a molecule is its edges 2b (from the first
            atom to the second) and 2b + 1 (back), with equal ``attr``.
        rows: The row of each graph, ascending (G,).
        rejected: The other rows, ascending.
        smiles: RDKit's SMILES of each graph, where rows are mol blocks; its atoms are in an order of its own.
    """

    graphs: GraphSet
    rows: Tensor
    rejected: tuple[Rejected, ...]
    smiles: tuple[str, ...] | None = None


def featurise(
    smiles: Texts, processes: int = 1, progress: bool = False, key: Mapping[str, Any] | None = None
) -> Molecules:
    """Graphs of SMILES strings; rows that are no molecule are listed with the reason.

    Args:
        smiles: One string a row; None where there is none.
        processes: How many work at it.
        progress: Whether to show a progress bar on the error stream.
        key: What to keep the result under on disk, beside a hash of the strings; without it only large inputs
            (`KEPT_FROM`) are kept.
    """
    return _kept("smiles", smiles, processes, progress, key)


def featurise_blocks(
    blocks: Texts, processes: int = 1, progress: bool = False, key: Mapping[str, Any] | None = None
) -> Molecules:
    """Graphs and SMILES of mol blocks, the records of SDF files; like `featurise`. Written hydrogens are left out."""
    return _kept(BLOCK, blocks, processes, progress, key)


def left_out(rejected: Sequence[Rejected], rows: int, place: Callable[[int], str], named: int = 3) -> str:
    """One sentence on the rows that are no molecules, the first few by place and reason; empty where there are none."""
    if not rejected:
        return ""
    shown = [f"{place(one.row)} ({one.reason})" for one in rejected[:named]]
    rest = f" and {len(rejected) - named} more" if len(rejected) > named else ""
    return f"RDKit {RDKIT} rejects {len(rejected)} of {rows:,} rows, which are left out: {', '.join(shown)}{rest}."


def scaffolds(smiles: Sequence[str], processes: int = 1, progress: bool = False) -> list[str]:
    """The Murcko scaffold of each molecule as a SMILES string without chirality; empty where there is no ring.

    Raises:
        InputError: A row is no molecule; `featurise` lists such rows.
    """

    def build() -> dict[str, Tensor]:
        parts = _chunked(_scaffold_chunk, smiles, processes, progress, "scaffolds")
        return {"scaffolds": _packed([text for part in parts for text in part])}

    if len(smiles) < KEPT_FROM:
        return _unpacked(build()["scaffolds"])
    return _unpacked(cached(_key("scaffolds", smiles, None), build)["scaffolds"])


def canonical(smiles: Sequence[str], processes: int = 1) -> list[str]:
    """RDKit's own SMILES of each molecule, chirality included: equal where molecules are the same.

    Raises:
        InputError: A row is no molecule; `featurise` lists such rows.
    """

    def build() -> dict[str, Tensor]:
        parts = _chunked(_canonical_chunk, smiles, processes, False)
        return {"canonical": _packed([text for part in parts for text in part])}

    if len(smiles) < KEPT_FROM:
        return _unpacked(build()["canonical"])
    return _unpacked(cached(_key("canonical", smiles, None), build)["canonical"])


def fingerprints(smiles: Sequence[str], bits: int = 1024) -> npt.NDArray[np.bool_]:
    """Morgan fingerprints of radius 2 (G, bits).

    Raises:
        InputError: A row is no molecule; `featurise` lists such rows.
    """
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)
    found = np.zeros((len(smiles), bits), dtype=bool)
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            found[row] = generator.GetFingerprintAsNumPy(_molecule(text, row))
    return found


def _scaffold_chunk(smiles: Texts, first: int) -> list[str]:
    """The scaffolds of some rows, the first of which has the given number."""
    with rdBase.BlockLogs():
        mols = [_molecule(text, row) for row, text in enumerate(smiles, first)]
        return [MurckoScaffold.MurckoScaffoldSmiles(mol=mol, includeChirality=False) for mol in mols]


def _canonical_chunk(smiles: Texts, first: int) -> list[str]:
    """The canonical SMILES of some rows, the first of which has the given number."""
    with rdBase.BlockLogs():
        return [Chem.MolToSmiles(_molecule(text, row)) for row, text in enumerate(smiles, first)]


def _molecule(text: str | None, row: int) -> Any:
    """The molecule, or one sentence that says why there is none."""
    mol = _parse("smiles", text)
    if isinstance(mol, str):
        raise InputError(f"row {row} ({text!r}) is no molecule ({mol}); leave out the rows that featurise rejects.")
    return mol


# Reading --------------------------------------------------------------------------------------------------------------


def _parse(kind: str, text: str | None) -> Any:
    """The molecule a text describes, or the reason why it describes none."""
    if text is None or not text.strip():
        return "empty"
    if kind == "smiles" and not text.isascii() and not text.split(None, 1)[0].isascii():
        return "holds a character that SMILES do not have"  # RDKit would stop reading there and say nothing
    read = _reader(kind)
    mol = read(text)
    if mol is None:
        # Parsed once more, since capturing what RDKit says about every molecule would cost more than the few repeats.
        with getattr(rdBase, "CaptureErrorLog", rdBase.BlockLogs)() as capture:
            read(text)
        return _reason(getattr(capture, "messages", ""))
    return mol if mol.GetNumAtoms() else "no atoms"


def _reader(kind: str) -> Callable[[str], Any]:
    """What turns a text of that kind into a molecule or None."""
    return Chem.MolFromSmiles if kind == "smiles" else Chem.MolFromMolBlock


def _reason(log: str) -> str:
    """What RDKit logged about one text, in a few words."""
    lines = [re.sub(r"^\[[\d:]+\] ?", "", line) for line in log.splitlines()]
    first = next((line for line in lines if line.strip()), "RDKit cannot read it")
    words = re.sub(r"^SMILES Parse Error: ", "", first)
    words = re.sub(r",? (while parsing|for input):.*$", "", words)
    place = re.search(r"around (position \d+)", log)
    return re.sub(r"\s+", " ", words).strip() + (f" at {place[1]}" if place else "")


@dataclass(frozen=True)
class Part:
    """Some rows as arrays, as small as they can be sent from one process to another.

    Attributes:
        x: Atom codes (N, 9).
        index: Bonds in both directions, local to each molecule (2, E).
        attr: Bond codes (E, 3).
        nodes: Atoms of each molecule (G,).
        edges: Directed bonds of each molecule (G,).
        rows: Accepted rows (G,).
        rejected: The other rows and why.
        smiles: The SMILES of each molecule, where rows are mol blocks.
    """

    x: npt.NDArray[np.uint8]
    index: npt.NDArray[np.int32]
    attr: npt.NDArray[np.uint8]
    nodes: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    rejected: list[tuple[int, str]]
    smiles: list[str]


def _read_chunk(texts: Texts, first: int, kind: str) -> Part:
    """Parse some rows, the first of which has the given number."""
    atom: list[list[int]] = [[] for _ in ATOM]
    bond: list[list[int]] = [[] for _ in (*ENDS, *BOND)]
    counts: list[tuple[int, int, int]] = []
    rejected: list[tuple[int, str]] = []
    smiles: list[str] = []
    with rdBase.BlockLogs():
        for row, text in enumerate(texts, first):
            mol = _parse(kind, text)
            if isinstance(mol, str):
                rejected.append((row, mol))
                continue
            # By number, which takes half the time of RDKit's own iterators.
            atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
            bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
            for column, (read, _, _) in zip(atom, ATOM, strict=True):
                column.extend(map(read, atoms))
            for column, read in zip(bond, (*ENDS, *(read for read, _, _ in BOND)), strict=True):
                column.extend(map(read, bonds))
            counts.append((row, len(atoms), 2 * len(bonds)))
            if kind == BLOCK:
                smiles.append(Chem.MolToSmiles(mol))
    rows, nodes, edges = np.array(counts, dtype=np.int32).reshape(-1, 3).T
    ends = np.array(bond[:2], dtype=np.int32)  # (2, E / 2)
    return Part(
        _codes(atom, ATOM, FEATURES.node),
        np.stack([ends, ends[::-1]], 2).reshape(2, -1),  # there and back, one after the other
        _codes(bond[2:], BOND, FEATURES.edge).repeat(2, 0),
        nodes,
        edges,
        rows,
        rejected,
        smiles,
    )


def _codes(
    columns: Sequence[Sequence[int]],
    how: Sequence[tuple[Callable[[Any], int], int, Tensor | None]],
    features: Features,
) -> npt.NDArray[np.uint8]:
    """Codes (N, F) of what was read, each within its column."""
    codes = np.empty((len(columns[0]), len(columns)), dtype=np.uint8)
    for number, (values, (_, lowest, table), size) in enumerate(zip(columns, how, features.sizes, strict=True)):
        read = np.array(values, dtype=np.int64) - lowest
        codes[:, number] = np.clip(read if table is None else table.numpy()[read], 0, size - 1)
    return codes


# Many -----------------------------------------------------------------------------------------------------------------


def _chunked(
    work: Callable[[Texts, int], T], texts: Texts, processes: int, progress: bool, what: str = "molecules"
) -> list[T]:
    """What ``work`` makes of each stretch of rows, in order."""
    starts = range(0, len(texts), CHUNK)
    stretches = [list(texts[start : start + CHUNK]) for start in starts]
    with ExitStack() as stack:
        results: Iterable[T]
        if processes > 1 and len(stretches) > 1:
            # Forked, since others would import this package anew; the workers use nothing that keeps threads.
            pool = stack.enter_context(ProcessPoolExecutor(min(processes, len(stretches)), get_context("fork")))
            results = pool.map(work, stretches, starts)
        else:
            results = map(work, stretches, starts)
        return list(_shown(results, len(texts), what) if progress else results)


def _shown(results: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The results, with a bar on the error stream that goes as far as they do, and at the end the time it took."""
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


def worker_count() -> int:
    """How many processes may work at molecules here: one for each processor, one where processes cannot be forked."""
    may_fork = hasattr(os, "sched_getaffinity") and not current_process().daemon
    return len(os.sched_getaffinity(0)) if may_fork else 1


def _kept(kind: str, texts: Texts, processes: int, progress: bool, key: Mapping[str, Any] | None) -> Molecules:
    """The molecules of the texts, from disk where that pays and they were made before."""

    def build() -> dict[str, Tensor]:
        return _joined(_chunked(partial(_read_chunk, kind=kind), texts, processes, progress))

    worth = key is not None or len(texts) >= KEPT_FROM
    tensors = cached(_key(kind, texts, key), build) if worth else build()
    made = _molecules(tensors, texts)
    return replace(made, smiles=tuple(_unpacked(tensors["smiles"]))) if kind == BLOCK else made


def _key(kind: str, texts: Texts, key: Mapping[str, Any] | None) -> dict[str, Any]:
    """What decides the result: the texts, RDKit's version and this code's."""
    digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()
    made_by = {"molecules": kind, "version": VERSION, "rdkit": RDKIT, "texts": digest}
    return {**made_by, "key": dict(key or {})}


def _joined(parts: Sequence[Part]) -> dict[str, Tensor]:
    """All parts one after the other, as small as they are kept."""
    empty = _read_chunk([], 0, "smiles")
    joined = {
        name: torch.from_numpy(np.concatenate([getattr(part, name) for part in (empty, *parts)], axis))
        for name, axis in (("x", 0), ("index", 1), ("attr", 0), ("nodes", 0), ("edges", 0), ("rows", 0))
    }
    if joined["index"].numel() and int(joined["index"].max()) < 2**15:
        joined["index"] = joined["index"].short()
    joined["smiles"] = _packed([text for part in parts for text in part.smiles])
    return {**joined, "rejected": _packed([pair for part in parts for pair in part.rejected])}


def _molecules(tensors: dict[str, Tensor], texts: Texts) -> Molecules:
    """Graphs of what `_joined` made."""
    graphs = GraphSet(
        {"x": tensors["x"].long()},
        {"index": tensors["index"].long(), "attr": tensors["attr"].long()},
        {},
        _bounds(tensors["nodes"]),
        _bounds(tensors["edges"]),
    )
    rejected = tuple(Rejected(row, texts[row] or "", reason) for row, reason in _unpacked(tensors["rejected"]))
    return Molecules(graphs, tensors["rows"].long(), rejected)


def _packed(value: list[Any]) -> Tensor:
    """JSON values as a tensor of bytes, which the cache keeps."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _unpacked(tensor: Tensor) -> Any:
    """What `_packed` was given."""
    return json.loads(tensor.numpy().tobytes())


def _bounds(counts: Tensor) -> Tensor:
    """Running sums of counts (G,) with a leading zero (G + 1,)."""
    return torch.nn.functional.pad(counts.long().cumsum(0), (1, 0))


# Back to RDKit --------------------------------------------------------------------------------------------------------


def rebuilt(graph: Data) -> Any:
    """The molecule of atom and bond codes; nothing is checked that the codes were not checked for when made."""
    mol = Chem.RWMol()
    for element, _, _, charge, hydrogens, _, _, aromatic, _ in graph.x.tolist():
        atom = Chem.Atom(element)
        atom.SetFormalCharge(charge + ATOM[3][1])
        atom.SetNumExplicitHs(hydrogens)
        atom.SetNoImplicit(True)
        atom.SetIsAromatic(bool(aromatic))
        mol.AddAtom(atom)
    for (start, end), (kind, *_) in zip(graph.edge_index.T.tolist(), graph.edge_attr.tolist(), strict=True):
        if start < end:
            count = mol.AddBond(start, end, Chem.BondType.values[kind])
            mol.GetBondWithIdx(count - 1).SetIsAromatic(Chem.BondType.values[kind] == Chem.BondType.AROMATIC)
    mol.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(mol)
    return mol.GetMol()
