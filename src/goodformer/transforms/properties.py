"""Properties of nodes whose sums describe a graph: for molecules, those that chemists call descriptors.

The only transform that imports RDKit. Letters: N nodes, n atoms of a molecule, k columns.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.transforms.adjacency import simple_adjacency
from goodformer.transforms.environments import CHARGE, CHARGE_OFFSET, ELEMENT, HYDROGENS, MOLECULE, RING
from goodformer.transforms.structure import Structure

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

VERSION = 2
"""Increase this when the values change, so that cached encodings are recomputed."""
HYBRIDISATION, AROMATIC, SP3 = 6, 7, 4
"""Further columns of the atom features, and the code of sp3."""
LOGP_ENDS = (-0.4, -0.2, 0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
REFRACTIVITY_ENDS = (1.29, 1.82, 2.24, 2.45, 2.75, 3.05, 3.63, 3.8, 4.0)
"""Ends of the bins of SlogP_VSA and SMR_VSA."""
COMPUTED = ("logP", "refractivity", "polar surface", "surface")
"""Columns that RDKit computes atom by atom."""
NAMES = (
    *(*COMPUTED, "mass", "donor", "hydrogens of donors", "nitrogen or oxygen"),
    *("aromatic", "in a ring", "halogen", "atoms", "sp3 carbon", "rotatable bonds", "rings", "charge"),
    *(f"surface, logP bin {place}" for place in range(len(LOGP_ENDS) + 1)),
    *(f"surface, refractivity bin {place}" for place in range(len(REFRACTIVITY_ENDS) + 1)),
)
"""First columns of atoms; the sum of each over a molecule is one of its descriptors. `groups` follow."""
PLAIN = ("degree", "squared degree", "leaves")
"""Columns of nodes of other graphs."""
HALOGENS, CARBON, NITROGEN_OXYGEN, HYDROGEN_MASS = (9, 17, 35, 53, 85), 6, (7, 8), 1.008
SINGLE, TRIPLE, AROMATIC_BOND = 1, 3, 12
"""RDKit's numbers of elements and of bond types."""


def properties(graphs: Structure, width: int) -> Tensor:
    """Return the first ``width`` columns of `NAMES` and `groups`, or of `PLAIN` for other graphs, (N, k), float32.

    Contributions to logP and molar refractivity are those of Wildman & Crippen, to the polar surface those of Ertl, to
    the surface those of Labute, all from RDKit. Hydrogens count for the atom that they are bound to. A rotatable bond
    counts half for each end, and a ring of n atoms 1 / n for each. In the next columns the surface of an atom stands in
    the bins of its own contributions to logP and refractivity. Then follows one column for each functional group of
    RDKit (acids, esters, amines, ...): a group of n atoms counts 1 / n for each. Columns that a graph does not have are
    zero.

    Paper: Wildman & Crippen, "Prediction of Physicochemical Parameters by Atomic Contributions", 1999; Ertl et al.,
    "Fast Calculation of Molecular Polar Surface Area", 2000; Labute, "A Widely Applicable Set of Descriptors", 2000.
    """
    nodes = int(graphs.ptr[-1])
    found = np.zeros((nodes, max(width, len(NAMES))), dtype=np.float32)
    if graphs.features != MOLECULE or graphs.x is None or graphs.edge_attr is None:
        degree = simple_adjacency(graphs.edge_index, np.arange(nodes)).sum(1)
        found[:, : len(PLAIN)] = np.stack((degree, degree**2, degree == 1), 1)
        return torch.from_numpy(found[:, :width].copy()).to(graphs.edge_index.device)
    x, ptr = graphs.x.cpu().numpy(), graphs.ptr.cpu().numpy()
    once = graphs.edge_index[0] < graphs.edge_index[1]  # each bond in one direction
    ends, kind = graphs.edge_index[:, once].cpu().numpy(), graphs.edge_attr[once, 0].cpu().numpy()
    graph = np.searchsorted(ptr, ends[0], "right") - 1
    order = np.argsort(graph, kind="stable")
    ends, kind, bounds = ends[:, order], kind[order], np.searchsorted(graph[order], np.arange(len(ptr)))
    wanted = groups()[: width - len(NAMES)] if width > len(NAMES) else ()
    own, cyclic = np.zeros((nodes, 2)), np.zeros(len(kind), dtype=bool)
    for first, last, start, stop in zip(ptr[:-1], ptr[1:], bounds[:-1], bounds[1:], strict=True):
        mol = rebuilt(x[first:last], ends[:, start:stop] - first, kind[start:stop])
        own[first:last], found[first:last, : len(COMPUTED)] = _computed(mol, x[first:last, HYDROGENS])
        found[first:last, NAMES.index("rings")], cyclic[start:stop] = _rings(mol)
        for column, (_, group) in enumerate(wanted, len(NAMES)):
            for match in mol.GetSubstructMatches(group):
                found[np.add(first, match), column] += 1 / len(match)
    for name, values in _read(x, ends, kind, cyclic).items():
        found[:, NAMES.index(name)] = values
    for value, limits, name in ((own[:, 0], LOGP_ENDS, "logP"), (own[:, 1], REFRACTIVITY_ENDS, "refractivity")):
        place = NAMES.index(f"surface, {name} bin 0") + np.searchsorted(limits, value, "right")
        found[np.arange(nodes), place] = found[:, NAMES.index("surface")]
    return torch.from_numpy(found[:, :width].copy()).to(graphs.edge_index.device)


