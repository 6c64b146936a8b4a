"""Properties of atoms: their sums are RDKit's descriptors, whatever the order of atoms and bonds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, Fragments, rdMolDescriptors
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import collect
from goodformer.transforms import Structure, encode
from goodformer.transforms.properties import LOGP_ENDS, NAMES, PLAIN, REFRACTIVITY_ENDS, groups, rebuilt
from tests.apply.molecules import molecules

SMILES = [
    *("C", "[Na+].[Cl-]", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C[N+](C)(C)CC(=O)[O-]"),
    *("c1ccc2c(c1)[nH]c1ccccc12", "FC(F)(F)c1cc(Br)c(I)c(Cl)c1", "C1CC2CCC1CC2", "CC#CC(N)=NS(=O)(=O)c1ccsc1"),
    *("OB(O)c1ccccc1", "C[C@H](N)C(=O)N[C@@H](CS)C(=O)O", "c1ccc(-c2ccccc2)cc1", "O=[Se]=O", "[H][H]", "*CC"),
    *molecules()[0][::7],
]
DESCRIPTORS: dict[str, Callable[[Any], float]] = {
    "logP": Crippen.MolLogP,
    "refractivity": Crippen.MolMR,
    "polar surface": rdMolDescriptors.CalcTPSA,
    "mass": Descriptors.MolWt,
    "rotatable bonds": lambda mol: rdMolDescriptors.CalcNumRotatableBonds(mol, 0),
    "rings": rdMolDescriptors.CalcNumRings,
    "atoms": Chem.Mol.GetNumAtoms,
    "charge": Chem.GetFormalCharge,
    "nitrogen or oxygen": rdMolDescriptors.CalcNumLipinskiHBA,
    "hydrogens of donors": rdMolDescriptors.CalcNumLipinskiHBD,
    **{
        f"surface, logP bin {place}": getattr(Descriptors, f"SlogP_VSA{place + 1}")
        for place in range(len(LOGP_ENDS) + 1)
    },
    **{
        f"surface, refractivity bin {place}": getattr(Descriptors, f"SMR_VSA{place + 1}")
        for place in range(len(REFRACTIVITY_ENDS) + 1)
    },
}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return collect(SMILES).graphs


def sums(values: Tensor, graphs: GraphSet) -> np.ndarray[Any, Any]:
    return np.stack([values[low:high].double().sum(0).numpy() for low, high in graphs.node_ptr.unfold(0, 2, 1)])


def test_further_columns_count_functional_groups(graphs: GraphSet) -> None:
    width = len(NAMES) + len(groups())
    found = encode(f"properties:{width}", graphs.structure(FEATURES))
    assert torch.equal(found[:, : len(NAMES)], encode(f"properties:{len(NAMES)}", graphs.structure(FEATURES)))
    counts = sums(found, graphs)[:, len(NAMES) :]
    molecules_ = [Chem.MolFromSmiles(one) for one in SMILES]
    known = [[count(mol) for _, count in Fragments.fns] for mol in molecules_]
    assert len(groups()) == len(Fragments.fns)
    np.testing.assert_allclose(counts, known, atol=1e-5)
    acid = [name for name, _ in groups()].index("fr_COO")
    assert counts[SMILES.index("CC(=O)Oc1ccccc1C(=O)O"), acid] == pytest.approx(1)


@pytest.mark.parametrize("name", list(DESCRIPTORS))
def test_sums_are_the_descriptors_of_rdkit(graphs: GraphSet, name: str) -> None:
    assert len(graphs) == len(SMILES)
    found = sums(encode(f"properties:{len(NAMES)}", graphs.structure(FEATURES)), graphs)[:, NAMES.index(name)]
    expected = [DESCRIPTORS[name](Chem.MolFromSmiles(one)) for one in SMILES]
    assert found == pytest.approx(expected, abs=1e-4)


def test_hydrogens_count_for_the_atom_that_they_are_bound_to(graphs: GraphSet) -> None:
    whole = graphs.structure(FEATURES)
    found = encode("properties:38", whole)
    assert whole.x is not None
    assert whole.edge_attr is not None
    for low, high in whole.ptr.unfold(0, 2, 1).tolist():
        here = (whole.edge_index[0] >= low) & (whole.edge_index[0] < high) & (whole.edge_index[0] < whole.edge_index[1])
        bonds = whole.edge_index[:, here] - low
        full = Chem.AddHs(rebuilt(whole.x[low:high].numpy(), bonds.numpy(), whole.edge_attr[here, 0].numpy()))
        expected = np.array(rdMolDescriptors._CalcCrippenContribs(full))
        for atom in list(full.GetAtoms())[high - low :]:
            expected[atom.GetNeighbors()[0].GetIdx()] += expected[atom.GetIdx()]
        np.testing.assert_allclose(found[low:high, :2], expected[: high - low], atol=1e-6)


def test_a_molecule_alone_has_the_values_that_it_has_among_others(graphs: GraphSet) -> None:
    width = len(NAMES) + len(groups())
    parts = [encode(f"properties:{width}", graphs.subset([place]).structure(FEATURES)) for place in range(len(graphs))]
    assert torch.equal(torch.cat(parts), encode(f"properties:{width}", graphs.structure(FEATURES)))


def test_the_order_of_atoms_and_bonds_does_not_matter(graphs: GraphSet) -> None:
    whole = graphs.structure(FEATURES)
    assert whole.x is not None
    assert whole.edge_attr is not None
    draw = torch.Generator().manual_seed(0)
    place = torch.cat(
        [low + torch.randperm(int(high - low), generator=draw) for low, high in whole.ptr.unfold(0, 2, 1)]
    )
    edges = torch.randperm(whole.edge_index.shape[1], generator=draw)
    number = torch.empty_like(place).scatter_(0, place, torch.arange(len(place)))
    mixed = Structure(
        number[whole.edge_index[:, edges]], whole.ptr, whole.x[place], whole.edge_attr[edges], whole.features
    )
    assert torch.allclose(encode("properties:38", mixed), encode("properties:38", whole)[place], atol=1e-5)


def test_other_graphs_have_degrees() -> None:
    star = Structure(torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), torch.tensor([0, 4, 5]))
    found = encode("properties:5", star)
    assert found[:, : len(PLAIN)].tolist() == [[3, 9, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert not found[:, len(PLAIN) :].any()