def rebuilt(x: Ints, bonds: Ints, kinds: Ints) -> Any:
    """Return the RDKit molecule of atom codes, and bonds in their order, without checking it."""
    from rdkit import Chem

    mol = Chem.RWMol()
    for element, charge, hydrogens, aromatic in x[:, [ELEMENT, CHARGE, HYDROGENS, AROMATIC]].tolist():
        atom = Chem.Atom(element)
        atom.SetFormalCharge(charge - CHARGE_OFFSET)
        atom.SetNumExplicitHs(hydrogens)
        atom.SetNoImplicit(True)
        atom.SetIsAromatic(bool(aromatic))
        mol.AddAtom(atom)
    for start, end, kind in zip(*bonds.tolist(), kinds.tolist(), strict=True):
        number = mol.AddBond(start, end, Chem.BondType.values[kind])
        mol.GetBondWithIdx(number - 1).SetIsAromatic(kind == AROMATIC_BOND)
    mol.UpdatePropertyCache(strict=False)
    Chem.GetSymmSSSR(mol)
    return mol.GetMol()


@cache
def groups() -> tuple[tuple[str, Any], ...]:
    """Return name and pattern of RDKit's functional groups."""
    from rdkit import Chem
    from rdkit.Chem import Fragments

    lines = Path(Fragments.defaultPatternFileName).read_text(encoding="utf-8").splitlines()
    fields = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple((one[0], Chem.MolFromSmarts(one[2])) for one in fields if len(one) >= 3)


def _computed(mol: Any, hydrogens: Ints) -> tuple[Floats, Floats]:
    """Return contributions of atoms without their hydrogens to logP and refractivity (n, 2), and `COMPUTED` (n, 4)."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    each = np.array(rdMolDescriptors._CalcCrippenContribs(Chem.AddHs(mol))).reshape(-1, 2)
    own, whole = each[: len(hydrogens)], each[: len(hydrogens)].copy()
    np.add.at(whole, np.arange(len(hydrogens)).repeat(hydrogens), each[len(hydrogens) :])  # added atom by atom
    surface = rdMolDescriptors._CalcLabuteASAContribs(mol)[0]
    return own, np.column_stack((whole, rdMolDescriptors._CalcTPSAContribs(mol), surface))


def _rings(mol: Any) -> tuple[Floats, list[bool]]:
    """Return the share of each atom in the rings that it is in (n,), and whether each bond is in a ring."""
    rings, share = mol.GetRingInfo(), np.zeros(mol.GetNumAtoms())
    for ring in rings.AtomRings():
        share[list(ring)] += 1 / len(ring)
    return share, [rings.NumBondRings(number) > 0 for number in range(mol.GetNumBonds())]


def _read(x: Ints, bonds: Ints, kinds: Ints, cyclic: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns that need only codes of atoms (N, 9), bonds and whether these are in a ring, each (N,)."""
    element, hydrogens = x[:, ELEMENT], x[:, HYDROGENS]
    polar = np.isin(element, NITROGEN_OXYGEN)
    inner = np.bincount(bonds.reshape(-1), minlength=len(x)) > 1
    inner[bonds[:, kinds == TRIPLE]] = False
    free = (kinds == SINGLE) & inner[bonds].all(0) & ~cyclic
    return {
        "mass": _masses()[element] + HYDROGEN_MASS * hydrogens,
        "donor": polar & (hydrogens > 0),
        "hydrogens of donors": polar * hydrogens,
        "nitrogen or oxygen": polar,
        "aromatic": x[:, AROMATIC],
        "in a ring": x[:, RING],
        "halogen": np.isin(element, HALOGENS),
        "atoms": np.ones(len(x)),
        "sp3 carbon": (element == CARBON) & (x[:, HYBRIDISATION] == SP3),
        "rotatable bonds": np.bincount(bonds[:, free].reshape(-1), minlength=len(x)) / 2,
        "charge": x[:, CHARGE] - CHARGE_OFFSET,
    }


@cache
def _masses() -> Floats:
    """Return the mass of an atom of each element."""
    from rdkit import Chem

    return np.array([Chem.Atom(element).GetMass() for element in range(MOLECULE.node.sizes[ELEMENT])])
